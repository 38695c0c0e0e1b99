//! The tool, run as people run it, against real masters.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod breaking;
mod doctor;
mod environment;
mod every_command;
mod holding;
mod inspect;
mod limits;
mod losing;
mod man;
mod processes;
mod progress;
mod shell;
mod signals;
mod status;
mod status_hung;
mod status_not_had;
mod support;
mod terminal;
mod tool;
mod unread;
mod waiting;
