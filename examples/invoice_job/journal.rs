//! Prints what happens, and when.

use std::fmt::Display;

use tokio::time::Instant;

#[derive(Clone, Copy)]
pub struct Journal {
    begun: Instant,
}

impl Journal {
    pub fn begin() -> Self {
        Self {
            begun: Instant::now(),
        }
    }

    pub fn say(self, what: impl Display) {
        println!("{:.3} s  {what}", self.begun.elapsed().as_secs_f64());
    }
}
