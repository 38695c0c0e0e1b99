//! What help and man pages say after the options: exit statuses, environment, JSON, examples.
//!
//! One source for both, and as data, so that a man page can set it as a list.

mod operate;
mod run;

pub(super) use self::{
    operate::{BREAK, COMPLETIONS, DOCTOR, INIT, INSPECT, MAN},
    run::{RUN, TOOL},
};

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
const UNWRITTEN: Term = (
    "71",
    "the output could not be written; it is no error that its reader has gone (| head)",
);
const COLOURS: Term = (
    "NO_COLOR",
    "if it is set, nothing is coloured on a terminal",
);

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
                text.extend(["\n  # ", what, "\n  ", command]);
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
