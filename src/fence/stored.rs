//! A fence on its way to and from storage, other processes and people.

use std::{num::IntErrorKind, str::FromStr};

use thiserror::Error;

use super::Fence;

/// A number that is no fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}", self.0.words())]
pub struct InvalidFence(Fault);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    NotANumber,
    Negative,
    TooLarge,
}

impl Fault {
    fn words(self) -> String {
        let (what, max) = match self {
            Self::NotANumber => ("not a number in digits", Fence::MAX),
            Self::Negative => ("negative", Fence::MAX),
            Self::TooLarge => ("too large", Fence::MAX),
        };
        format!("{what}: a fence is a whole number from 0 to {max}")
    }
}

/// For storage that has signed 64-bit integers, such as PostgreSQL's `bigint`.
impl From<Fence> for i64 {
    fn from(fence: Fence) -> Self {
        // At most 2^53 − 2 by construction.
        fence.0.cast_signed()
    }
}

/// A fence as it was stored or sent; 0 is [`Fence::NONE`].
///
/// Only ever from a number that was a [`Fence`] before: one that is made up orders nothing.
impl TryFrom<u64> for Fence {
    type Error = InvalidFence;

    fn try_from(number: u64) -> Result<Self, InvalidFence> {
        if number > Self::MAX {
            return Err(InvalidFence(Fault::TooLarge));
        }
        Ok(Self(number))
    }
}

/// The same from a signed 64-bit integer.
impl TryFrom<i64> for Fence {
    type Error = InvalidFence;

    fn try_from(number: i64) -> Result<Self, InvalidFence> {
        let number = u64::try_from(number).map_err(|_| InvalidFence(Fault::Negative))?;
        number.try_into()
    }
}

/// The same from its digits, as `Display` writes them: nothing but `0` to `9`.
impl FromStr for Fence {
    type Err = InvalidFence;

    fn from_str(text: &str) -> Result<Self, InvalidFence> {
        // `u64` would take a sign too.
        if text.starts_with('+') {
            return Err(InvalidFence(Fault::NotANumber));
        }
        let number = text.parse::<u64>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow => InvalidFence(Fault::TooLarge),
            _ => InvalidFence(Fault::NotANumber),
        })?;
        number.try_into()
    }
}

/// As a plain number (feature `serde`). It survives readers that keep numbers as doubles, which
/// JavaScript does.
#[cfg(feature = "serde")]
impl serde::Serialize for Fence {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

/// From a plain number; one beyond 2^53 − 2 is refused (feature `serde`).
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Fence {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(deserializer)?;
        number.try_into().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_fence_comes_back_from_storage_as_it_was_and_keeps_its_order(
            a in 0..=Fence::MAX, b in 0..=Fence::MAX,
        ) {
            let (a, b) = (Fence::new(a), Fence::new(b));
            prop_assert_eq!(Fence::try_from(u64::from(a)), Ok(a));
            prop_assert_eq!(Fence::try_from(i64::from(a)), Ok(a));
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(i64::from(a).cmp(&i64::from(b)), a.cmp(&b));
        }

        #[test]
        fn a_number_beyond_the_largest_fence_is_refused(number in Fence::MAX + 1..) {
            prop_assert_eq!(Fence::try_from(number), Err(InvalidFence(Fault::TooLarge)));
            prop_assert!(number.to_string().parse::<Fence>().is_err());
        }

        #[test]
        fn a_negative_number_is_refused(number in ..0_i64) {
            prop_assert_eq!(Fence::try_from(number), Err(InvalidFence(Fault::Negative)));
        }
    }

    #[test]
    fn text_that_is_not_all_digits_is_refused_with_the_reason() {
        for text in ["", " 1", "1 ", "+1", "-1", "1.0", "1e3", "0x1", "eleven"] {
            let error = text.parse::<Fence>().unwrap_err();
            assert_eq!(error, InvalidFence(Fault::NotANumber), "{text:?}");
        }
        let error = "99999999999999999999999".parse::<Fence>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "too large: a fence is a whole number from 0 to 9007199254740990"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_writes_a_plain_number_and_takes_nothing_that_is_no_fence() {
        let fence = Fence::new(1_764_518_400_000_217);
        let json = serde_json::to_string(&[fence, Fence::NONE]).unwrap();
        assert_eq!(json, "[1764518400000217,0]");
        assert_eq!(
            serde_json::from_str::<[Fence; 2]>(&json).unwrap(),
            [fence, Fence::NONE]
        );
        for wrong in ["-1", "1.5", "\"1\"", "null", "9007199254740991"] {
            assert!(serde_json::from_str::<Fence>(wrong).is_err(), "{wrong}");
        }
    }
}
