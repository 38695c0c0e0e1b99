//! Many seeds, and one again.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    faults::Injected,
    plan::{Plan, Weather},
    run::run,
};

/// How many seeds the normal tests take; `FREDLOCK_SIM_SEEDS` sets another number.
const SEEDS: u64 = 10_000;

pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
    )
}

/// Runs the plan, and panics with the trace and the command that replays it with that test.
fn run_or_panic(plan: &Plan, totals: &Injected, replay: &str) -> usize {
    let outcome = run(plan);
    totals.add(&outcome.injected);
    assert!(
        outcome.violations.is_empty(),
        "{plan:?}\n{}\nseed {} violates:\n- {}\nreplay it with\n    FREDLOCK_SIM_SEED={} cargo test --all-features --test sim {replay} -- --nocapture\n",
        outcome.trace,
        plan.seed,
        outcome.violations.join("\n- "),
        plan.seed
    );
    outcome.holds
}

/// Runs so many seeds, and panics at the first that violates anything. Gives the number of holds.
pub(crate) fn run_all(
    seeds: u64,
    plan_of: fn(u64) -> Plan,
    totals: &Injected,
    replay: &str,
) -> u64 {
    let (next, holds) = (AtomicU64::new(0), AtomicU64::new(0));
    let first_failure = Mutex::new(None);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || first_failure.lock().unwrap().is_some() {
                        return;
                    }
                    let plan = plan_of(seed);
                    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        run_or_panic(&plan, totals, replay)
                    })) {
                        Ok(count) => drop(holds.fetch_add(count as u64, Ordering::Relaxed)),
                        Err(_) => *first_failure.lock().unwrap() = Some(seed),
                    }
                }
            });
        }
    });
    let failure = *first_failure.lock().unwrap();
    assert_eq!(failure, None, "a seed failed; its trace is above");
    holds.into_inner()
}

#[test]
fn every_guarantee_holds_for_every_seed() {
    let seeds = from_environment("FREDLOCK_SIM_SEEDS").unwrap_or(SEEDS);
    let totals = Injected::default();
    let holds = run_all(seeds, Plan::of, &totals, "replay");
    println!("{seeds} seeds, {holds} holds, faults injected:");
    for (kind, count) in totals.table() {
        println!("    {kind:<18}{count:>9}");
        assert!(count > 0 || seeds < SEEDS, "{kind} was never injected");
    }
    assert!(holds > seeds * 3, "locks were held at all");
}

/// Runs one seed, given by `FREDLOCK_SIM_SEED`, and shows its trace.
#[test]
fn replay() {
    replay_of(Plan::of);
}

/// Runs one seed twice, and shows its trace.
pub(crate) fn replay_of(plan_of: fn(u64) -> Plan) {
    let seed = from_environment("FREDLOCK_SIM_SEED").unwrap_or(0);
    let plan = plan_of(seed);
    let first = run(&plan);
    println!("{plan:?}\n{}", first.trace);
    let again = run(&plan);
    assert_eq!(first.trace, again.trace, "a seed replays exactly");
    assert!(first.violations.is_empty(), "{:#?}", first.violations);
}

/// An assumption is shown to be one: masters that come back empty let a second holder in.
#[test]
fn masters_that_restart_empty_let_in_a_second_holder() {
    let found = (0..2_000).find(|&seed| {
        let plan = Plan::with(seed, 3, Weather::Wipes);
        let history = run(&plan);
        // The checker is told that masters remember.
        let strict = Plan {
            weather: Weather::Storm,
            ..plan
        };
        let _ = history.trace;
        !crate::check::check(strict.rules(), &history.hold_list).is_empty()
    });
    println!("found at seed {found:?}");
    assert!(found.is_some(), "no double holder in 2,000 seeds");
}

/// A run takes no real time worth speaking of: it waits for nothing but its own clock.
#[test]
fn a_run_ends() {
    let begun = tokio::time::Instant::now();
    run(&Plan::of(1));
    assert!(begun.elapsed() < Duration::from_secs(30));
}
