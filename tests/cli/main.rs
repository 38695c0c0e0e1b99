//! The tool, run as people run it, against real masters.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod breaking;
mod doctor;
mod every_command;
mod inspect;
mod losing;
mod man;
mod processes;
mod signals;
mod status;
mod status_hung;
mod support;
mod terminal;
mod tool;
mod unread;
mod waiting;
