//! What is counted and timed, for the [`metrics`](https://docs.rs/metrics) facade (feature
//! `metrics`).
//!
//! fredlock hands its figures to whatever recorder the process has installed: an exporter for
//! Prometheus, OpenTelemetry, statsd. The constants here are the names and labels that they carry
//! there; [operating masters](crate::guide::operating#what-to-watch) says what to alert on.
//!
//! **Install the recorder before the [`Redlock`](crate::Redlock) is built.** Every handle is taken
//! then, so that counting costs no look-up and no allocation; a recorder that comes later is told
//! nothing by it. For the same reason a recorder should not drop what is idle: it would not come
//! back.
//!
//! Every counter begins at zero, so that the first loss shows as an increase. What several
//! `Redlock`s of one process count is added up. No figure is labelled with a resource, a token or
//! an owner: of those there are too many, and a token is a secret. The names of masters are those
//! of [`Outcome::master`](crate::Outcome::master).
//!
//! ```
//! # #[cfg(feature = "testing")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use fredlock::{Redlock, metrics};
//! use metrics_exporter_prometheus::PrometheusBuilder;
//!
//! let exporter = PrometheusBuilder::new().install_recorder().expect("no other recorder");
//! metrics::describe();
//! # let masters = fredlock::testing::MemoryMasters::new(3);
//! # let connect = Redlock::builder().memory(&masters).connect();
//! # stringify! {
//! let connect = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
//! # };
//! let redlock = connect.await.expect("masters");
//! let lock = redlock.acquire(["invoice:4821"], std::time::Duration::from_secs(5)).await.expect("free");
//!
//! let text = exporter.render(); // what a scrape is answered with
//! assert!(text.contains(r#"fredlock_acquisitions_total{outcome="acquired"} 1"#));
//! # drop(lock);
//! # });
//! ```

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Counter, by [`LABEL_OUTCOME`]: calls of `acquire`, `try_acquire` and `using` that asked for a
/// lock, once each when it is known what they came to, however many attempts that took.
///
/// `acquired`; `busy`, `no_quorum`, `quarantined`, `expired`, `fence_exhausted` and `shut_down` as
/// the variants of [`AcquireError`](crate::AcquireError), where one whose wait limit ran out counts
/// as what its last attempt came to; `cancelled` if the future was dropped. What is refused for its
/// arguments alone is not counted.
pub const ACQUISITIONS: &str = "fredlock_acquisitions_total";

/// Counter, by [`LABEL_OUTCOME`]: attempts, of which an acquisition that waits makes several. What
/// was written by any but those that `acquired` is rolled back.
///
/// The outcomes are those of [`ACQUISITIONS`], without `shut_down`.
pub const ATTEMPTS: &str = "fredlock_attempts_total";

/// Gauge: acquisitions under way, whether they wait for their turn, for time to pass, or for an
/// answer.
pub const WAITING: &str = "fredlock_waiting";

/// Histogram, in seconds: from asking for a lock until it was held. Only of those that were
/// acquired.
pub const WAIT: &str = "fredlock_wait_seconds";

/// Gauge: locks that this process holds.
///
/// A lock that nobody extends stays in it until its handle is looked at by an extension, released
/// or dropped.
pub const HELD: &str = "fredlock_held";

/// Histogram, in seconds: from when a lock was held until it was given back (released, dropped,
/// forgotten, its routine ended) or lost, and never beyond its validity.
pub const HOLD: &str = "fredlock_hold_seconds";

/// Counter, by [`LABEL_REASON`]: locks that ended before they were given back, once each, when it
/// is noticed.
///
/// `expired` (the validity ended), `gone` (too many masters had no key of ours), `hold_limit` and
/// `shut_down`, as the variants of [`LostReason`](crate::LostReason). A lock outside of
/// [`using`](crate::Redlock::using) can be noticed to have `expired` or to be `gone` only.
pub const LOST: &str = "fredlock_lost_total";

/// Counter, by [`LABEL_OUTCOME`]: extensions, by a `using` or by
/// [`Lock::extend`](crate::Lock::extend), once each, however many rounds that took.
///
/// `extended`; `gone`, `expired` and `shut_down` as the variants of
/// [`ExtendError`](crate::ExtendError) (`Lost` is `gone`); `cancelled` if it was not waited for to
/// its end, as by a routine that had ended meanwhile.
pub const EXTENSIONS: &str = "fredlock_extensions_total";

/// Counter: rounds of extensions that had no quorum and were to be tried again. Every one of them
/// is a warning: validity runs out meanwhile.
pub const EXTENSION_RETRIES: &str = "fredlock_extension_retries_total";

