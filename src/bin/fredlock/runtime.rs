//! The runtime of the tool: on one thread, and without others that it starts by itself. One that starts
//! them panics, or hangs, where the machine has none left.

use std::{io, panic};

use tokio::runtime::{Builder, Runtime};

/// # Errors
/// The machine has too little left of something.
pub(crate) fn start() -> io::Result<Runtime> {
    let build = || Builder::new_current_thread().enable_all().build();
    // Part of it panics where it gets no file descriptor; that has told what.
    panic::catch_unwind(build).unwrap_or_else(|_| Err(io::Error::other("no runtime")))
}
