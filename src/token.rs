//! The random value that marks a key as ours.

use std::fmt;

use uuid::{Builder, Uuid};

use crate::entropy::Entropy;

/// The random value under which one attempt writes its keys: a version 4 UUID, 122 random bits.
///
/// Every attempt to acquire has a fresh token. A master deletes or extends a key only where its
/// value is the token, so nobody touches a lock that is not theirs.
///
/// [`Debug`](fmt::Debug) and [`Display`](fmt::Display) show the first eight characters alone:
/// whoever knows the whole token can release the lock. [`Token::reveal`] gives it whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(Uuid);

impl Token {
    /// By `rand`, which fred brings already, instead of by uuid's own generator.
    pub(crate) fn fresh(entropy: &Entropy) -> Self {
        Self(Builder::from_random_bytes(entropy.bits().to_be_bytes()).into_uuid())
    }

    /// The whole token, as it stands on the masters: 36 characters, lower case, hyphenated. Where the
    /// holder has an owner label, that stands behind it ([`Lock::value`](crate::Lock::value)).
    #[must_use]
    pub fn reveal(&self) -> String {
        self.0.hyphenated().to_string()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}…", self.0.as_fields().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_format_shows_the_whole_token() {
        let token = Token::fresh(&Entropy::default());
        let whole = token.reveal();
        assert_eq!(whole.len(), 36);
        for shown in [format!("{token}"), format!("{token:?}")] {
            assert!(shown.contains(&whole[..8]), "{shown}");
            assert!(!shown.contains(&whole[..9]), "{shown}");
        }
    }

    #[test]
    fn tokens_differ_unless_their_seeds_are_the_same() {
        let entropy = Entropy::default();
        assert_ne!(Token::fresh(&entropy), Token::fresh(&entropy));
        let seeded = || Token::fresh(&Entropy::from_seed(7));
        assert_eq!(seeded(), seeded());
    }
}
