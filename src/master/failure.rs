//! What an error of fred means: the server's word, or the want of one.

use fred::error::{Error, ErrorKind};

use crate::outcome::MasterError;

/// What an error of fred means. By the convention of the protocol, one that the server gave begins
/// with a code in capitals; all others are fred's own, whatever kind they have.
pub(super) fn failure(error: &Error) -> MasterError {
    let details = error.details().to_owned();
    match error.kind() {
        ErrorKind::Timeout => MasterError::Timeout,
        ErrorKind::IO | ErrorKind::Canceled | ErrorKind::Protocol | ErrorKind::Routing => {
            MasterError::ConnectionLost(details)
        }
        _ if begins_with_code(&details) => MasterError::Server(details),
        _ if details == NOT_SENT => MasterError::NotConnected(details),
        // Whether it was sent is not known.
        _ => MasterError::ConnectionLost(details),
    }
}

/// What fred says of a command that found no connection to be sent on.
const NOT_SENT: &str = "Failed to route command.";

fn begins_with_code(details: &str) -> bool {
    let code = details.split_whitespace().next().unwrap_or("");
    code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_fred_are_not_taken_for_the_servers() {
        let of = |kind, details: &str| failure(&Error::new(kind, details.to_owned()));
        let server = |details: &str| MasterError::Server(details.to_owned());
        let lost = |details: &str| MasterError::ConnectionLost(details.to_owned());
        for (kind, text) in [
            (ErrorKind::Unknown, "ERR unknown command"),
            (ErrorKind::Unknown, "NOPERM this user has no permissions"),
            (ErrorKind::Auth, "NOAUTH Authentication required."),
            (ErrorKind::Cluster, "MOVED 1 127.0.0.1:1"),
        ] {
            assert_eq!(of(kind, text), server(text));
        }
        assert_eq!(
            of(ErrorKind::Unknown, NOT_SENT),
            MasterError::NotConnected(NOT_SENT.to_owned())
        );
        for (kind, text) in [
            (ErrorKind::Unknown, "Too many failed write attempts."),
            (ErrorKind::Unknown, "Client is not initialized."),
            (ErrorKind::Parse, "A frame without an end"),
            (ErrorKind::IO, "Connection reset by peer"),
            (ErrorKind::Canceled, "Canceled."),
        ] {
            assert_eq!(of(kind, text), lost(text));
        }
        assert_eq!(of(ErrorKind::Timeout, "Timeout"), MasterError::Timeout);
    }
}
