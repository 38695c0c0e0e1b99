//! Who of this process waits for which resource, in the order in which they came.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::bytes_utils::Str;
use tokio::{sync::Notify, time::Instant};

use crate::{attempt::Failed, mutant::Mutant, resources::Resources};

/// Whoever is first, and is late by so much with what it has to do next, is passed over: nobody
/// polls it (its runtime is blocked, or its future lies aside), and the others must not wait for it.
const LATE: Duration = Duration::from_secs(1);

/// One line for each resource that somebody waits for. A line that nobody stands in is gone.
#[derive(Debug)]
pub(crate) struct Queue {
    lines: Mutex<Lines>,
    mutant: Option<Mutant>,
}

#[derive(Debug, Default)]
struct Lines {
    next: u64,
    of: HashMap<Str, Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// By number. An acquisition has the same one in all of its lines, so that of any two the same
    /// one is first in every line that they share: no two can wait for each other.
    places: BTreeMap<u64, Arc<Place>>,
    /// What the last attempt of whoever was first came to.
    heard: Option<Failed>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    resources: Resources,
    turn: Notify,
    due: Mutex<Due>,
}

/// When one that is first has to be heard of again at the latest.
#[derive(Debug, Clone, Copy)]
struct Due {
    at: Instant,
    /// It is at something that takes until then: whoever comes meanwhile does not hasten it.
    is_firm: bool,
}

/// A place in the lines of all resources of one acquisition. Dropping it hands the place on.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    place: Arc<Place>,
}

impl Queue {
    pub(crate) fn new(mutant: Option<Mutant>) -> Self {
        Self {
            lines: Mutex::default(),
            mutant,
        }
    }

    /// Stands at the end of the lines of all resources, at once.
    pub(crate) fn enter(self: &Arc<Self>, resources: &Resources) -> Ticket {
        let mut lines = self.lines();
        lines.next += 1;
        let number = match self.mutant {
            Some(Mutant::LastFirst) => u64::MAX - lines.next,
            _ => lines.next,
        };
        let place = Arc::new(Place {
            number,
            resources: resources.clone(),
            turn: Notify::new(),
            due: Mutex::new(Due::at(Instant::now())),
        });
        lines.add(&place);
        lines.rouse_fronts(&place);
        drop(lines);
        Ticket {
            queue: Arc::clone(self),
            place,
        }
    }

