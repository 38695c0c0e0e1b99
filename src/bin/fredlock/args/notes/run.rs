//! The notes of the tool itself, and of `fredlock run`.

use super::{ENVIRONMENT, EXAMPLES, EXIT_STATUS, Note, USAGE};

pub(crate) const TOOL: &[Note] = &[
    Note {
        heading: ENVIRONMENT,
        intro: "",
        terms: &[
            (
                "FREDLOCK_MASTERS",
                "the masters, for every command that asks them; likewise",
            ),
            ("FREDLOCK_RESTART_GUARD", "their restart guard,"),
            (
                "FREDLOCK_COMMAND_TIMEOUT",
                "how long a command to one may take,",
            ),
            ("FREDLOCK_QUORUM", "and how many of them have to agree"),
        ],
    },
    Note {
        heading: EXIT_STATUS,
        intro: "Each command has its own; what is the same in all of them is",
        terms: &[
            ("0", "it is done"),
            USAGE,
            ("69", "too few masters answered, or one must not vote"),
            ("71", "something failed on this machine"),
            ("75", "busy: time will help"),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[
            (
                "with the masters in the environment, for all commands",
                "export FREDLOCK_MASTERS=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3",
            ),
            (
                "a command under a lock",
                "fredlock run deploy:web -- ./deploy.sh",
            ),
            ("who holds it", "fredlock inspect deploy:web"),
        ],
    },
];

pub(crate) const RUN: &[Note] = &[
    Note {
        heading: "Environment of the command",
        intro: "Set over what was inherited:",
        terms: &[
            ("FREDLOCK_RESOURCES", "the resources, sorted, one on a line"),
            (
                "FREDLOCK_FENCE",
                "a number greater than that of every earlier holder: hand it to what you write to, which has to \
                 refuse smaller ones",
            ),
            ("FREDLOCK_LABEL", "the label"),
        ],
    },
    Note {
        heading: EXIT_STATUS,
        intro: "",
        terms: &[
            (
                "that of the command",
                "it has ended; 128 + N if signal N ended it",
            ),
            USAGE,
            (
                "69",
                "no quorum of masters: too few answered, or too late for the ttl, or are in quarantine, or one must \
                 not vote",
            ),
            ("71", "this machine could not start a process"),
            (
                "75",
                "busy: somebody else held the lock, with --no-wait or until --wait was over (-E changes it)",
            ),
            (
                "76",
                "the lock was lost, or --max-hold was over, before the command had ended",
            ),
            ("126", "the command was found and cannot be run"),
            ("127", "the command was not found"),
            (
                "128 + N",
                "signal N came while fredlock waited for the lock",
            ),
        ],
    },
    Note {
        heading: EXAMPLES,
        intro: "",
        terms: &[
            (
                "on every host, by cron: one of them runs it",
                "fredlock run --no-wait -E 0 --min-hold 30s nightly-report -- /usr/local/bin/report",
            ),
            (
                "two resources at once, and the fence for what is written to",
                "fredlock run --ttl 10s --wait 5m deploy:web deploy:api -- sh -c './deploy --fence $FREDLOCK_FENCE'",
            ),
        ],
    },
];
