//! Acquire and release, alone and with 64 workers, beside the floor: the bare five commands on bare
//! fred clients.
//!
//!     compose/with-masters cargo bench --bench speed
#![allow(
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::cast_precision_loss,
    clippy::missing_errors_doc,
    clippy::must_use_candidate,
    reason = "a program, which benches/peers shares"
)]

#[path = "speed/mod.rs"]
mod speed;

fn main() -> Result<(), String> {
    speed::run(|_| Ok(Vec::new()))
}
