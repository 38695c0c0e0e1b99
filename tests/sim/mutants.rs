//! The checker is tested itself: each rule of the protocol, broken on purpose, is noticed.

use fredlock::testing::Mutant;

use crate::{plan::Plan, run::run};

/// Within so many seeds each has to be caught.
const SEEDS_MAX: u64 = 6_000;

fn caught(mutant: Mutant) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let outcome = run(&Plan {
            mutant: Some(mutant),
            ..Plan::of(seed)
        });
        outcome
            .violations
            .into_iter()
            .next()
            .map(|violation| (seed, violation))
    })
}

#[test]
fn every_broken_rule_is_noticed() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        match caught(mutant) {
            Some((seed, violation)) => {
                let first_line = violation.lines().next().unwrap_or_default().to_owned();
                println!(
                    "{:<24}{:>6} seeds: {first_line}",
                    format!("{mutant:?}"),
                    seed + 1
                );
            }
            None => missed.push(mutant),
        }
    }
    assert!(
        missed.is_empty(),
        "not noticed within {SEEDS_MAX} seeds: {missed:?}"
    );
}
