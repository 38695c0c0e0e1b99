//! The words of a request, as every master is sent them.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use fred::types::Value;

use super::{GUARD_MARKER, GUARD_QUARANTINE, Missing, Operation, Request};

/// Written once for all masters, by whoever needs them first.
#[derive(Clone, Default)]
pub(crate) struct Arguments(Arc<OnceLock<Words>>);

struct Words {
    /// What stands before the operation in a group: its name, how many keys it has, and how many
    /// arguments.
    header: Value,
    arguments: Box<[Value]>,
}

/// Which script does an operation, and what it is called in a group.
pub(super) fn script(operation: Operation) -> (usize, char) {
    match operation {
        Operation::Acquire { .. } => (0, 'a'),
        Operation::Extend { .. } => (1, 'e'),
        Operation::Release { .. } => (2, 'r'),
    }
}

impl Request {
    /// How many keys the scripts are given.
    pub(super) fn key_count(&self) -> usize {
        let per_resource = if self.fence.is_some() { 2 } else { 1 };
        let guard = if self.guard_ms.is_some() { 2 } else { 0 };
        self.resources.len() * per_resource + guard
    }

    /// Every lock key; then, with fencing, every fence key; then, with a guard, its two.
    pub(super) fn keys(&self) -> impl Iterator<Item = Value> {
        let fences = self.fence.map(|_| self.resources.fence_key_texts());
        let keys = self
            .resources
            .key_texts()
            .chain(fences.into_iter().flatten());
        let guard = self.guard_ms.map(|_| [GUARD_MARKER, GUARD_QUARANTINE]);
        let guard = guard.into_iter().flatten().map(Value::from_static_str);
        keys.cloned().map(Value::String).chain(guard)
    }

    /// The arguments of its script: the value of the keys is the first, and a ttl the second.
    pub(super) fn arguments(&self) -> &[Value] {
        &self.words().arguments
    }

    pub(super) fn header(&self) -> Value {
        self.words().header.clone()
    }

    fn words(&self) -> &Words {
        self.arguments.0.get_or_init(|| {
            let mut arguments = Vec::with_capacity(6);
            arguments.push(Value::String(self.value().into()));
            match self.operation {
                Operation::Acquire { ttl_ms } => arguments.push(number(ttl_ms)),
                Operation::Extend {
                    ttl_ms, missing, ..
                } => {
                    arguments.push(number(ttl_ms));
                    arguments.push(flag(missing == Missing::PutBack));
                }
                Operation::Release { .. } => {}
            }
            if let Some(write) = self.fence {
                arguments.push(number(write.fence));
                arguments.push(number(write.lives_ms));
                if let Operation::Release { may_return } = self.operation {
                    arguments.push(flag(may_return));
                }
            }
            arguments.extend(self.guard_ms.map(number));
            let (_, name) = script(self.operation);
            let header = format!("{name} {} {}", self.key_count(), arguments.len());
            Words {
                header: Value::String(header.into()),
                arguments: arguments.into(),
            }
        })
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // They hold the token.
        f.write_str("Arguments")
    }
}

pub(super) fn number(number: u64) -> Value {
    Value::String(number.to_string().into())
}

fn flag(flag: bool) -> Value {
    Value::from_static_str(if flag { "1" } else { "0" })
}
