//! From the command line to connected masters.

use std::time::Duration;

use fredlock::{BuildError, Builder, Redlock};

use crate::{args::Masters, runtime, status};

/// How long a hung master may hold up the end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(1);

/// A builder with the masters, and their restart guard.
pub(crate) fn builder(masters: &Masters) -> Builder {
    let urls = masters.urls.iter().map(|url| url.trim().to_owned());
    let builder = Redlock::builder()
        .urls(urls)
        .restart_guard(masters.restart_guard)
        .settings(|settings| settings.command_timeout(masters.command_timeout));
    match masters.quorum {
        Some(quorum) => builder.quorum(quorum),
        None => builder,
    }
}

/// Does something with connected masters. The error is an exit status, and what to say.
pub(crate) fn with<T>(
    masters: &Masters,
    task: impl AsyncFnOnce(&Redlock) -> Result<T, (u8, String)>,
) -> Result<T, (u8, String)> {
    let runtime =
        runtime::start().map_err(|error| (status::SYSTEM, format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let redlock = builder(masters)
            .connect()
            .await
            .map_err(|error| failure(&error))?;
        let result = task(&redlock).await;
        redlock.shutdown(SHUTDOWN_MAX).await;
        result
    })
}

/// The exit status, and what to say, with the cure.
pub(crate) fn failure(error: &BuildError) -> (u8, String) {
    let (status, cure) = match error {
        BuildError::Unfit { .. } => (status::NO_QUORUM, "name another server in --masters"),
        BuildError::InvalidUrl { .. } => (status::USAGE, "such as redis://10.0.0.1:6379"),
        _ => (status::USAGE, "look at --masters, or FREDLOCK_MASTERS"),
    };
    (status, format!("{error}: {cure}"))
}
