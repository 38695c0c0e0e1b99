//! The checker is tested itself: each rule of the protocol, broken on purpose, is noticed.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use fredlock::testing::Mutant;

use crate::{duel, plan::Plan, run::run};

/// Within so many seeds each has to be caught.
const SEEDS_MAX: u64 = 6_000;

fn caught(mutant: Mutant) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let violations = match mutant {
            // Rules of the guard, which needs masters that restart empty.
            Mutant::QuarantineCounted | Mutant::GuardOnlyInAcquire => {
                duel::run(seed, true, Some(mutant)).violations
            }
            _ => {
                let plan = Plan {
                    mutant: Some(mutant),
                    ..Plan::of(seed)
                };
                run(&plan).violations
            }
        };
        violations
            .into_iter()
            .next()
            .map(|violation| (seed, violation))
    })
}

#[test]
fn every_broken_rule_is_noticed() {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(&mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let Some((seed, violation)) = caught(mutant) else {
                        missed.lock().unwrap().push(mutant);
                        continue;
                    };
                    let first_line = violation.lines().next().unwrap_or_default();
                    println!(
                        "{:<22}{:>6} seeds: {first_line}",
                        format!("{mutant:?}"),
                        seed + 1
                    );
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(
        missed.is_empty(),
        "not noticed within {SEEDS_MAX} seeds: {missed:?}"
    );
}
