//! What is locked: a set of names, parsed once.

use std::{fmt, sync::Arc};

use fred::bytes_utils::Str;
use thiserror::Error;

use crate::master::GUARD_PREFIX;

/// The most resources that one lock can hold.
pub const RESOURCES_MAX: usize = 128;
/// The longest name of a resource, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

const FENCE_SUFFIX: &str = ":fence";

/// The names that one lock holds: at least one, sorted, without duplicates.
///
/// Order and duplicates in what the caller gave do not matter: two sets conflict exactly when they
/// share a name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Resources(Arc<[Name]>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Name {
    // As fred sends them, without a copy for each command. The one is a part of the other.
    lock: Str,
    fence: Str,
}

/// Why a set of names cannot be locked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidResources {
    /// There is no name at all.
    #[error("no resource was given: name at least one")]
    None,
    /// A name is the empty string.
    #[error("the name of a resource is empty")]
    EmptyName,
    /// A name is longer than [`NAME_BYTES_MAX`].
    #[error("the name of a resource has {bytes} bytes: at most {NAME_BYTES_MAX} are allowed")]
    NameTooLong {
        /// The length of the name in bytes.
        bytes: usize,
    },
    /// There are more than [`RESOURCES_MAX`] names.
    #[error("more than {RESOURCES_MAX} resources in one lock")]
    TooMany,
    /// The name is the fence key of another possible resource, or a key of the restart guard.
    #[error(
        "`{name}` is kept for another resource's fence or the restart guard: choose a name that does not end in `{FENCE_SUFFIX}` nor begin with `{GUARD_PREFIX}`"
    )]
    Reserved {
        /// The name that was refused.
        name: String,
    },
}

impl Resources {
    pub(crate) fn parse<I>(names: I) -> Result<Self, InvalidResources>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let mut parsed = Vec::new();
        for name in names {
            // Bounded before sorting: an endless iterator ends here.
            if parsed.len() == RESOURCES_MAX {
                return Err(InvalidResources::TooMany);
            }
            parsed.push(Name::parse(&name.into())?);
        }
        if parsed.is_empty() {
            return Err(InvalidResources::None);
        }
        parsed.sort_unstable();
        parsed.dedup();
        Ok(Self(parsed.into()))
    }

    /// The names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &*name.lock)
    }

    /// How many names there are: from 1 to [`RESOURCES_MAX`].
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The keys under which the fences stand, in the order of [`iter`](Self::iter).
    pub(crate) fn fence_keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &*name.fence)
    }

    /// The names as masters are sent them.
    pub(crate) fn key_texts(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|name| &name.lock)
    }

    /// The same for the keys of the fences.
    pub(crate) fn fence_key_texts(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|name| &name.fence)
    }
}

impl Name {
    fn parse(name: &str) -> Result<Self, InvalidResources> {
        if name.is_empty() {
            return Err(InvalidResources::EmptyName);
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(InvalidResources::NameTooLong { bytes: name.len() });
        }
        // A lock under such a key would overwrite the fence of its neighbour.
        let is_fence_key = name
            .strip_suffix(FENCE_SUFFIX)
            .is_some_and(|stem| stem.contains('}'));
        if is_fence_key || name.starts_with(GUARD_PREFIX) {
            return Err(InvalidResources::Reserved {
                name: name.to_owned(),
            });
        }
        let fence = Str::from(neighbour(name, FENCE_SUFFIX));
        let begin = usize::from(!has_hash_tag(name));
        let lock = fence.slice(begin..begin + name.len());
        Ok(Self { lock, fence })
    }
}

/// A key in the hash slot of this one, as the fence key stands in that of its resource: where the
/// name has a hash tag, so has its neighbour; where it has none, the whole name becomes the tag. (A
/// name with a `}` but without a tag has no such neighbour, which matters on a cluster only.)
pub(crate) fn neighbour(name: &str, suffix: &str) -> String {
    if has_hash_tag(name) {
        format!("{name}{suffix}")
    } else {
        format!("{{{name}}}{suffix}")
    }
}

/// The rule of the Redis Cluster specification: a `{`, and a `}` after it with at least one
/// character between the first of each.
fn has_hash_tag(name: &str) -> bool {
    name.split_once('{')
        .and_then(|(_, rest)| rest.find('}'))
        .is_some_and(|length| length > 0)
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn order_and_duplicates_do_not_matter() {
        let a = Resources::parse(["b", "a", "b"]).unwrap();
        assert_eq!(a, Resources::parse(["a", "b"]).unwrap());
        assert_eq!(a.to_string(), "a, b");
    }

    #[test]
    fn what_cannot_be_locked_is_refused() {
        let none: [&str; 0] = [];
        assert_eq!(Resources::parse(none), Err(InvalidResources::None));
        assert_eq!(Resources::parse([""]), Err(InvalidResources::EmptyName));
        assert_eq!(
            Resources::parse(["x".repeat(1025)]),
            Err(InvalidResources::NameTooLong { bytes: 1025 })
        );
        assert!(Resources::parse(["x".repeat(1024)]).is_ok());
        assert_eq!(
            Resources::parse((0..).map(|i: u64| i.to_string())),
            Err(InvalidResources::TooMany)
        );
    }

    #[test]
    fn fence_keys_share_the_hash_slot() {
        let keys = |name| {
            let resources = Resources::parse([name]).unwrap();
            resources.fence_keys().next().unwrap().to_owned()
        };
        assert_eq!(keys("invoice:1"), "{invoice:1}:fence");
        assert_eq!(keys("{user}:1"), "{user}:1:fence");
        assert_eq!(keys("{}x"), "{{}x}:fence");
        assert_eq!(keys("a}b"), "{a}b}:fence");
        assert_eq!(keys("plain:fence"), "{plain:fence}:fence");
    }

    proptest! {
        #[test]
        fn no_resource_is_the_fence_key_of_another(a in "[{}a:]{1,6}(:fence)?") {
            if let Ok(resources) = Resources::parse([a]) {
                let fence = resources.fence_keys().next().unwrap().to_owned();
                prop_assert!(Resources::parse([fence]).is_err(), "{resources}");
            }
        }
    }
}
