//! The random value that marks a key as ours.

use std::fmt;

use uuid::{Builder, Uuid};

use crate::{entropy::Entropy, mark::Mark};

/// The random value under which one attempt writes its keys: a version 4 UUID.
///
/// 98 of its bits are random in every attempt. The last 24, six digits, were chosen at random when
/// the [`Redlock`](crate::Redlock) was built, and all of its tokens end in them: by these, others
/// who wait for the lock know who has had it, and take turns.
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
    pub(crate) fn fresh(entropy: &Entropy, mark: Mark) -> Self {
        let bits = mark.end(entropy.bits());
        Self(Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// What it begins with, which is shown: no secret.
    pub(crate) fn begin(&self) -> u32 {
        self.0.as_fields().0
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
        write!(f, "{:08x}…", self.begin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_format_shows_the_whole_token() {
        let entropy = Entropy::default();
        let token = Token::fresh(&entropy, Mark::fresh(&entropy));
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
        let mark = Mark::fresh(&entropy);
        assert_ne!(Token::fresh(&entropy, mark), Token::fresh(&entropy, mark));
        let seeded = || Token::fresh(&Entropy::from_seed(7), mark);
        assert_eq!(seeded(), seeded());
    }
}
