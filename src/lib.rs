//! Locks over several independent Redis or Valkey masters, which go on while some of them fail, tell
//! their holder in time when they are lost, and give every holder a fencing token.
//!
//! fredlock implements [Redlock](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)
//! over N masters without replication between them, five as a rule, on the [`fred`] client and tokio.
//!
//! # Quickstart
//!
//! ```no_run
//! # async fn bill(_: &str, _: fredlock::Fence) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use fredlock::Redlock;
//! use std::time::Duration;
//!
//! let redlock = Redlock::connect([
//!     "redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3", "redis://10.0.0.4", "redis://10.0.0.5",
//! ]).await?;
//! redlock
//!     .using(["invoice:4821"], Duration::from_secs(5), async |signal| {
//!         signal.check()?; // an error once the lock is no longer ours
//!         bill("4821", signal.fence()).await // the ledger refuses an older fence
//!     })
//!     .await?
//! # }
//! ```
//!
//! [`Redlock::using`] runs a routine under a lock that is extended as long as it runs.
//! [`Redlock::inspect`] tells who holds what, [`Redlock::health`] whether locks can be had. [`Redlock::acquire`] gives a [`Lock`] to extend and release by hand; [`Redlock::try_acquire`]
//! does not wait.
//!
//! What happens is told by [`tracing`](https://docs.rs/tracing) spans and events with the target
//! `fredlock`: losses, masters that hang or must not vote, and releases that failed as warnings. The feature
//! `metrics` counts and times it.
//!
//! # Guarantees
//!
//! - **Exclusion.** At most one holder's validity covers any moment, if the clocks of masters and
//!   clients run at rates that differ by less than the drift factor ([`Builder::drift_factor`]), and
//!   masters keep what they acknowledged, or the restart guard ([`Builder::restart_guard`]) covers it.
//! - **Fences.** Of any two acquisitions of which the first was held before the second began, the
//!   second has the larger [`Fence`], with no assumption about time, while a quorum of masters remembers.
//! - **Notice.** A holder's [`Signal`] fires no later than the end of its validity, measured on its
//!   own clock, whatever the network does; every look at it compares the clock.
//! - **Cleanliness.** An acquisition that failed, was cancelled, or was released leaves no key for
//!   longer than one ttl after the last of its commands reached a master; where masters answer, it
//!   leaves none at all. (The fence itself stays for its retention: see [`Fencing`].)
//!
//! # Limits
//!
//! - A lock cannot stop the write of a holder that was paused past its validity: it thinks that it
//!   holds the lock until it looks. That is what the fence is for, at the resource that is protected:
//!   [`Gate`] and [`fenced`] compare it in a process and on a Redis or Valkey server, and
//!   [fenced resources](guide::fencing) says how PostgreSQL, files and object stores do.
//! - What is in one PostgreSQL database is often better locked by that: see [when
//!   PostgreSQL does the job better](guide::postgresql).
//! - A master that restarts empty has forgotten its locks and fences: then two holders are possible.
//!   Give masters persistence with `appendfsync always`, or set a restart guard
//!   ([`Builder::restart_guard`]) or a larger quorum ([`Builder::quorum`]); and
//!   `maxmemory-policy noeviction`.
//! - Every client must have the same masters, with the same databases. Two lists that share too few
//!   of them exclude nothing.
//! - Time in which the machine is suspended counts on Linux and Android, and on Windows. Elsewhere the
//!   clock stands still (it is Rust's `Instant`), and a holder that wakes up is a paused holder.
//! - Waiters of one process are served in the order in which they came, and those of several in none.
//!   What wakes them are hints; where there are none, they poll by their retry policy ([`Retry`]).
//!
//! # The command-line tool
//!
//! `cargo install --locked --path . --features cli` in a checkout gives `fredlock`, which holds a lock
//! while a command runs, shows who holds what, and looks at masters: see [the tool](guide::tool).
//!
//! # Guide
//!
//! | document | for |
//! | --- | --- |
//! | [settings](guide::settings) | every setting, and how waiting works |
//! | [operating masters](guide::operating) | how many, their settings, those that forget, permissions |
//! | [fenced resources](guide::fencing) | making what you protect refuse an earlier holder |
//! | [PostgreSQL](guide::postgresql) | when its own locks do the job better |
//! | [troubleshooting](guide::troubleshooting) | what an error text means |
//! | [from node-redlock](guide::from_node_redlock) | its code and ours, side by side |
//! | [beside other clients](guide::comparison) | what others do, feature by feature |
//! | [design](guide::design) | the protocol, and the reason for each rule |
//!
//! # Layout
//!
//! | module | what |
//! | --- | --- |
//! | `redlock`, `builder`, `fleet`, `settings` | the handle, how it is built, of what, what can be set |
//! | `lock`, `using`, `keeper`, `alarm`, `signal` | a lock that is held; a routine under one; what extends it, also while a thread of the runtime is blocked; how it learns of a loss |
//! | `attempt`, `extension`, `claim` | the protocol: one attempt; one extension; the duty to take back what was written |
//! | `inspect`, `health`, `initialise` | what the masters have of a resource; which of them can vote; masters that need not wait out a restart guard |
//! | `breaking` | an operator's break of a lock, for the tool (feature `cli`) |
//! | `wait` | the queue of a process; what ends a pause: notices of masters, time left, the retry delay |
//! | `round`, `answers`, `quorum` | one fan-out to the masters; where its answers are put; the counting of votes and time, which is pure |
//! | `gate`, [`fenced`] | the protected side: what refuses an older fence in one process, and on a Redis or Valkey server |
//! | `resources`, `token`, `mark`, `label`, `fence`, `retry`, `outcome`, `error` | values |
//! | `master` | the seam to a master, with the queue, the scripts, and fred behind it |
//! | `core`, `background`, `clock`, `entropy`, `telemetry` | what all handles share; tasks that outlive their call; the time of day; random numbers; events |
//! | `metrics`, `meter` | the names of what is counted and timed (feature `metrics`); what counts it |
//! | `guide` | the documents of the repository, in the documentation only |
//! | `testing`, `mutant` | in-memory masters (feature `testing`); rules that the simulation breaks on purpose |
//!
//! # Features
//!
//! | feature | what |
//! | --- | --- |
//! | `rustls` | TLS to the masters (`rediss://…`), by rustls with ring |
//! | `cli` | the command-line tool `fredlock`; nothing for the library |
//! | `metrics` | counts and times for the [`metrics`](https://docs.rs/metrics) facade, by which exporters for Prometheus and others get them; without the feature nothing is measured |
//! | `serde` | [`Fence`] as a number in what serde reads and writes |
//! | `testing` | in-memory masters, with faults of theirs, of their clocks and of the network, for the tests of your own service |
//!
//! None is on by default. [`fred`] is part of the public surface; a feature of fred that is
//! turned on elsewhere in the build (`enable-native-tls`, say) works here too.

