//! The command line and its help.

mod duration;
mod masters;
pub(crate) mod notes;
mod operate;
mod run;

use clap::{Parser, Subcommand};

pub(crate) use self::{
    masters::Masters,
    operate::{Break, Completions, Doctor, Init, Inspect, Man},
    run::Run,
};

/// Locks over several Redis or Valkey masters, for commands.
///
/// A lock is held while a majority of independent servers (the masters) agree, so it survives the loss
/// of the others. Its holder gets a number that rises from holder to holder (the fence), for what the
/// lock protects to compare.
///
/// Every user of a resource must name the same masters: lists that share too few of them exclude
/// nothing.
#[derive(Debug, Parser)]
#[command(name = "fredlock", version, max_term_width = 100, after_help = notes::help(notes::TOOL))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) task: Task,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Runs a command while it holds resources.
    ///
    /// Waits until it holds all the resources on a majority of the masters, runs the command, extends
    /// the lock as long as that runs, and releases it.
    ///
    /// The command runs in a process group of its own, with the standard streams of fredlock. SIGINT,
    /// SIGTERM, SIGHUP and SIGQUIT are passed on to the group, and are ignored by it where fredlock was
    /// started with them ignored (nohup). On a terminal the group is in the foreground; after Ctrl-Z
    /// fredlock stops with it, nothing extends the lock any more, and once its time is over the stopped
    /// command is killed and never continued.
    ///
    /// Before the lock's time is over without an extension (because a majority of the masters does not
    /// answer, say) the group gets SIGTERM, and SIGKILL when the grace is over, which is before anybody
    /// else can have the lock. If the masters say that it is gone already, SIGKILL comes at once. On
    /// Linux, processes that left the group are killed too. When the command has ended by itself, what
    /// it left behind in its group is ended in the same way before the lock is released; what left the
    /// group (a daemon) lives on.
    ///
    /// If fredlock itself is killed (SIGKILL, or no memory left), or stopped until the lock's time is
    /// over, a second process of it kills the group.
    ///
    /// While it waits, a line on a terminal says who holds the lock (its label, and the beginning of its
    /// token), for how long at least, which is since this process has seen that holder, and how long
    /// that will go on unless the holder extends it.
    #[command(after_help = notes::help(notes::RUN),
        override_usage = "fredlock run [OPTIONS] RESOURCE… -- COMMAND [ARGUMENT…]")]
    Run(Box<Run>),
    /// Shows who holds resources, on which masters, since when, and for how long.
    ///
    /// Reads only. Of the value that a holder's key has no more is shown than eight characters, since
    /// whoever knows it can release the lock.
    ///
    /// Masters do not keep since when a lock is held, but a fence is made from the time of day at which
    /// the lock was asked for, by the clock of that machine. So it was held by then. Every attempt of
    /// others raises the fence: while somebody waits, what is shown is later than the true time. It is
    /// not shown where the holder has no fence, or is another client.
    #[command(after_help = notes::help(notes::INSPECT),
        override_usage = "fredlock inspect [OPTIONS] RESOURCE…")]
    Inspect(Inspect),
    /// Looks at the masters, and says what would break the guarantees.
    ///
    /// Reads only. Each finding has why it matters, and what to set. What cannot be looked at, since the
    /// service denies it, is a finding too.
    #[command(after_help = notes::help(notes::DOCTOR), override_usage = "fredlock doctor [OPTIONS]")]
    Doctor(Doctor),
    /// Marks new masters as such, so that a restart guard need not wait.
    ///
    /// Call it only if no master has come up empty within the longest ttl in use: the masters cannot tell
    /// a new cluster from one that has lost everything a moment ago. Harmless once the masters are in
    /// use: those that came up empty since are left to their quarantine then.
    #[command(after_help = notes::help(notes::INIT), override_usage = "fredlock init [OPTIONS]")]
    Init(Init),
    /// Takes a lock from its holder, for operators.
    ///
    /// Says whose it is, asks, and deletes it on all masters. The holder is not asked: it loses the lock
    /// at its next extension at the latest (`fredlock run` then kills its command), and until then it
    /// works on. So the fence that is left on the masters is larger than the holder's: no late extension
    /// revives the lock, and what it protects refuses the holder once it has seen a larger fence, that
    /// of the next holder, or this one. Of a lock over several resources all is lost with one.
    ///
    /// Whoever gets the lock after it was looked at is left alone. Nothing is done while too few masters
    /// answer; those that do not answer keep the lock until its time is over, which helps nobody.
    #[command(after_help = notes::help(notes::BREAK),
        override_usage = "fredlock break [OPTIONS] RESOURCE")]
    Break(Break),
    /// Prints a script that completes fredlock's command line in a shell.
    #[command(after_help = notes::help(notes::COMPLETIONS), override_usage = "fredlock completions SHELL")]
    Completions(Completions),
    /// Writes the man pages of fredlock, one for each of its commands, into a directory.
    ///
    /// Where `man` looks for them: a directory man1 below one of those that `manpath` prints.
    #[command(after_help = notes::help(notes::MAN), override_usage = "fredlock man DIRECTORY")]
    Man(Man),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_notes_of_its_own_with_exit_statuses() {
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            let has = |heading| notes::of(name).iter().any(|note| note.heading == heading);
            assert!(has(notes::EXIT_STATUS) && has(notes::EXAMPLES), "{name}");
        }
    }
}
