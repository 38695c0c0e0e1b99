//! Who a holder says it is.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::token::Token;

/// The longest owner label, in bytes.
pub const LABEL_BYTES_MAX: usize = 128;

/// What stands between the token and the label in the value of a key.
const SEPARATOR: char = ':';

/// How long a token is, in bytes.
pub(crate) const TOKEN_BYTES: usize = 36;

/// What a holder calls itself, such as `worker-7/billing/4821`, for whoever looks at the lock.
///
/// It travels behind the token in the value of every key: `token:label`. The token stays as random
/// as without it, and masters, scripts and other Redlock clients compare the whole value as ever:
/// nothing but the length changes for them. Nothing is decided by a label, and it is no secret:
/// everybody who can read the masters can read it. [`Redlock::inspect`](crate::Redlock::inspect)
/// shows it.
///
/// It has 1 to [`LABEL_BYTES_MAX`] bytes and no control characters, so that it can be printed.
/// Give it to all calls by [`Builder::settings`](crate::Builder::settings), or to some by
/// [`Redlock::with`](crate::Redlock::with):
///
/// ```no_run
/// # async fn example(redlock: fredlock::Redlock) -> Result<(), Box<dyn std::error::Error>> {
/// use fredlock::OwnerLabel;
/// use std::time::Duration;
///
/// let label = OwnerLabel::new("worker-7/billing")?;
/// let redlock = redlock.with(|settings| settings.owner_label(label));
/// let lock = redlock.acquire(["invoice:4821"], Duration::from_secs(5)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerLabel(Arc<str>);

/// Why a text is no [`OwnerLabel`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidLabel {
    /// It is empty: leave the label out instead.
    #[error("an owner label is empty: leave it out instead")]
    Empty,
    /// It is longer than [`LABEL_BYTES_MAX`].
    #[error("an owner label has {bytes} bytes: at most {LABEL_BYTES_MAX} are allowed")]
    #[non_exhaustive]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// It has a control character, such as a line break, which would garble what shows it.
    #[error("an owner label has the control character {character:?}")]
    #[non_exhaustive]
    ControlCharacter {
        /// The first of them.
        character: char,
    },
}

impl OwnerLabel {
    /// Takes the text as a label.
    ///
    /// # Errors
    /// [`InvalidLabel`] if it is empty, longer than [`LABEL_BYTES_MAX`] bytes, or has a control
    /// character or a line or paragraph separator.
    pub fn new(label: impl AsRef<str>) -> Result<Self, InvalidLabel> {
        let label = label.as_ref();
        if label.is_empty() {
            return Err(InvalidLabel::Empty);
        }
        if label.len() > LABEL_BYTES_MAX {
            return Err(InvalidLabel::TooLong { bytes: label.len() });
        }
        if let Some(character) = label.chars().find(|&c| breaks_lines(c)) {
            return Err(InvalidLabel::ControlCharacter { character });
        }
        Ok(Self(label.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Would it garble a line of text that it stands in?
pub(crate) fn breaks_lines(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

impl fmt::Display for OwnerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for OwnerLabel {
    type Err = InvalidLabel;

    fn from_str(label: &str) -> Result<Self, InvalidLabel> {
        Self::new(label)
    }
}

/// What a key of this holder has as its value.
pub(crate) fn value_of(token: Token, label: Option<&OwnerLabel>) -> String {
    let mut value = token.reveal();
    if let Some(OwnerLabel(label)) = label {
        value.push(SEPARATOR);
        value.push_str(label);
    }
    value
}

/// Is it of the form that [`value_of`] gives?
pub(crate) fn is_ours(value: &str) -> bool {
    value
        .split_at_checked(TOKEN_BYTES)
        .is_some_and(|(token, rest)| {
            let is_random = |id: uuid::Uuid| id.get_version_num() == 4;
            uuid::Uuid::try_parse(token).is_ok_and(is_random)
                && (rest.is_empty() || rest.starts_with(SEPARATOR))
        })
}

/// The label in the value of a key; `None` where there is none, or another client wrote something
/// else.
pub(crate) fn label_in(value: &str) -> Option<OwnerLabel> {
    let (token, rest) = value.split_at_checked(TOKEN_BYTES)?;
    uuid::Uuid::try_parse(token).ok()?;
    OwnerLabel::new(rest.strip_prefix(SEPARATOR)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{entropy::Entropy, mark::Mark};

    #[test]
    fn a_label_that_cannot_be_printed_in_a_line_is_refused() {
        let long = "ä".repeat(LABEL_BYTES_MAX / 2);
        assert_eq!(OwnerLabel::new(&long).unwrap().as_str(), long);
        let refused = |label: &str| OwnerLabel::new(label).unwrap_err();
        assert_eq!(refused(""), InvalidLabel::Empty);
        let bytes = LABEL_BYTES_MAX + 1;
        assert_eq!(
            refused(&format!("{long}a")),
            InvalidLabel::TooLong { bytes }
        );
        for character in ['\n', '\r', '\0', '\u{1b}', '\u{7f}', '\u{85}', '\u{2028}'] {
            let error = InvalidLabel::ControlCharacter { character };
            assert_eq!(refused(&format!("a{character}b")), error);
        }
    }

    #[test]
    fn the_label_follows_the_whole_token_and_is_found_there_again() {
        let entropy = Entropy::default();
        let token = Token::fresh(&entropy, Mark::fresh(&entropy));
        let label = OwnerLabel::new("worker-7: billing").unwrap();
        let value = value_of(token, Some(&label));
        assert_eq!(value, format!("{}:worker-7: billing", token.reveal()));
        assert_eq!(label_in(&value), Some(label));
        assert_eq!(value_of(token, None), token.reveal());
        assert_eq!(label_in(&token.reveal()), None);
    }

    #[test]
    fn the_values_of_other_clients_have_no_label() {
        let entropy = Entropy::default();
        let token = Token::fresh(&entropy, Mark::fresh(&entropy)).reveal();
        let others = [
            String::new(),
            "x".to_owned(),
            "ä".repeat(30),
            "a".repeat(36) + ":b",
        ];
        let spoiled = [
            format!("{token}:"),
            format!("{token}b"),
            format!("{token}:a\nb"),
        ];
        for value in others.into_iter().chain(spoiled) {
            assert_eq!(label_in(&value), None, "{value:?}");
        }
    }
}