mod alarm;
mod answers;
mod attempt;
mod background;
#[cfg(feature = "cli")]
mod breaking;
mod builder;
mod claim;
mod clock;
mod core;
mod entropy;
mod error;
mod extension;
mod fence;
pub mod fenced;
mod fleet;
mod gate;
#[cfg(all(doc, not(doctest)))]
pub mod guide;
mod health;
mod initialise;
mod inspect;
mod keeper;
mod label;
mod lock;
mod mark;
mod master;
#[cfg_attr(not(feature = "metrics"), path = "meter/off.rs")]
mod meter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg_attr(
    not(feature = "testing"),
    allow(dead_code, unreachable_pub, reason = "only a simulation breaks rules")
)]
mod mutant;
mod outcome;
mod progress;
mod quorum;
#[cfg(doctest)]
mod readme;
mod redlock;
mod resources;
mod retry;
mod round;
mod settings;
mod signal;
mod telemetry;
mod token;
mod using;
mod wait;

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use breaking::{BreakError, BreakPlan, BreakState, Broken, BrokenMaster};
pub use builder::{BuildError, Builder, MASTERS_MAX};
pub use error::{
    AcquireError, Attempts, ExtendError, InvalidTtl, ReleaseError, TTL_MAX, TTL_MIN, UsingError,
};
pub use fence::{Fence, Fencing, InvalidFence};
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use fleet::config_of;
pub use fred;
pub use gate::{Gate, Refused};
pub use health::{Health, MasterHealth, MasterState};
pub use initialise::{Initialisation, InitialiseError, InitialiseState, InitialisedMaster};
pub use inspect::{Finding, GuardState, Holder, InspectError, Inspection, KeyState, Possession};
pub use label::{InvalidLabel, LABEL_BYTES_MAX, OwnerLabel};
pub use lock::Lock;
pub use outcome::{Answer, MasterError, Outcome, Outcomes};
pub use redlock::Redlock;
pub use resources::{InvalidResources, NAME_BYTES_MAX, RESOURCES_MAX, Resources};
pub use retry::{Retry, RetryCount};
pub use settings::{AbortMode, Settings};
pub use signal::{LostReason, Signal};
pub use token::Token;
