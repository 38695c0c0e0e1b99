//! The network of a run: what becomes of each message, drawn from the seed.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fredlock::testing::{Fate, Message, MessageKind};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    faults::{Fault, Injected},
    plan::{Plan, Weather},
};

/// Which clients cannot reach which masters.
pub(crate) type Partitions = Arc<Mutex<HashSet<(usize, usize)>>>;

/// Decides the fate of every message. `calm` ends all of it.
pub(crate) fn network(
    plan: &Plan,
    partitions: Partitions,
    calm: Arc<std::sync::atomic::AtomicBool>,
    injected: Arc<Injected>,
) -> impl FnMut(&Message) -> Fate + Send + 'static {
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x006e_6574);
    let deaf = plan.deaf;
    let releases_arrive = plan.weather == Weather::ReleasesArrive;
    let slowest = u64::try_from(plan.ttl.as_micros()).unwrap();
    // In some runs a client knows that it is cut off from a master, in some it does not.
    let refuses = rng.gen_bool(0.5);
    let guarded = plan.weather == Weather::Guarded;
    // Some runs have a bad network, some a good one.
    let badness = [0.0, 0.3, 1.0, 2.0][rng.gen_range(0..4)];
    move |message| {
        if calm.load(std::sync::atomic::Ordering::Relaxed) {
            return match message.kind {
                MessageKind::Watch if deaf => Fate::default().lose_request(),
                _ => Fate::default(),
            };
        }
        let mut delay = |up_to: u64| Duration::from_micros(rng.gen_range(0..=up_to.max(1)));
        let mut fate = Fate::default()
            .delay_request(delay(800))
            .delay_reply(delay(800));
        // A guard has to hold against what was granted long before: such answers have to be in time.
        let longest = if guarded { slowest } else { slowest / 6 };
        let (long, later) = (delay(longest), delay(slowest * 3 / 2));
        // A group may carry one.
        let is_release = matches!(message.kind, MessageKind::Release | MessageKind::Group);
        let is_safe = releases_arrive && is_release;
        if partitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&(message.client, message.master))
        {
            injected.count(Fault::Partition);
            fate = if refuses {
                fate.refuse()
            } else {
                fate.lose_request()
            };
        }
        let mut happens = |fault: Fault, chance: f64| {
            let happens = rng.gen_bool(chance * badness);
            if happens {
                injected.count(fault);
            }
            happens
        };
        if happens(Fault::Delay, if guarded { 0.2 } else { 0.05 }) {
            fate = fate.delay_request(long);
        }
        if happens(Fault::DelayReply, 0.05) {
            fate = fate.delay_reply(long);
        }
        if !is_safe && happens(Fault::LoseRequest, 0.04) {
            fate = fate.lose_request();
        }
        if happens(Fault::LoseReply, 0.05) {
            fate = fate.lose_reply();
        }
        if !releases_arrive && happens(Fault::Straggle, 0.04) {
            fate = fate.straggle(later);
        }
        if !releases_arrive && happens(Fault::Repeat, 0.04) {
            fate = fate.repeat(later);
        }
        fate
    }
}
