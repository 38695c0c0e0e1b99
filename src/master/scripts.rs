//! The scripts, and how they are called.

use std::sync::OnceLock;

use fred::{bytes_utils::Str, types::Value};

use super::{
    Request,
    arguments::{number, script},
};

/// Those of the operations; and the one that does several operations in a group, made of the others.
pub(super) const SOURCES: [&str; 4] = [
    include_str!("acquire.lua"),
    include_str!("extend.lua"),
    include_str!("release.lua"),
    concat!(
        include_str!("group_head.lua"),
        "function operations.a(KEYS, ARGV)\n",
        include_str!("acquire.lua"),
        "end\nfunction operations.e(KEYS, ARGV)\n",
        include_str!("extend.lua"),
        "end\nfunction operations.r(KEYS, ARGV)\n",
        include_str!("release.lua"),
        "end\n",
        include_str!("group_tail.lua"),
    ),
];

const GROUP: usize = 3;

/// The hashes by which one master knows the scripts, as it told them itself. Where it did not
/// (its user may lack the permission), scripts are sent whole.
#[derive(Debug, Default)]
pub(super) struct Hashes([OnceLock<Str>; SOURCES.len()]);

impl Hashes {
    pub(super) fn learn(&self, script: usize, hash: String) {
        // A later answer is the same: the hash is the script's.
        self.0[script].get_or_init(|| hash.into());
    }
}

/// A call of a script.
#[derive(Clone, Copy)]
pub(super) enum ScriptCall<'a> {
    /// The script of one operation.
    One(&'a Request),
    /// The script for several, in this order.
    Group(&'a [Request]),
}

impl ScriptCall<'_> {
    /// The call by hash, where the master's is known.
    pub(super) fn by_hash(self, hashes: &Hashes) -> Option<Vec<Value>> {
        let hash = hashes.0[self.script()].get()?;
        Some(self.after(Value::String(hash.clone())))
    }

    /// The call with the whole script, which the master remembers from then on.
    pub(super) fn whole(self) -> Vec<Value> {
        self.after(Value::from_static_str(SOURCES[self.script()]))
    }

    fn script(self) -> usize {
        match self {
            Self::One(request) => script(request.operation).0,
            Self::Group(_) => GROUP,
        }
    }

    fn after(self, first: Value) -> Vec<Value> {
        let group = match self {
            Self::One(request) => std::slice::from_ref(request),
            Self::Group(group) => group,
        };
        let keys: usize = group.iter().map(Request::key_count).sum();
        let arguments: usize = group.iter().map(|request| request.arguments().len()).sum();
        let mut words = Vec::with_capacity(2 + keys + arguments + group.len());
        words.push(first);
        words.push(number(keys as u64));
        words.extend(group.iter().flat_map(Request::keys));
        for request in group {
            if matches!(self, Self::Group(_)) {
                words.push(request.header());
            }
            words.extend_from_slice(request.arguments());
        }
        words
    }
}
