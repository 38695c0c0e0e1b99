//! What stands in for the meter without the feature `metrics`: nothing is measured, and nothing
//! takes memory.

#![allow(
    clippy::unused_self,
    clippy::needless_pass_by_value,
    clippy::missing_const_for_fn,
    reason = "as with the feature"
)]

use std::sync::Arc;

use crate::{
    attempt::Failed,
    clock::Deadline,
    error::{AcquireError, ExtendError, ReleaseError},
    lock::Lock,
    master::Reply,
    outcome::{MasterError, Outcomes},
    signal::LostReason,
};

#[derive(Debug, Clone)]
pub(crate) struct Meter;
#[derive(Debug)]
pub(crate) struct MasterMeter;
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked;
pub(crate) struct Acquisition;
pub(crate) struct Attempt;
#[derive(Debug)]
pub(crate) struct Held;
pub(crate) struct Release;
pub(crate) struct Extension;

impl Meter {
    pub(crate) fn new<'a>(_: impl Iterator<Item = &'a Arc<str>>) -> Self {
        Self
    }

    pub(crate) fn acquisition(&self) -> Acquisition {
        Acquisition
    }

    pub(crate) fn attempt(&self) -> Attempt {
        Attempt
    }

    pub(crate) fn held(&self) -> Held {
        Held
    }

    pub(crate) fn extension(&self, _: &Deadline, _: Option<&Deadline>) -> Extension {
        Extension
    }

    pub(crate) fn extension_retried(&self) {}

    pub(crate) fn put_back(&self, _: usize) {}

    pub(crate) fn left_to_ttl(&self) {}
}

impl Asked {
    pub(crate) fn now() -> Self {
        Self
    }
}

impl MasterMeter {
    pub(crate) fn new(_: &Arc<str>) -> Self {
        Self
    }

    pub(crate) fn answered(&self, _: Asked, _: &Reply) {}

    pub(crate) fn failed(&self, _: &MasterError) {}
}

impl Acquisition {
    pub(crate) fn ended(self, _: &Result<Lock, AcquireError>) {}
}

impl Attempt {
    pub(crate) fn ended(self, _: &Result<Lock, Failed>) {}
}

impl Held {
    pub(crate) fn kept(&mut self) {}

    pub(crate) fn not_extended(&mut self, _: &ExtendError, _: &Deadline) {}

    pub(crate) fn ended(&mut self, _: &LostReason, _: &Deadline) {}

    pub(crate) fn forgotten(&mut self, _: &Deadline) {}

    pub(crate) fn release(&mut self, _: &Deadline) -> Release {
        Release
    }

    pub(crate) fn dropped(&mut self, _: &Deadline) {}
}

impl Release {
    pub(crate) fn ended(self, _: &Result<Outcomes, ReleaseError>) {}
}

impl Extension {
    pub(crate) fn ended(self, _: &Result<(), ExtendError>) {}

    pub(crate) fn overtaken(self, _: &LostReason) {}
}
