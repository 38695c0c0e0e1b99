//! The words of a request, as every master is sent them.

use std::{fmt, sync::OnceLock};

use fred::types::Value;

use super::{FenceWrite, GUARD_MARKER, GUARD_QUARANTINE, Missing, Operation, Request};

/// Written once for all masters, by whoever needs them first.
#[derive(Clone, Default)]
pub(crate) struct Arguments {
    all: OnceLock<Vec<Value>>,
    fence: OnceLock<Value>,
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

    /// What stands before the operation in a group: its name, how many keys it has, and how many
    /// arguments.
    pub(super) fn header(&self) -> Value {
        let (_, name) = script(self.operation);
        let header = format!("{name} {} {}", self.key_count(), self.arguments().len());
        Value::String(header.into())
    }

    /// What all keys are set to.
    pub(super) fn value_argument(&self) -> Value {
        Value::String(self.value.clone())
    }

    pub(super) fn fence_argument(&self) -> Option<Value> {
        let text = |write: FenceWrite| self.arguments.fence.get_or_init(|| number(write.fence));
        self.fence.map(text).cloned()
    }

    /// The arguments of its script: the value of the keys is the first, and a ttl the second.
    pub(super) fn arguments(&self) -> &[Value] {
        self.arguments.all.get_or_init(|| {
            let mut arguments = Vec::with_capacity(6);
            arguments.push(self.value_argument());
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
                arguments.extend(self.fence_argument());
                arguments.push(number(write.lives_ms));
                if let Operation::Release { may_return } = self.operation {
                    arguments.push(flag(may_return));
                }
            }
            arguments.extend(self.guard_ms.map(number));
            arguments
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
