//! Where random numbers come from: the thread's generator, or a seed.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use rand::{
    Rng, SeedableRng,
    distributions::{Distribution, Standard},
    rngs::StdRng,
};

/// The thread's cryptographic generator, unless a simulation gave a seed to replay from.
#[derive(Default)]
pub(crate) struct Entropy(Option<Mutex<StdRng>>);

impl Entropy {
    #[cfg_attr(
        not(feature = "testing"),
        expect(dead_code, reason = "only a simulation has a seed")
    )]
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Some(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// All 128 bits at random.
    pub(crate) fn bits(&self) -> u128 {
        self.draw()
    }

    /// From 0 up to, but not, 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.draw()
    }

    fn draw<T>(&self) -> T
    where
        Standard: Distribution<T>,
    {
        match &self.0 {
            None => rand::random(),
            Some(rng) => rng.lock().unwrap_or_else(PoisonError::into_inner).r#gen(),
        }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The state would tell the tokens to come.
        f.debug_tuple("Entropy").field(&self.0.is_some()).finish()
    }
}
