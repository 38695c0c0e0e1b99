//! Masters that restart empty: what a restart guard and a larger quorum hold against it.

use crate::{
    check::check,
    duel,
    faults::{Fault, Injected},
    plan::{Plan, Weather},
    run::run,
    seeds::{from_environment, replay_of, run_all},
};

/// How many seeds the normal tests take; `FREDLOCK_SIM_SEEDS` sets another number.
const SEEDS: u64 = 1_000;

/// Every seed has several restarts, at moments of its own.
#[test]
fn with_a_restart_guard_every_guarantee_holds_though_masters_restart_empty() {
    let seeds = from_environment("FREDLOCK_SIM_SEEDS").unwrap_or(SEEDS);
    let totals = Injected::default();
    let holds = run_all(seeds, Plan::guarded, &totals, "replay_with_a_guard");
    let restarts = totals.of(Fault::RestartEmpty);
    println!("{seeds} seeds, {holds} holds, {restarts} restarts without memory");
    assert!(restarts > seeds, "masters restarted empty at all");
    assert!(holds > seeds, "locks were held at all");
}

#[test]
fn without_the_guard_the_same_restarts_let_in_a_second_holder() {
    let found = (0..SEEDS).find(|&seed| {
        let plan = Plan {
            guard: None,
            ..Plan::guarded(seed)
        };
        let outcome = run(&plan);
        // Fences are lost with the memory as well: it is two holders that are looked for.
        let exclusion_only = crate::check::Rules {
            exclusion: true,
            fences: false,
        };
        !check(exclusion_only, &outcome.hold_list).is_empty()
    });
    println!("found at seed {found:?}");
    assert!(found.is_some(), "no double holder in {SEEDS} seeds");
}

/// The same in runs that are made for it, in which the guard's own rules are what it hangs on: the
/// mutants that break them are noticed there.
#[test]
fn a_grant_from_before_a_restart_never_meets_one_from_after_the_guard() {
    let (mut holds, mut restarts) = (0, 0);
    for seed in 0..from_environment("FREDLOCK_SIM_SEEDS").unwrap_or(SEEDS) {
        let outcome = duel::run(seed, true, None);
        assert!(
            outcome.violations.is_empty(),
            "seed {seed}: {}",
            outcome.violations.join("\n- ")
        );
        holds += outcome.holds;
        restarts += outcome.restarts;
    }
    println!("{holds} holds, {restarts} restarts without memory");
    assert!(restarts > 1_000 && holds > 1_000, "{holds} {restarts}");
    let without = (0..SEEDS).find(|&seed| !duel::run(seed, false, None).violations.is_empty());
    assert!(without.is_some(), "no double holder without the guard");
}

/// Runs one seed of it, given by `FREDLOCK_SIM_SEED`, and shows its trace.
#[test]
fn replay_with_a_guard() {
    replay_of(Plan::guarded);
}

fn larger_quorum(seed: u64) -> Plan {
    let (masters, quorum) = [(3, 3), (5, 4), (4, 4), (5, 5)][usize::try_from(seed % 4).unwrap()];
    Plan {
        quorum: Some(quorum),
        ..Plan::with(seed, masters, Weather::WipesInBudget)
    }
}

#[test]
fn a_larger_quorum_keeps_every_guarantee_through_as_many_empty_restarts_as_it_is_to() {
    let seeds = from_environment("FREDLOCK_SIM_SEEDS").unwrap_or(SEEDS);
    let totals = Injected::default();
    let holds = run_all(seeds, larger_quorum, &totals, "replay_with_a_larger_quorum");
    let restarts = totals.of(Fault::RestartEmpty);
    println!("{seeds} seeds, {holds} holds, {restarts} restarts without memory");
    assert!(restarts > seeds, "masters restarted empty at all");
    assert!(holds > seeds, "locks were held at all");
}

#[test]
fn replay_with_a_larger_quorum() {
    replay_of(larger_quorum);
}
