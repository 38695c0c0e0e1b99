//! Real masters, and a paused holder: the harness of the tests against real servers.

#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../servers/support/commands.rs"]
mod commands;
#[path = "../servers/support/dir.rs"]
mod dir;
#[path = "../servers/support/paused.rs"]
pub mod paused;
#[path = "../servers/support/port.rs"]
mod port;
#[path = "../servers/support/process.rs"]
mod process;
#[path = "../servers/support/resp.rs"]
mod resp;
#[path = "../servers/support/server.rs"]
pub mod server;
#[path = "../servers/support/servers.rs"]
pub mod servers;
