//! Counters of one name, told apart by a label with few values.

use ::metrics::{Counter, counter};

/// An enum of what a label may say.
macro_rules! values {
    ($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$inner:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        $vis enum $name { $($(#[$inner])* $variant,)* }

        impl $name {
            /// In the order of the variants.
            $vis const VALUES: &'static [&'static str] = &[$($text,)*];
        }
    };
}
pub(super) use values;

/// All of them, so that each is there from the start and none is looked up when it counts.
#[derive(Debug)]
pub(super) struct Family(Box<[Counter]>);

impl Family {
    pub(super) fn new(
        name: &'static str,
        label: &'static str,
        values: &'static [&'static str],
    ) -> Self {
        let counters = values.iter().map(|&value| counter!(name, label => value));
        Self(counters.collect())
    }

    pub(super) fn of(counters: impl Iterator<Item = Counter>) -> Self {
        Self(counters.collect())
    }

    /// One more with this value, by its place in the list.
    pub(super) fn count(&self, value: usize) {
        self.0[value].increment(1);
    }
}
