//! Acquire and release, alone and with 64 workers, beside the floor: the bare five commands on bare
//! fred clients.
//!
//!     compose/with-masters cargo bench --bench speed
#![expect(
    unreachable_pub,
    missing_docs,
    clippy::cast_precision_loss,
    reason = "a program"
)]

mod speed {
    include!("speed/mod.rs");
}

fn main() -> Result<(), String> {
    speed::run(|_| Ok(Vec::new()))
}
