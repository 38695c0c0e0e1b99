//! `fredlock man`: the man pages, made from the command line's own help.

use std::{fs, io, path::Path};

use clap::{
    Arg, Command, CommandFactory,
    builder::{Resettable, StyledStr},
};
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, italic, roman},
};

use crate::{
    args::{
        self, Arguments,
        notes::{self, Note},
    },
    report, status,
};

/// When the command line was last changed, for the foot of a page.
const DATE: &str = "2026-11-30";

/// Writes all pages; gives the exit status.
pub(crate) fn run(task: &args::Man) -> u8 {
    match write(&task.directory) {
        Ok(()) => 0,
        Err(error) => {
            let directory = task.directory.display();
            report::say(&format!(
                "cannot write to {directory}: {error}: name another directory"
            ));
            status::SYSTEM
        }
    }
}

fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut tool = Arguments::command().disable_help_subcommand(true);
    tool.build();
    let commands: Vec<_> = tool.get_subcommands().cloned().collect();
    let names: Vec<_> = std::iter::once(&tool)
        .chain(&commands)
        .map(page_name)
        .collect();
    for command in std::iter::once(&tool).chain(&commands) {
        let name = page_name(command);
        fs::write(directory.join(format!("{name}.1")), page(command, &names)?)?;
    }
    Ok(())
}

/// `fredlock-run`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or("fredlock").to_owned()
}

/// One page, with the sections in the order of man-pages(7).
fn page(command: &Command, all: &[String]) -> io::Result<Vec<u8>> {
    let (own, notes) = (page_name(command), notes::of(command.get_name()));
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(without_marks(command.clone()))
        .title(own.to_uppercase())
        .date(DATE)
        .source(format!("fredlock {version}"))
        .manual("fredlock");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::default();
    let is_usual = |note: &&Note| {
        [notes::EXIT_STATUS, notes::ENVIRONMENT, notes::EXAMPLES].contains(&note.heading)
    };
    let of_kind = |heading: &'static str| notes.iter().filter(move |note| note.heading == heading);
    of_kind(notes::EXIT_STATUS).for_each(|note| section(&mut rest, note));
    environment(&mut rest, command, of_kind(notes::ENVIRONMENT));
    notes
        .iter()
        .filter(|note| !is_usual(note))
        .for_each(|note| section(&mut rest, note));
    of_kind(notes::EXAMPLES).for_each(|note| examples(&mut rest, note));
    see_also(&mut rest, &own, all);
    // Without the preamble, which stands at the beginning of the page already.
    page.extend_from_slice(rest.to_roff().as_bytes());
    Ok(page)
}

/// Help marks what is typed by backticks, which a man page shows as opening quotes.
fn without_marks(command: Command) -> Command {
    let plain = |text: Option<&StyledStr>| {
        let text = text.map(|text| StyledStr::from(text.to_string().replace('`', "")));
        Resettable::from(text)
    };
    let plain_argument = |argument: Arg| {
        let (help, long) = (plain(argument.get_help()), plain(argument.get_long_help()));
        argument.help(help).long_help(long)
    };
    let long = plain(command.get_long_about());
    command.long_about(long).mut_args(plain_argument)
}

fn section(roff: &mut Roff, note: &Note) {
    roff.control("SH", [note.heading.to_uppercase().as_str()]);
    if !note.intro.is_empty() {
        roff.text([roman(note.intro)]);
    }
    for (word, meaning) in note.terms {
        term(roff, word, vec![roman(meaning.replace('`', ""))]);
    }
}

fn term(roff: &mut Roff, word: &str, meaning: Vec<Inline>) {
    roff.control("TP", []);
    roff.text([bold(word)]);
    roff.text(meaning);
}

/// What options may be given by, and what else a command looks at.
fn environment<'a>(roff: &mut Roff, command: &Command, notes: impl Iterator<Item = &'a Note>) {
    let of_options = command.get_arguments().filter_map(|argument| {
        let variable = argument.get_env()?.to_string_lossy().into_owned();
        Some((variable, format!("--{}", argument.get_long()?)))
    });
    let of_options: Vec<_> = of_options.collect();
    let others: Vec<_> = notes.flat_map(|note| note.terms).collect();
    if of_options.is_empty() && others.is_empty() {
        return;
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (variable, option) in of_options {
        let meaning = vec![roman("taken where "), bold(option), roman(" is not given")];
        term(roff, &variable, meaning);
    }
    for (word, meaning) in others {
        term(roff, word, vec![roman(*meaning)]);
    }
}

fn examples(roff: &mut Roff, note: &Note) {
    roff.control("SH", ["EXAMPLES"]);
    for (index, (what, command)) in note.terms.iter().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(format!("{what}:"))]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        // Nothing is filled: a command line stays one.
        roff.control("nf", []);
        roff.text([bold(*command)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
}

fn see_also(roff: &mut Roff, own: &str, all: &[String]) {
    roff.control("SH", ["SEE ALSO"]);
    let others: Vec<_> = all.iter().filter(|name| *name != own).collect();
    let mut line = Vec::new();
    for (index, name) in others.iter().enumerate() {
        let separator = if index + 1 < others.len() {
            "(1), "
        } else {
            "(1)"
        };
        line.extend([italic(name.as_str()), roman(separator)]);
    }
    roff.text(line);
}
