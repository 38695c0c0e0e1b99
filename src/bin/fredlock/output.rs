//! What was asked for, on standard output.
//!
//! Whoever stops reading (`| head`) has read enough: that is no error, nothing is said of it, and the
//! command goes on. So its status is about locks and masters, and does not depend on how soon the
//! reader went. What else keeps output from being written, such as a full disk, is an error.

use std::io::{self, ErrorKind, StdoutLock, Write};

use crate::{report, status};

/// Writes it; gives the exit status.
pub(crate) fn print(text: &[u8]) -> u8 {
    match write(|out| out.write_all(text)) {
        Ok(()) => 0,
        Err((status, text)) => {
            report::say(&text);
            status
        }
    }
}

/// Lets it be written. The error is an exit status, and what to say.
pub(crate) fn write(
    writer: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>,
) -> Result<(), (u8, String)> {
    let mut out = io::stdout().lock();
    checked(writer(&mut out).and_then(|()| out.flush()))
}

/// The same of what has been written already.
pub(crate) fn checked(written: io::Result<()>) -> Result<(), (u8, String)> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err((
            status::SYSTEM,
            format!("cannot write the output: {error}: look at where it goes"),
        )),
        _ => Ok(()),
    }
}
