//! The runs that are made.

use std::time::Duration;

use fredlock::testing::Mutant;
use tokio::sync::Mutex;

use crate::{
    plan::{Plan, from_environment},
    run::run,
    schedule::{LANES, Lane},
};

/// How long the normal tests take; `FREDLOCK_CHAOS_SECONDS` sets another time.
const SECONDS: u64 = 60;
/// From here on every kind of fault must have come.
const SECONDS_FOR_ALL: u64 = 60;

/// A run shares its process with no test that keeps the cores busy.
pub(crate) static ALONE: Mutex<()> = Mutex::const_new(());

fn plan() -> Plan {
    let seconds = from_environment("FREDLOCK_CHAOS_SECONDS").unwrap_or(SECONDS);
    Plan {
        seed: from_environment("FREDLOCK_CHAOS_SEED").unwrap_or_else(rand::random),
        lasts: Duration::from_secs(seconds),
        persistent: true,
        mutant: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_guarantee_holds_on_real_masters_that_come_and_go() {
    let _alone = ALONE.lock().await;
    let plan = plan();
    let report = run(&plan).await;
    println!("{report}");
    assert!(
        report.violations.is_empty(),
        "{report}\nthe same faults again:\n    FREDLOCK_CHAOS_SEED={} FREDLOCK_CHAOS_SECONDS={} cargo test --all-features --test chaos every_guarantee -- --nocapture\n",
        plan.seed,
        plan.lasts.as_secs()
    );
    let seconds = usize::try_from(plan.lasts.as_secs()).unwrap();
    assert!(
        report.acquisitions > seconds,
        "too few acquisitions to tell anything"
    );
    let kinds = LANES.iter().flat_map(Lane::kinds);
    for kind in kinds.filter(|_| plan.lasts.as_secs() >= SECONDS_FOR_ALL) {
        let count = report.faults.get(kind).copied().unwrap_or_default();
        assert!(count > 0, "{kind:?} was never injected");
    }
    assert!(report.losses > 0, "no loss was noticed");
    assert!(
        report.signals.timed > 0 || plan.lasts.as_secs() < SECONDS_FOR_ALL,
        "no signal was timed"
    );
}

/// How often a run that has to find a violation is repeated.
const ROUNDS_MAX: u64 = 8;
const ROUND: Duration = Duration::from_secs(20);

/// Runs until a violation is found.
async fn is_noticed(persistent: bool, mutant: Option<Mutant>) {
    let first = plan().seed;
    for round in 0..ROUNDS_MAX {
        let report = run(&Plan {
            seed: first.wrapping_add(round),
            lasts: ROUND,
            persistent,
            mutant,
        })
        .await;
        println!("{mutant:?}, round {}: {report}", round + 1);
        if !report.violations.is_empty() {
            return;
        }
    }
    panic!("{mutant:?} was not noticed within {ROUNDS_MAX} runs of {ROUND:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or more: tests the chaos itself"]
async fn clients_that_use_one_token_for_all_attempts_are_noticed() {
    is_noticed(true, Some(Mutant::OneToken)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or more: tests the chaos itself"]
async fn clients_that_count_validity_from_the_reply_are_noticed() {
    is_noticed(true, Some(Mutant::WindowFromReply)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or more: tests the chaos itself"]
async fn clients_that_count_a_quorum_of_the_connected_masters_are_noticed() {
    is_noticed(true, Some(Mutant::QuorumOfConnected)).await;
}

/// An assumption is shown to be one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute or more: tests the chaos itself"]
async fn masters_that_restart_empty_are_noticed() {
    is_noticed(false, None).await;
}
