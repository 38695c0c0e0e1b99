//! What is asked of a master beside the protocol: what it knows of a resource, and the state of its
//! restart guard. Rare, so these scripts travel whole.

use std::time::Duration;

use fred::types::Value;

use super::{FenceWrite, GUARD_MARKER, GUARD_QUARANTINE, arguments::number};
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
    /// Does it answer? Looks at no key; `scripted`: by a script, as whoever uses scripts needs it.
    Alive { scripted: bool },
    /// Deletes a lock for an operator, and says what stands there then.
    #[cfg_attr(
        not(feature = "cli"),
        allow(dead_code, reason = "only operators break locks")
    )]
    Break(Break),
}

/// What is to be broken.
#[derive(Debug, Clone)]
pub(crate) struct Break {
    /// One.
    pub(crate) resource: Resources,
    /// Whose keys may be deleted: of those that came later nothing is touched.
    pub(crate) values: Vec<Vec<u8>>,
    /// Larger than that of any of them.
    pub(crate) write: FenceWrite,
    /// How long a master that has forgotten what it knew is in quarantine; `None` without a guard.
    pub(crate) guard_ms: Option<u64>,
}

/// What a master says to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Whatever stands under the lock key: other clients may have written anything.
    pub(crate) value: Option<Vec<u8>>,
    /// `None` where there is no key, or one that does not expire.
    pub(crate) time_left: Option<Duration>,
    /// 0 if none is known.
    pub(crate) fence: u64,
    pub(crate) guard: Option<GuardSight>,
    /// Was the lock deleted by the question?
    pub(crate) deleted: bool,
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

/// The script that breaks a lock, and looks at what it left.
macro_rules! breaking {
    ($guard:expr) => {
        concat!(
            $guard,
            "local function broken()\n",
            include_str!("break.lua"),
            "end\nlocal deleted = broken()\nlocal function look()\n",
            include_str!("inspect.lua"),
            "end\nlocal sight = look()\nsight[6] = deleted\nreturn sight\n"
        )
    };
}

/// As every script that writes, it looks at the marker first. The guard takes its keys away.
macro_rules! guard_before {
    () => {
        concat!(
            include_str!("guard.lua"),
            "KEYS[3], KEYS[4] = marker, quarantine\n"
        )
    };
}

const GUARD_KEYS: [&str; 2] = [GUARD_MARKER, GUARD_QUARANTINE];

impl Sight {
    pub(crate) fn of_guard(guard: GuardSight) -> Self {
        Self {
            guard: Some(guard),
            ..Self::default()
        }
    }
}

impl Question {
    /// The command that asks it, and its arguments.
    pub(super) fn command(&self) -> (&'static str, Vec<Value>) {
        let (source, keys, arguments) = match self {
            Self::Alive { scripted: false } => return ("PING", Vec::new()),
            Self::Alive { scripted: true } => ("return {3, 0}", Vec::new(), Vec::new()),
            Self::Inspect { resource, guarded } => (
                include_str!("inspect.lua"),
                keys(resource, *guarded),
                Vec::new(),
            ),
            Self::GuardState => (
                include_str!("guard_state.lua"),
                GUARD_KEYS.to_vec(),
                vec![Value::from_static_str("0")],
            ),
            Self::Initialise => (
                include_str!("guard_state.lua"),
                GUARD_KEYS.to_vec(),
                vec![Value::from_static_str("1")],
            ),
            Self::Break(task) => (
                if task.guard_ms.is_some() {
                    breaking!(guard_before!())
                } else {
                    breaking!("")
                },
                keys(&task.resource, task.guard_ms.is_some()),
                task.arguments(),
            ),
        };
        let mut words = vec![Value::from_static_str(source), number(keys.len() as u64)];
        words.extend(keys.into_iter().map(|key| Value::String(key.into())));
        words.extend(arguments);
        ("EVAL", words)
    }

    /// What the reply means; `None` if it is none that the script can have.
    pub(super) fn sight(&self, reply: &Value) -> Option<Sight> {
        if let Self::Alive { scripted: false } = self {
            return (reply.as_bytes()? == b"PONG").then(Sight::default);
        }
        let Value::Array(parts) = reply else {
            return None;
        };
        let number = |index: usize| parts.get(index).and_then(Value::as_i64);
        match self {
            Self::Alive { .. } => (number(0)? == 3).then(Sight::default),
            Self::Inspect { .. } | Self::Break(_) => Some(Sight {
                value: parts.first()?.as_bytes().map(<[u8]>::to_vec),
                time_left: millis(number(1)?),
                fence: text(parts.get(2)?)
                    .and_then(|fence| fence.parse().ok())
                    .unwrap_or(0),
                guard: match number(3)? {
                    3 => None,
                    state => Some(guard(state, number(4)?)?),
                },
                deleted: match self {
                    Self::Break(_) => number(5)? == 1,
                    _ => false,
                },
            }),
            Self::GuardState | Self::Initialise => match (number(0)?, number(1)?) {
                (3, _) => Some(Sight::of_guard(GuardSight::Initialised)),
                (state, left) => guard(state, left).map(Sight::of_guard),
            },
        }
    }
}

impl Break {
    fn arguments(&self) -> Vec<Value> {
        let mut arguments = vec![number(self.write.fence), number(self.write.lives_ms)];
        let values = self.values.iter().cloned();
        arguments.extend(values.map(|value| Value::Bytes(value.into())));
        arguments.extend(self.guard_ms.map(number));
        arguments
    }
}

fn keys(resource: &Resources, guarded: bool) -> Vec<&str> {
    let names = resource.iter().chain(resource.fence_keys());
    let guard = GUARD_KEYS.into_iter().filter(|_| guarded);
    names.chain(guard).collect()
}

/// Other clients may have written anything.
fn text(value: &Value) -> Option<String> {
    let bytes = value.as_bytes()?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn guard(state: i64, left: i64) -> Option<GuardSight> {
    match state {
        0 => Some(GuardSight::Unmarked),
        1 => Some(GuardSight::Ready),
        2 => millis(left).map(|time_left| GuardSight::Quarantined { time_left }),
        _ => None,
    }
}

fn millis(ms: i64) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}
