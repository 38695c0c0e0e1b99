//! Tests against real servers: each is named for what must hold.

mod blocked;
mod clients;
mod keeping;
mod limits;
mod load;
mod shutdown;
mod signal;
mod support;
mod using;
mod wrapper;
