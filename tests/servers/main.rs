//! Tests against real servers: each is named for what must hold.

mod readme;
mod support;