/// Histogram, in seconds: how much later than it was planned a `using` was extended: from when it
/// was due until a quorum had agreed. With all well, it is the time that masters take.
pub const EXTENSION_LATENESS: &str = "fredlock_extension_lateness_seconds";

/// Histogram, in seconds: how much validity was left when a lock was extended. Near zero it was
/// nearly lost.
pub const EXTENSION_LEFT: &str = "fredlock_extension_validity_left_seconds";

/// Counter, by [`LABEL_OUTCOME`]: locks that were released, once each; those of `using` too.
///
/// `released`; `expired`, `gone` and `no_quorum` as the variants of
/// [`ReleaseError`](crate::ReleaseError) (`Lost` is `gone`); `dropped` if nobody waited for the
/// answers: the lock, or the future of its release, was dropped. One of a `using` that was lost
/// before ends here as `expired` or `gone` as a rule.
pub const RELEASES: &str = "fredlock_releases_total";

/// Counter: releases and roll-backs that some master did not answer for so long that what may stand
/// there was left to its ttl.
pub const LEFT_TO_TTL: &str = "fredlock_left_to_ttl_total";

/// Histogram, in seconds, by [`LABEL_MASTER`]: from asking a master for its part of an acquisition,
/// extension or release until its answer, with the time in the queue in front of it, stragglers
/// included. A refusal or an error of the server is an answer; where there was none, only
/// [`MASTER_ERRORS`] counts.
///
/// Inspections and health checks are not in it.
pub const MASTER_ANSWER: &str = "fredlock_master_answer_seconds";

/// Counter, by [`LABEL_MASTER`] and [`LABEL_ERROR`]: what was asked of a master, as for
/// [`MASTER_ANSWER`], and had no useful answer.
///
/// `timeout`, `connection_lost`, `not_connected`, `unresponsive`, `unfit`, `server` and
/// `unexpected`, as the variants of [`MasterError`](crate::MasterError).
pub const MASTER_ERRORS: &str = "fredlock_master_errors_total";

/// Counter, by [`LABEL_MASTER`]: locks that a master had lost while a quorum had them, and that an
/// extension put back there. A master that has any has forgotten something: it restarted empty,
/// evicts, or was flushed.
pub const PUT_BACKS: &str = "fredlock_put_backs_total";

/// The label that says what something came to.
pub const LABEL_OUTCOME: &str = "outcome";

/// The label that says how a lock was lost.
pub const LABEL_REASON: &str = "reason";

/// The label with the name of a master, as in [`Outcome::master`](crate::Outcome::master).
pub const LABEL_MASTER: &str = "master";

/// The label with the kind of a master's error.
pub const LABEL_ERROR: &str = "error";

/// Tells the recorder what each figure is, and its unit where it has one: call it once, after the
/// recorder was installed. Counting works without.
pub fn describe() {
    for (name, text) in COUNTERS {
        // No unit: `Count` would end up in names that exporters make of these.
        describe_counter!(name, text);
    }
    for (name, text) in GAUGES {
        describe_gauge!(name, text);
    }
    for (name, text) in SECONDS {
        describe_histogram!(name, Unit::Seconds, text);
    }
}

const COUNTERS: [(&str, &str); 9] = [
    (
        ACQUISITIONS,
        "Calls that asked for a lock, by what they came to",
    ),
    (ATTEMPTS, "Attempts to acquire a lock, by what they came to"),
    (
        LOST,
        "Locks that ended before they were given back, by reason",
    ),
    (EXTENSIONS, "Extensions of locks, by what they came to"),
    (
        EXTENSION_RETRIES,
        "Rounds of extensions without a quorum of masters",
    ),
    (
        RELEASES,
        "Locks that were released, by what the release came to",
    ),
    (
        LEFT_TO_TTL,
        "Releases and roll-backs that a master did not answer, left to the ttl there",
    ),
    (
        MASTER_ERRORS,
        "Requests without a useful answer, by master and kind of error",
    ),
    (
        PUT_BACKS,
        "Locks that a master had lost and an extension put back there",
    ),
];

const GAUGES: [(&str, &str); 2] = [(WAITING, "Acquisitions under way"), (HELD, "Locks held")];

const SECONDS: [(&str, &str); 5] = [
    (WAIT, "From asking for a lock until it was held"),
    (
        HOLD,
        "From when a lock was held until it was given back or lost",
    ),
    (
        EXTENSION_LATENESS,
        "How much later than planned a lock was extended",
    ),
    (EXTENSION_LEFT, "Validity left when a lock was extended"),
    (MASTER_ANSWER, "From asking a master until its answer"),
];
