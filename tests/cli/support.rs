//! The harness of the tests against real servers, without its own tests.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part, and `pub` marks what they may use"
)]

#[path = "../servers/support/commands.rs"]
mod commands;
#[path = "../servers/support/dir.rs"]
mod dir;
#[path = "../servers/support/fake.rs"]
pub mod fake;
#[path = "../servers/support/link.rs"]
mod link;
#[path = "../servers/support/port.rs"]
mod port;
#[path = "../servers/support/process.rs"]
pub mod process;
#[path = "../servers/support/queue.rs"]
mod queue;
#[path = "../servers/support/relay.rs"]
pub mod relay;
#[path = "../servers/support/resp.rs"]
mod resp;
#[path = "../servers/support/server.rs"]
pub mod server;
#[path = "../servers/support/servers.rs"]
pub mod servers;
