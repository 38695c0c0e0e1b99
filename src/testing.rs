//! In-memory masters, for the tests of services that use fredlock, and what can go wrong with them:
//! faults of a master and of its clock ([`MemoryMasters`]), of the network ([`Fate`]), and a client
//! that stands still ([`Pause`]).
//!
//! They keep to the semantics of real masters, open no socket, and live on tokio's clock, so that
//! tests on paused time see locks expire at once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use fredlock::{Redlock, testing::MemoryMasters};
//! use std::time::Duration;
//!
//! let masters = MemoryMasters::new(5);
//! let redlock = Redlock::builder().memory(&masters).connect().await?;
//! let lock = redlock.acquire(["job"], Duration::from_secs(1)).await?;
//! masters.stop(0);
//! masters.stop(1); // two of five may fail
//! lock.release().await?;
//! # Ok(()) }
//! ```

mod clock;
mod conform;
mod link;
mod memory;
mod network;
mod pause;
mod server;
mod store;

pub use memory::MemoryMasters;
pub use network::{Fate, Message, MessageKind};
pub use pause::Pause;

#[doc(hidden)]
pub use crate::mutant::Mutant;
#[doc(hidden)]
pub use conform::{Agreed, conform};
pub(crate) use link::Link;
