//! Tests against real servers: each is named for what must hold.

mod conformance;
mod native;
mod support;
