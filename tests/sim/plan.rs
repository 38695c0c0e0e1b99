//! What a seed decides before a run begins.

use std::time::Duration;

use fredlock::testing::Mutant;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::check::Rules;

/// The shape of a run. Everything in it follows from the seed and the scenario.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) masters: usize,
    pub(crate) fenced: bool,
    pub(crate) clients: usize,
    pub(crate) operations: usize,
    pub(crate) resources: usize,
    pub(crate) ttl: Duration,
    pub(crate) command_timeout: Option<Duration>,
    /// By how much the wall clock of each client is off, in microseconds.
    pub(crate) skews: Vec<i64>,
    pub(crate) weather: Weather,
    /// How many calls to a master go by themselves before more travel in groups; `None`: all do.
    pub(crate) direct_max: Option<usize>,
    pub(crate) mutant: Option<Mutant>,
}

/// Which faults there are, and so which assumptions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// The network delays, loses, repeats and reorders; clocks run within the drift.
    Network,
    /// The same, but every release that is sent arrives, and nothing is overtaken by it.
    ReleasesArrive,
    /// And masters hang, stop, restart with their memory, answer with errors; clients are
    /// partitioned, and paused for longer than a ttl.
    Storm,
    /// And the clocks of masters run wrong, and keys vanish by hand: exclusion may break, fences
    /// may not.
    WrongClocks,
    /// And one master restarts empty: within the budget of an even number of masters.
    OneWipe,
    /// And masters restart empty at will: beyond every budget.
    Wipes,
}

impl Weather {
    /// Do masters keep what they acknowledged, as far as the number of masters needs it, and do
    /// clocks run within the drift? Then windows do not overlap.
    pub(crate) fn keeps_exclusion(self) -> bool {
        !matches!(self, Self::WrongClocks | Self::Wipes)
    }

    /// Does a quorum of masters remember? Then fences rise.
    pub(crate) fn keeps_fences(self) -> bool {
        self != Self::Wipes
    }
}

const SKEWS: [i64; 6] = [0, 0, 2_000, -2_000, 3_600_000_000, -3_600_000_000];

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let masters = [1, 2, 3, 3, 4, 5, 5, 7][rng.gen_range(0..8)];
        let weather = match rng.gen_range(0..10) {
            0 | 1 => Weather::Network,
            2 | 3 => Weather::ReleasesArrive,
            4..=6 => Weather::Storm,
            7 | 8 => Weather::WrongClocks,
            _ if masters % 2 == 0 => Weather::OneWipe,
            _ => Weather::Storm,
        };
        Self::shaped(seed, masters, weather, &mut rng)
    }

    pub(crate) fn with(seed: u64, masters: usize, weather: Weather) -> Self {
        Self::shaped(seed, masters, weather, &mut StdRng::seed_from_u64(seed))
    }

    /// What the weather leaves of the guarantees.
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            exclusion: self.weather.keeps_exclusion(),
            fences: self.fenced && self.weather.keeps_fences(),
        }
    }

    fn shaped(seed: u64, masters: usize, weather: Weather, rng: &mut StdRng) -> Self {
        let clients = rng.gen_range(2..=4);
        let ttl = Duration::from_millis(rng.gen_range(60..400));
        Self {
            seed,
            masters,
            fenced: rng.gen_bool(0.75),
            clients,
            operations: rng.gen_range(4..=8),
            resources: rng.gen_range(1..=3),
            ttl,
            command_timeout: rng.gen_bool(0.5).then(|| ttl / rng.gen_range(3..=10)),
            skews: (0..clients)
                .map(|_| SKEWS[rng.gen_range(0..SKEWS.len())])
                .collect(),
            weather,
            direct_max: [None, Some(0), Some(1), Some(2)][rng.gen_range(0..4)],
            mutant: None,
        }
    }
}
