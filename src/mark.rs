//! By what waiters tell one client's locks from another's.

use crate::{
    entropy::Entropy,
    label::{TOKEN_BYTES, is_ours},
};

/// A number that all tokens of one client end in.
///
/// Chosen at random when the client is built, and known to nobody beforehand; who waits for a lock
/// reads it in the value of the key. A hint: two clients may have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u32);

/// It takes the last digits of a token: the first are those that logs show.
const DIGITS: usize = 6;
const BITS: u128 = (1 << (4 * DIGITS)) - 1;

impl Mark {
    pub(crate) fn fresh(entropy: &Entropy) -> Self {
        Self((entropy.bits() & BITS) as u32)
    }

    /// Puts it at the end of the random bits of a token.
    pub(crate) fn end(self, bits: u128) -> u128 {
        bits & !BITS | u128::from(self.0)
    }

    /// Whose lock a key with that value is; `None` where another program wrote it.
    pub(crate) fn in_value(value: &str) -> Option<Self> {
        if !is_ours(value) {
            return None;
        }
        let digits = value.get(TOKEN_BYTES - DIGITS..TOKEN_BYTES)?;
        u32::from_str_radix(digits, 16).ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        label::{OwnerLabel, value_of},
        token::Token,
    };

    #[test]
    fn it_is_read_in_what_stands_under_a_key_and_in_no_value_of_others() {
        let entropy = Entropy::default();
        let (one, other) = (Mark::fresh(&entropy), Mark(0x00_0a0b));
        let label = OwnerLabel::new("worker-7").unwrap();
        for mark in [one, other] {
            let token = Token::fresh(&entropy, mark);
            assert_eq!(Mark::in_value(&value_of(token, None)), Some(mark));
            assert_eq!(Mark::in_value(&value_of(token, Some(&label))), Some(mark));
        }
        for value in ["", "another", "f3a1", &"a".repeat(36), &"ä".repeat(30)] {
            assert_eq!(Mark::in_value(value), None, "{value}");
        }
    }
}
