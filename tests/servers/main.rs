//! Tests against real servers: each is named for what must hold.

mod acquire;
mod answers;
mod cancel;
mod clients;
mod endurance;
mod foreign;
mod joining;
mod limits;
mod permissions;
mod retry;
mod scripts;
mod stragglers;
mod support;
mod watched;
