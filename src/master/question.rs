//! What is asked of a master beside the protocol: what it knows of a resource, and the state of its
//! restart guard. Rare, so these scripts travel whole.

use std::time::Duration;

use fred::types::Value;

use super::{GUARD_MARKER, GUARD_QUARANTINE};
use crate::resources::Resources;

/// What can be asked.
#[derive(Debug, Clone)]
pub(crate) enum Question {
    /// What stands there for one resource; with the state of the guard, if one is on.
    Inspect { resource: Resources, guarded: bool },
    /// Has it been in use?
    GuardState,
    /// Marks it, and ends a quarantine.
    Initialise,
}

/// What a master says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Whatever stands under the lock key.
    pub(crate) value: Option<String>,
    /// `None` where there is no key, or one that does not expire.
    pub(crate) time_left: Option<Duration>,
    /// 0 if none is known.
    pub(crate) fence: u64,
    pub(crate) guard: Option<GuardSight>,
}

/// The state of a guard, as its keys tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardSight {
    Unmarked,
    Ready,
    Quarantined {
        time_left: Duration,
    },
    /// Just now, by the question.
    Initialised,
}

impl Sight {
    pub(crate) fn of_guard(guard: GuardSight) -> Self {
        Self {
            value: None,
            time_left: None,
            fence: 0,
            guard: Some(guard),
        }
    }
}

impl Question {
    /// The arguments of `EVAL`.
    pub(super) fn script(&self) -> Vec<Value> {
        let (source, mut keys, flag) = match self {
            Self::Inspect { resource, guarded } => {
                let names = resource.iter().chain(resource.fence_keys());
                let guard = [GUARD_MARKER, GUARD_QUARANTINE].into_iter();
                let keys: Vec<&str> = names.chain(guard.filter(|_| *guarded)).collect();
                (include_str!("inspect.lua"), keys, None)
            }
            Self::GuardState => (
                include_str!("guard_state.lua"),
                vec![GUARD_MARKER, GUARD_QUARANTINE],
                Some("0"),
            ),
            Self::Initialise => (
                include_str!("guard_state.lua"),
                vec![GUARD_MARKER, GUARD_QUARANTINE],
                Some("1"),
            ),
        };
        let count = keys.len().to_string();
        let mut arguments = vec![source, count.as_str()];
        arguments.append(&mut keys);
        arguments.extend(flag);
        arguments
            .into_iter()
            .map(|argument| Value::String(argument.into()))
            .collect()
    }

    /// What the reply means; `None` if it is none that the script can have.
    pub(super) fn sight(&self, reply: &Value) -> Option<Sight> {
        let Value::Array(parts) = reply else {
            return None;
        };
        let number = |index: usize| parts.get(index).and_then(Value::as_i64);
        match self {
            Self::Inspect { .. } => Some(Sight {
                value: text(parts.first()?),
                time_left: millis(number(1)?),
                fence: text(parts.get(2)?)
                    .and_then(|fence| fence.parse().ok())
                    .unwrap_or(0),
                guard: guard(number(3)?, number(4)?)?,
            }),
            Self::GuardState | Self::Initialise => match (number(0)?, number(1)?) {
                (3, _) => Some(Sight::of_guard(GuardSight::Initialised)),
                (state, left) => guard(state, left)?.map(Sight::of_guard),
            },
        }
    }
}

/// Other clients may have written anything.
fn text(value: &Value) -> Option<String> {
    let bytes = value.as_bytes()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn guard(state: i64, left: i64) -> Option<Option<GuardSight>> {
    Some(Some(match state {
        0 => GuardSight::Unmarked,
        1 => GuardSight::Ready,
        2 => GuardSight::Quarantined {
            time_left: millis(left)?,
        },
        3 => return Some(None),
        _ => return None,
    }))
}

fn millis(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
