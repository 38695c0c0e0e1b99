//! The three scripts, each with a restart guard before it and without, and how they are called.

use std::sync::OnceLock;

use fred::{bytes_utils::Str, types::Value};

use super::{GUARD_MARKER, GUARD_QUARANTINE, Missing, Operation, Request};

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

/// Which script does an operation.
///
/// Without a guard nothing is called for it. With one, a master in quarantine grants nothing; an
/// extension there does what it does elsewhere, so that the key is back when the quarantine ends,
/// but is no vote until then; and a release, which only takes away, is done as ever.
pub(super) const SOURCES: [&str; 6] = [
    include_str!("acquire.lua"),
    include_str!("extend.lua"),
    include_str!("release.lua"),
    guarded!(
        "acquire.lua",
        "if quarantined then return {3, 0, left()} end\nreturn script()\n"
    ),
    guarded!(
        "extend.lua",
        "local reply = script()\nif quarantined and reply ~= 0 then return {3, reply, left()} end\nreturn reply\n"
    ),
    guarded!("release.lua", "return script()\n"),
];
/// So far behind a script in [`SOURCES`] is the guarded one.
const GUARDED: usize = 3;

/// The hashes by which one master knows the scripts, as it told them itself. Where it did not
/// (its user may lack the permission), scripts are sent whole.
#[derive(Debug, Default)]
pub(super) struct Hashes([OnceLock<Str>; SOURCES.len()]);

/// A script call without the script: its arguments, from the number of keys on.
pub(super) struct ScriptCall {
    script: usize,
    arguments: Vec<Value>,
}

impl Hashes {
    pub(super) fn learn(&self, script: usize, hash: String) {
        // A later answer is the same: the hash is the script's.
        self.0[script].get_or_init(|| hash.into());
    }
}

impl ScriptCall {
    pub(super) fn new(request: &Request) -> Self {
        let resources = &request.resources;
        let fence = request.fence;
        let guarded = request.guard_ms.is_some();
        let keys = resources.len() * if fence.is_some() { 2 } else { 1 } + 2 * usize::from(guarded);
        let mut arguments = Vec::with_capacity(keys + 7);
        arguments.push(number(keys as u64));
        arguments.extend(resources.iter().map(text));
        if fence.is_some() {
            arguments.extend(resources.fence_keys().map(text));
        }
        if guarded {
            arguments.extend([GUARD_MARKER, GUARD_QUARANTINE].map(text));
        }
        arguments.push(request.value().into());
        let script = match request.operation {
            Operation::Acquire { ttl_ms } => {
                arguments.push(number(ttl_ms));
                0
            }
            Operation::Extend {
                ttl_ms, missing, ..
            } => {
                arguments.push(number(ttl_ms));
                arguments.push(number(u64::from(missing == Missing::PutBack)));
                1
            }
            Operation::Release => 2,
        };
        if let Some(write) = fence {
            arguments.push(number(write.fence));
            arguments.push(number(write.lives_ms));
        }
        arguments.extend(request.guard_ms.map(number));
        let script = script + if guarded { GUARDED } else { 0 };
        Self { script, arguments }
    }

    /// The call by hash, where the master's is known.
    pub(super) fn by_hash(&self, hashes: &Hashes) -> Option<Vec<Value>> {
        let hash = hashes.0[self.script].get()?;
        Some(self.with_first(Value::String(hash.clone())))
    }

    /// The call with the whole script, which the master remembers from then on.
    pub(super) fn whole(&self) -> Vec<Value> {
        self.with_first(Value::from_static_str(SOURCES[self.script]))
    }

    fn with_first(&self, first: Value) -> Vec<Value> {
        std::iter::once(first)
            .chain(self.arguments.iter().cloned())
            .collect()
    }
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn number(number: u64) -> Value {
    Value::String(number.to_string().into())
}
