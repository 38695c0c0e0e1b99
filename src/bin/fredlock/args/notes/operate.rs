//! The notes of the commands for operators.

use super::{COLOURS, ENVIRONMENT, EXAMPLES, EXIT_STATUS, Note, UNWRITTEN, USAGE};

pub(crate) const INSPECT: &[Note] = &[
    Note {
        heading: ENVIRONMENT,
        intro: "",
        terms: &[COLOURS],
    },
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            ("0", "every resource was looked at"),
            USAGE,
            (
                "69",
                "too few masters can tell who holds it, or one must not vote",
            ),
            UNWRITTEN,
        ],
    },
    Note {
        heading: "JSON",
        intro: "With --json an array, with an object for each resource. Fields stay, and others may be added; null \
                where there is none.",
        terms: &[
            ("resource", "its name"),
            ("verdict", "held, free, split or unknown"),
            (
                "holder, label",
                "the beginning of the holder's value, and what it calls itself",
            ),
            (
                "for_at_least_ms",
                "how long a quorum of masters will have its key, unless it is extended or released",
            ),
            (
                "held_since",
                "since when it has been held at the latest, by the holder's clock: RFC 3339, in UTC",
            ),
            (
                "held_for_at_least_ms",
                "the same against the clock of this machine; null if that is behind",
            ),
            (
                "masters",
                "for each: master, state (held, free or failed), error, holder, label, time_left_ms, fence, \
                 restart_guard (ready, quarantined or unmarked), took_ms",
            ),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[("who holds what", "fredlock inspect deploy:web deploy:api")],
    },
];

pub(crate) const DOCTOR: &[Note] = &[
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            ("0", "healthy: nothing was found"),
            ("1", "warnings, or something could not be looked at"),
            (
                "2",
                "broken: no lock can be had, or the guarantees do not hold",
            ),
            USAGE,
            UNWRITTEN,
        ],
    },
    Note {
        heading: "JSON",
        intro: "With --json an object. Fields stay, and others may be added; null where it is not known.",
        terms: &[
            ("status", "healthy, warnings or broken"),
            (
                "ttl_ms",
                "the ttl that the round trips were measured against",
            ),
            ("quorum", "how many masters have to agree"),
            (
                "masters",
                "for each: master, reachable, error, server, native_commands, uptime_seconds, round_trip_ms, \
                 clock_offset_ms, restart_guard",
            ),
            (
                "findings",
                "for each: check, level (unknown, warning or broken), master (null: all), finding, why, cure",
            ),
        ],
    },
    Note {
        heading: "Checks",
        intro: "quorum, even-number, single-master, unreachable, slow, same-server, replica, cluster-node, sentinel, \
                replicas-attached, eviction, memory, persistence, restarted, version, scripts, info, config, clock, \
                maxclients",
        terms: &[],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[
            (
                "for locks with a ttl of ten seconds",
                "fredlock doctor --ttl 10s",
            ),
            (
                "what is broken, for a program",
                "fredlock doctor --json | jq '.findings[] | select(.level == \"broken\")'",
            ),
        ],
    },
];

pub(crate) const INIT: &[Note] = &[
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            ("0", "every master is initialised"),
            USAGE,
            ("69", "not every master answered, or one must not vote"),
            UNWRITTEN,
            (
                "75",
                "the masters are in use, and some came up empty: these vote when the guard's time is over",
            ),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[("new masters, or those of every deployment", "fredlock init")],
    },
];

pub(crate) const BREAK: &[Note] = &[
    Note {
        heading: ENVIRONMENT,
        intro: "",
        terms: &[COLOURS],
    },
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            ("0", "the lock is broken, or there was none"),
            ("1", "not confirmed: nothing was done"),
            (
                "64",
                "the command line, or the list of masters, is wrong, or nobody can be asked and --yes is missing",
            ),
            (
                "69",
                "too few masters answered, or one must not vote: nothing was done, or, as it says then, it has to be \
                 run again",
            ),
            (
                "71",
                "the output could not be written: nothing was done, or it says that the lock is broken; it is no error \
                 that its reader has gone (| head)",
            ),
        ],
    },
    Note {
        heading: "JSON",
        intro: "With --json an object. Fields stay, and others may be added; null where there is none.",
        terms: &[
            ("resource", "its name"),
            ("status", "broken, free, declined or incomplete"),
            ("fence", "what was left as the fence"),
            ("before", "what `fredlock inspect` told of the resource"),
            (
                "masters",
                "for each: master, result (deleted, free, taken or failed), error, holder, label (of whoever has \
                 taken it since); empty if nothing was done",
            ),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[("without being asked", "fredlock break --yes deploy:web")],
    },
];

pub(crate) const COMPLETIONS: &[Note] = &[
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[("0", "it is printed"), USAGE, UNWRITTEN],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[
            (
                "bash",
                "fredlock completions bash > ~/.local/share/bash-completion/completions/fredlock",
            ),
            (
                "zsh, in a directory of $fpath",
                "fredlock completions zsh > ~/.zfunc/_fredlock",
            ),
            (
                "fish",
                "fredlock completions fish > ~/.config/fish/completions/fredlock.fish",
            ),
        ],
    },
];

pub(crate) const MAN: &[Note] = &[
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            ("0", "they are written"),
            USAGE,
            ("71", "they could not be written"),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[
            (
                "for oneself, beside the tool",
                "fredlock man ~/.cargo/share/man/man1",
            ),
            (
                "for all users, as root",
                "fredlock man /usr/local/share/man/man1",
            ),
        ],
    },
];
