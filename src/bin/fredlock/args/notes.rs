//! What help and man pages say after the options: exit statuses, environment, JSON, examples.
//!
//! One source for both, and as data, so that a man page can set it as a list.

/// One section.
#[derive(Debug)]
pub(crate) struct Note {
    pub(crate) heading: &'static str,
    /// What comes before the terms; may be empty.
    pub(crate) intro: &'static str,
    pub(crate) terms: &'static [Term],
}

/// A word, and what it means; under [`EXAMPLES`] what is wanted, and the command line for it.
pub(crate) type Term = (&'static str, &'static str);

pub(crate) const ENVIRONMENT: &str = "Environment";
pub(crate) const EXIT_STATUS: &str = "Exit status";
pub(crate) const EXAMPLES: &str = "Examples";

/// The notes of a command.
pub(crate) fn of(command: &str) -> &'static [Note] {
    match command {
        "run" => RUN,
        "inspect" => INSPECT,
        "doctor" => DOCTOR,
        "init" => INIT,
        "break" => BREAK,
        "completions" => COMPLETIONS,
        "man" => MAN,
        _ => TOOL,
    }
}

const USAGE: Term = ("64", "the command line, or the list of masters, is wrong");
const UNWRITTEN: Term = ("71", "the output could not be written");
const COLOURS: Term = (
    "NO_COLOR",
    "if it is set, nothing is coloured on a terminal",
);

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
                "the output could not be written: nothing was done, or it says that the lock is broken",
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
            ("for oneself", "fredlock man ~/.local/share/man/man1"),
            (
                "for all users, as root",
                "fredlock man /usr/local/share/man/man1",
            ),
        ],
    },
];

/// How wide help is at most, as `max_term_width` has it for the rest.
const WIDTH: usize = 100;

/// The notes as they stand at the end of a command's help.
pub(crate) fn help(notes: &[Note]) -> String {
    let sections = notes.iter().map(|note| {
        let mut text = format!("{}:", note.heading);
        if !note.intro.is_empty() {
            text += &wrapped("  ", "  ", note.intro);
        }
        if note.heading == EXAMPLES {
            for (what, command) in note.terms {
                // A command line is never broken.
                text += &format!("\n  # {what}\n  {command}");
            }
            return text;
        }
        let words = note.terms.iter().map(|(word, _)| word.chars().count());
        let widest = words.max().unwrap_or(0);
        for (word, meaning) in note.terms {
            let indent = " ".repeat(widest + 4);
            text += &wrapped(&format!("  {word:widest$}  "), &indent, meaning);
        }
        text
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

/// A line break, and the text in lines of which none is too wide.
fn wrapped(first: &str, others: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), format!("\n{first}"));
    let mut begins = true;
    for word in text.split_whitespace() {
        if !begins && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            line = format!("\n{others}");
            begins = true;
        }
        if !begins {
            line.push(' ');
        }
        line += word;
        begins = false;
    }
    lines + &line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_no_wider_than_a_terminal_and_aligns_what_words_mean() {
        for command in [
            "",
            "run",
            "inspect",
            "doctor",
            "init",
            "break",
            "completions",
            "man",
        ] {
            let text = help(of(command));
            let lines = text
                .lines()
                .filter(|line| !line.starts_with("  fredlock") && !line.contains("export"));
            for line in lines {
                assert!(line.chars().count() <= WIDTH, "{command}: {line}");
            }
        }
        let run = help(RUN);
        let meanings = [
            "it has ended;",
            "the command line, or",
            "busy: somebody",
            "signal N came",
        ];
        let columns = meanings.map(|text| run.lines().find_map(|line| line.find(text)));
        assert!(
            columns[0].is_some() && columns.iter().all(|column| *column == columns[0]),
            "{run}"
        );
    }
}
