//! Whose key it is.

use std::fmt;

use crate::label::{OwnerLabel, breaks_lines, is_ours, label_in};

/// Whose key it is.
///
/// [`Display`](fmt::Display) shows the label, and of the value no more than its first eight
/// characters: whoever knows it whole can release the lock. Two are equal if their whole values are.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(pub(super) Vec<u8>);

/// How many characters of a holder's value are shown.
const SHOWN_CHARS: usize = 8;

impl Holder {
    /// What the holder calls itself ([`Settings::owner_label`](crate::Settings::owner_label));
    /// `None` if it has no label, or is another client with values of its own kind.
    #[must_use]
    pub fn label(&self) -> Option<OwnerLabel> {
        label_in(std::str::from_utf8(&self.0).ok()?)
    }

    /// Is this the key of a lock of ours, with the value that
    /// [`Lock::value`](crate::Lock::value) gives?
    #[must_use]
    pub fn is(&self, value: &str) -> bool {
        self.0 == value.as_bytes()
    }

    /// Is the value of the form that ours have: a token, and maybe a label?
    pub(super) fn is_ours(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok_and(is_ours)
    }

    /// All of it, which whoever may see it could release the lock with.
    #[cfg(feature = "cli")]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Another client may have written a short value: never all of that either.
        let text = String::from_utf8_lossy(&self.0);
        let shown = SHOWN_CHARS.min(text.chars().count() / 2);
        for c in text.chars().take(shown) {
            let c = if breaks_lines(c) { '\u{fffd}' } else { c };
            write!(f, "{c}")?;
        }
        f.write_str("…")?;
        match self.label() {
            Some(label) => write!(f, " ({label})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self})")
    }
}
