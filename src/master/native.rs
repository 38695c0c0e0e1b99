//! Native commands, which do without a script what `Fencing::Off` needs for one resource.

use std::sync::atomic::{AtomicU8, Ordering};

use fred::types::Value;

use super::{Missing, Operation, Request};

/// What a server can do natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Native {
    /// `SET key token IFEQ token PX ttl`: Redis 8.4, Valkey 8.1.
    set_ifeq: bool,
    /// Compare and delete.
    delete: Option<Delete>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delete {
    /// `DELEX key IFEQ token`: Redis 8.4.
    Delex,
    /// `DELIFEQ key token`: Valkey 9.0.
    Delifeq,
}

impl Native {
    pub(super) fn of(server: &str, version: &str) -> Self {
        let mut numbers = version
            .split('.')
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        match server {
            "Valkey" => Self {
                set_ifeq: version >= (8, 1),
                delete: (version >= (9, 0)).then_some(Delete::Delifeq),
            },
            _ => Self {
                set_ifeq: version >= (8, 4),
                delete: (version >= (8, 4)).then_some(Delete::Delex),
            },
        }
    }

    fn pack(self) -> u8 {
        let delete = match self.delete {
            None => 0,
            Some(Delete::Delex) => 2,
            Some(Delete::Delifeq) => 4,
        };
        u8::from(self.set_ifeq) | delete
    }

    fn unpack(bits: u8) -> Self {
        let delete = match bits & 6 {
            2 => Some(Delete::Delex),
            4 => Some(Delete::Delifeq),
            _ => None,
        };
        Self {
            set_ifeq: bits & 1 != 0,
            delete,
        }
    }
}

/// What the server of the present connection can do. An answer that it does not know a command
/// takes that away for good.
#[derive(Debug, Default)]
pub(super) struct Abilities {
    found: AtomicU8,
    refused: AtomicU8,
}

impl Abilities {
    pub(super) fn found(&self, native: Native) {
        self.found.store(native.pack(), Ordering::Relaxed);
    }

    /// The server did not know the command.
    pub(super) fn refuse(&self, command: NativeCommand) {
        let bits = match command {
            NativeCommand::SetNx => 0,
            NativeCommand::SetIfeq => 1,
            NativeCommand::Delete => 6,
        };
        self.refused.fetch_or(bits, Ordering::Relaxed);
    }

    fn now(&self) -> Native {
        Native::unpack(self.found.load(Ordering::Relaxed) & !self.refused.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NativeCommand {
    SetNx,
    SetIfeq,
    Delete,
}

/// A native command with its arguments.
pub(super) struct NativeCall {
    pub(super) command: NativeCommand,
    pub(super) name: &'static str,
    pub(super) arguments: Vec<Value>,
    /// What to ask if the answer is "no": how long it is held, or by whom.
    pub(super) question: &'static str,
}

/// The native command for the request, if the server has one that does exactly the same.
pub(super) fn native_call(request: &Request, abilities: &Abilities) -> Option<NativeCall> {
    let mut keys = request.keys();
    let (Some(key), None, None) = (keys.next(), keys.next(), request.fence) else {
        return None;
    };
    // A native command cannot look whether the master has forgotten what it knew.
    if request.guard_ms.is_some() {
        return None;
    }
    let key = || key.clone();
    let argument = |index: usize| request.arguments()[index].clone();
    let (token, ttl) = (|| argument(0), || argument(1));
    let word = Value::from_static_str;
    let native = abilities.now();
    let (command, name, arguments, question) = match request.operation {
        Operation::Acquire { .. } => (
            NativeCommand::SetNx,
            "SET",
            vec![key(), token(), word("NX"), word("PX"), ttl()],
            "PTTL",
        ),
        // It sets the ttl whatever is left, so only where no other ttl was ever sent: a shorter
        // one that arrives late would break exclusion.
        Operation::Extend {
            missing: Missing::Report,
            uniform: true,
            ..
        } if native.set_ifeq => {
            let arguments = vec![key(), token(), word("IFEQ"), token(), word("PX"), ttl()];
            (NativeCommand::SetIfeq, "SET", arguments, "EXISTS")
        }
        Operation::Release { .. } => match native.delete? {
            Delete::Delex => (
                NativeCommand::Delete,
                "DELEX",
                vec![key(), word("IFEQ"), token()],
                "",
            ),
            Delete::Delifeq => (NativeCommand::Delete, "DELIFEQ", vec![key(), token()], ""),
        },
        Operation::Extend { .. } => return None,
    };
    Some(NativeCall {
        command,
        name,
        arguments,
        question,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_used_from_the_version_that_has_them() {
        let of = |server, version| Native::of(server, version);
        let none = Native::default();
        assert_eq!(of("Redis", "7.0.15"), none);
        assert_eq!(of("Redis", "8.2.1"), none);
        assert_eq!(
            of("Redis", "8.4.0"),
            Native {
                set_ifeq: true,
                delete: Some(Delete::Delex)
            }
        );
        assert_eq!(
            of("Redis", "10.0.0"),
            Native {
                set_ifeq: true,
                delete: Some(Delete::Delex)
            }
        );
        assert_eq!(of("Valkey", "7.2.4"), none);
        assert_eq!(
            of("Valkey", "8.1.0"),
            Native {
                set_ifeq: true,
                delete: None
            }
        );
        assert_eq!(
            of("Valkey", "9.1.2"),
            Native {
                set_ifeq: true,
                delete: Some(Delete::Delifeq)
            }
        );
        assert_eq!(of("Redis", "of unknown version"), none);
    }

    #[test]
    fn what_a_server_did_not_know_is_never_asked_again() {
        let abilities = Abilities::default();
        abilities.found(Native::of("Valkey", "9.1.2"));
        abilities.refuse(NativeCommand::Delete);
        abilities.found(Native::of("Valkey", "9.1.2"));
        assert_eq!(
            abilities.now(),
            Native {
                set_ifeq: true,
                delete: None
            }
        );
    }
}
