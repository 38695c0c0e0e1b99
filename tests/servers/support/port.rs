//! Loopback ports that no other test, thread or process of this harness takes at the same time.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// Ports are taken from here, below the range that Linux gives to outgoing connections (32768 and
/// up): a client that keeps reconnecting to a dead server's port in that range can end up connected
/// to itself.
const FIRST: u16 = 12_000;

/// How many ports there are to choose from.
const COUNT: u32 = 8_000;

/// A loopback TCP port that is this value's for as long as it lives, whether or not anything
/// listens on it.
///
/// The claim is a UDP socket on the same number. It outlasts a killed server, so that its restart
/// finds the port free, every process sees it, and the kernel drops it with the process.
#[derive(Debug)]
pub struct Port {
    claim: UdpSocket,
    number: u16,
}

impl Port {
    /// Claims a port on which nothing listens.
    pub fn claim() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Processes that run side by side have neighbouring ids: a large odd stride sets them
        // apart.
        let start = std::process::id().wrapping_mul(7_919);
        for _ in 0..COUNT {
            let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
            let number = FIRST + u16::try_from(offset).expect("COUNT fits in u16");
            let Ok(claim) = UdpSocket::bind(("127.0.0.1", number)) else {
                continue;
            };
            // Programs outside this harness know nothing of the claim.
            if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { claim, number };
            }
        }
        panic!(
            "no free loopback port in {FIRST}..{}",
            u32::from(FIRST) + COUNT
        );
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// `127.0.0.1:PORT`.
    pub fn addr(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Claims a port and listens on it, for the servers that live in this process.
    pub async fn listen() -> (Self, tokio::net::TcpListener) {
        for _ in 0..20 {
            let port = Self::claim();
            if let Ok(listener) = tokio::net::TcpListener::bind(port.addr()).await {
                return (port, listener);
            }
        }
        panic!("cannot listen on any claimed port");
    }
}
