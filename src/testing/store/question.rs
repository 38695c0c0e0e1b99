//! What one master says beside the protocol (`master/inspect.lua`, `guard_state.lua`, `break.lua`).

use std::time::Duration;

use super::{Entry, Store};
use crate::{
    master::{Break, GUARD_MARKER, GUARD_QUARANTINE, GuardSight, Question, Sight},
    resources::Resources,
};

impl Store {
    pub(in crate::testing) fn tell(&mut self, question: &Question, now: Duration) -> Sight {
        self.expire(now);
        match question {
            Question::Inspect { resource, guarded } => self.sight(resource, *guarded),
            Question::Alive { .. } => Sight::default(),
            Question::Break(task) => {
                self.mark(task.guard_ms);
                let deleted = self.break_lock(task);
                Sight {
                    deleted,
                    ..self.sight(&task.resource, task.guard_ms.is_some())
                }
            }
            Question::GuardState => Sight::of_guard(self.guard_sight()),
            Question::Initialise if self.guard_sight() == GuardSight::Ready => {
                Sight::of_guard(GuardSight::Ready)
            }
            Question::Initialise => {
                self.set(GUARD_MARKER, "1", None);
                self.keys.remove(GUARD_QUARANTINE);
                Sight::of_guard(GuardSight::Initialised)
            }
        }
    }

    fn sight(&self, resource: &Resources, guarded: bool) -> Sight {
        let name = resource.iter().next().unwrap_or_default();
        let entry = self.keys.get(name);
        Sight {
            value: entry.map(|entry| entry.value.clone().into_bytes()),
            time_left: entry.and_then(|entry| self.left(entry)),
            fence: resource.fence_keys().map(|key| self.fence(key)).sum(),
            guard: guarded.then(|| self.guard_sight()),
            deleted: false,
        }
    }

    /// Was it deleted?
    fn break_lock(&mut self, task: &Break) -> bool {
        let name = task.resource.iter().next().unwrap_or_default();
        let entry = self.keys.get(name);
        let was_seen = |entry: &Entry| {
            let value = entry.value.as_bytes();
            task.values.iter().any(|seen| seen == value)
        };
        let deleted = entry.is_some_and(was_seen);
        if entry.is_some() && !deleted {
            return false;
        }
        if self.keys.remove(name).is_some() {
            self.tell_change(name);
        }
        self.raise_to(&task.resource, task.write);
        self.keep_for(&task.resource, task.write);
        deleted
    }
}