    /// How many acquisitions stand in it.
    pub(crate) fn len(&self) -> usize {
        let lines = self.lines();
        let places = lines.of.values().flat_map(|line| line.places.keys());
        places.collect::<HashSet<_>>().len()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Is it first in every line? Passes over those before it that are late.
    pub(crate) fn is_first(&self) -> bool {
        let mut lines = self.queue.lines();
        // It may have been passed over itself: it comes back with its old number.
        lines.add(&self.place);
        let now = Instant::now();
        {
            let mut due = self.place.due();
            due.at = now.max(due.at);
        }
        loop {
            let late = lines
                .fronts(&self.place)
                .find(|front| front.number < self.place.number && front.is_late(now));
            match late.map(Arc::clone) {
                Some(late) => lines.remove(&late),
                None => break,
            }
        }
        lines.is_front(&self.place)
    }

    /// May it ask the masters though it is not first? Where one before it wants something else too,
    /// that may be all that is in its way: whoever holds that something else may be waiting here,
    /// and everybody would wait for ever. Where all that those in front want is wanted here too, what
    /// is in their way is in this one's.
    pub(crate) fn may_pass(&self) -> bool {
        let lines = self.queue.lines();
        let own: HashSet<&str> = self.place.resources.iter().collect();
        let mut fronts = lines
            .fronts(&self.place)
            .filter(|front| front.number < self.place.number);
        fronts.all(|front| front.resources.iter().any(|name| !own.contains(name)))
    }

    /// Does anybody stand behind it?
    pub(crate) fn is_awaited(&self) -> bool {
        let lines = self.queue.lines();
        let mut own = self.place.resources.iter();
        own.any(|name| lines.of.get(name).is_some_and(|line| line.places.len() > 1))
    }

    /// Waits until it may have become first, or may be awaited.
    ///
    /// # Cancel safety
    /// Loses nothing: whoever asks [`is_first`](Self::is_first) and
    /// [`is_awaited`](Self::is_awaited) knows.
    pub(crate) async fn turn(&self) {
        self.place.turn.notified().await;
    }

    /// Promises to be heard of again by then.
    pub(crate) fn due(&self, due: Instant) {
        *self.place.due() = Due::at(due);
    }

    /// Promises the same, but not to be heard of any sooner, whoever comes.
    pub(crate) fn busy_until(&self, end: Instant) {
        *self.place.due() = Due {
            at: end,
            is_firm: true,
        };
    }

    /// Lets those behind know what came of an attempt.
    pub(crate) fn tell(&self, failed: &Failed) {
        let mut lines = self.queue.lines();
        for name in self.place.resources.iter() {
            if let Some(line) = lines.of.get_mut(name) {
                line.heard = Some(failed.clone());
            }
        }
    }

    /// What those in front heard last, and how many stand in front, in the longest of its lines.
    pub(crate) fn heard(&self) -> (Option<Failed>, usize) {
        let lines = self.queue.lines();
        let own = || {
            let names = self.place.resources.iter();
            names.filter_map(|name| lines.of.get(name))
        };
        let ahead = own().map(|line| line.places.range(..self.place.number).count());
        let heard = own().find_map(|line| line.heard.clone());
        (heard, ahead.max().unwrap_or(0))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.queue.mutant != Some(Mutant::PlaceLost) {
            self.queue.lines().remove(&self.place);
        }
    }
}

impl Lines {
    fn add(&mut self, place: &Arc<Place>) {
        for name in place.resources.key_texts() {
            let line = self.of.entry(name.clone()).or_default();
            line.places
                .entry(place.number)
                .or_insert_with(|| Arc::clone(place));
        }
    }

    /// Whoever was alone in a line until now has to be heard of more often.
    fn rouse_fronts(&self, newcomer: &Place) {
        for name in newcomer.resources.iter() {
            let Some(line) = self.of.get(name).filter(|line| line.places.len() == 2) else {
                continue;
            };
            if let Some((_, front)) = line.places.first_key_value() {
                let soon = Instant::now() + LATE;
                let mut due = front.due();
                if !due.is_firm {
                    due.at = soon.min(due.at);
                }
                front.turn.notify_one();
            }
        }
    }

    /// Takes it out, and tells those whose turn it is now.
    fn remove(&mut self, place: &Place) {
        let mut next = Vec::new();
        for name in place.resources.iter() {
            let Some(line) = self.of.get_mut(name) else {
                continue;
            };
            line.places.remove(&place.number);
            match line.places.first_key_value() {
                Some((_, front)) => next.push(Arc::clone(front)),
                None => drop(self.of.remove(name)),
            }
        }
        for front in next {
            if self.is_front(&front) {
                *front.due() = Due::at(Instant::now());
                front.turn.notify_one();
            }
        }
    }

    fn fronts<'a>(&'a self, place: &'a Place) -> impl Iterator<Item = &'a Arc<Place>> {
        let lines = place.resources.iter().filter_map(|name| self.of.get(name));
        lines.filter_map(|line| line.places.first_key_value().map(|(_, front)| front))
    }

    fn is_front(&self, place: &Place) -> bool {
        self.fronts(place).all(|front| front.number == place.number)
    }
}

impl Place {
    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_late(&self, now: Instant) -> bool {
        now > self.due().at + LATE
    }
}

impl Due {
    fn at(at: Instant) -> Self {
        let is_firm = false;
        Self { at, is_firm }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
