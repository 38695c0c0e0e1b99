//! The scripts, each with a restart guard before it and without, and how they are called.

use std::sync::OnceLock;

use fred::{bytes_utils::Str, types::Value};

use super::{
    Request,
    arguments::{number, script},
    runs::Runs,
};

/// What operations on one resource come to; the scripts of all of them rest on it.
macro_rules! with_one {
    ($($script:expr),* $(,)?) => {
        concat!(
            include_str!("acquire_one.lua"),
            include_str!("release_one.lua"),
            $($script),*
        )
    };
}

/// A script with the guard before it, which says whether the master is in `quarantine`; the last
/// part says what that means for the script's answer.
macro_rules! guarded {
    ($script:literal, $answer:literal) => {
        concat!(
            include_str!("guard.lua"),
            "local function script()\n",
            include_str!($script),
            "end\n",
            $answer
        )
    };
}

/// With a guard, a master in quarantine grants nothing.
macro_rules! guarded_acquire {
    () => {
        guarded!(
            "acquire.lua",
            "if quarantined then return {3, 0, left()} end\nreturn script()\n"
        )
    };
}

/// An extension does there what it does elsewhere, so that the key is back when the quarantine ends,
/// but is no vote until then.
macro_rules! guarded_extend {
    () => {
        guarded!(
            "extend.lua",
            "local reply = script()\nif quarantined and reply ~= 0 then return {3, reply, left()} end\nreturn reply\n"
        )
    };
}

/// A release, which only takes away, is done as ever.
macro_rules! guarded_release {
    () => {
        guarded!("release.lua", "return script()\n")
    };
}

/// The script that does several operations in a group, made of theirs.
macro_rules! group {
    ($runs:expr, $acquire:expr, $extend:expr, $release:expr) => {
        with_one!(
            include_str!("group_head.lua"),
            "function operations.a(KEYS, ARGV)\n",
            $acquire,
            "end\nfunction operations.e(KEYS, ARGV)\n",
            $extend,
            "end\nfunction operations.r(KEYS, ARGV)\n",
            $release,
            "end\n",
            $runs,
            include_str!("group_tail.lua"),
        )
    };
}

/// Those of the operations, and that of a group; then the same with a restart guard before each
/// operation. Without a guard nothing is called for it.
pub(super) const SOURCES: [&str; 8] = [
    with_one!(include_str!("acquire.lua")),
    include_str!("extend.lua"),
    with_one!(include_str!("release.lua")),
    group!(
        include_str!("group_runs.lua"),
        include_str!("acquire.lua"),
        include_str!("extend.lua"),
        include_str!("release.lua")
    ),
    with_one!(guarded_acquire!()),
    guarded_extend!(),
    with_one!(guarded_release!()),
    // The guard has to be asked first: there are no runs.
    group!(
        "",
        guarded_acquire!(),
        guarded_extend!(),
        guarded_release!()
    ),
];

const GROUP: usize = 3;
/// So far behind a script in [`SOURCES`] is the guarded one.
const GUARDED: usize = 4;

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
    /// The script for several.
    Group(&'a Runs<'a>),
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
        // All that is sent to a master is under one guard.
        let (script, first) = match self {
            Self::One(request) => (script(request.operation).0, Some(request)),
            Self::Group(runs) => (GROUP, runs.requests().next()),
        };
        let is_guarded = first.is_some_and(|request| request.guard_ms.is_some());
        script + if is_guarded { GUARDED } else { 0 }
    }

    fn after(self, first: Value) -> Vec<Value> {
        match self {
            Self::One(request) => {
                let (keys, arguments) = (request.key_count(), request.arguments());
                let mut words = Vec::with_capacity(2 + keys + arguments.len());
                words.extend([first, number(keys as u64)]);
                words.extend(request.keys());
                words.extend_from_slice(arguments);
                words
            }
            Self::Group(runs) => {
                let keys: usize = runs.requests().map(Request::key_count).sum();
                // At most six arguments each, and a header.
                let mut words = Vec::with_capacity(2 + keys + 7 * runs.requests().count());
                words.extend([first, number(keys as u64)]);
                words.extend(runs.requests().flat_map(Request::keys));
                runs.arguments(&mut words);
                words
            }
        }
    }
}
