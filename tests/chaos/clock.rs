//! The clock that all processes of a run share, and what shows that it ran on without this one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};

use crate::core_waits::CoreWaits;

/// What `Instant` shows on Linux, as a number that other processes can compare.
pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .expect("a monotonic clock")
        .into()
}

const TICK: Duration = Duration::from_millis(2);
/// A tick that is later than this is a gap.
const GAP_MIN: Duration = Duration::from_millis(4);
const GAPS_MAX: usize = 256;

/// A thread that wants to run every two milliseconds. When it could not, nobody could be asked to be
/// in time: the process was stopped, or the machine had no time for it.
///
/// On a machine with more to do than cores, one thread runs while another waits for its turn. So it
/// also looks at how long the runtime's own threads have waited for a core.
#[derive(Debug, Clone)]
pub(crate) struct Pulse(Arc<Mutex<Ticks>>);

#[derive(Debug)]
struct Ticks {
    last: Duration,
    /// From when to when there was no tick.
    gaps: VecDeque<(Duration, Duration)>,
    cores: CoreWaits,
}

impl Pulse {
    /// Of the runtime on which this is called.
    pub(crate) async fn start() -> Self {
        let ticks = Ticks {
            last: now(),
            gaps: VecDeque::new(),
            cores: CoreWaits::of_this_runtime().await,
        };
        let pulse = Self(Arc::new(Mutex::new(ticks)));
        let ticking = pulse.clone();
        thread::spawn(move || {
            loop {
                #[expect(clippy::disallowed_methods, reason = "a thread of its own")]
                thread::sleep(TICK);
                ticking.tick();
            }
        });
        pulse
    }

    fn tick(&self) {
        let mut ticks = self.0.lock().unwrap();
        let (last, now) = (ticks.last, now());
        ticks.last = now;
        ticks.cores.look(now);
        if now >= last + GAP_MIN {
            ticks.gaps.push_back((last, now));
            if ticks.gaps.len() > GAPS_MAX {
                ticks.gaps.pop_front();
            }
        }
    }

    /// How much of that time there was no tick, or a thread of the runtime waited for a core,
    /// whichever is more. `to` is the present.
    pub(crate) fn stalled(&self, from: Duration, to: Duration) -> Duration {
        let ticks = self.0.lock().unwrap();
        let present = (ticks.last, to);
        let gaps = ticks.gaps.iter().chain([&present]);
        let without_tick = gaps
            .map(|gap| gap.1.min(to).saturating_sub(gap.0.max(from)))
            .sum();
        let waited = ticks.cores.longest_since(from);
        waited.min(to.saturating_sub(from)).max(without_tick)
    }
}
