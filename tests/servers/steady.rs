//! Tests whose times say something only on a machine that does not stand still.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use futures::FutureExt as _;
use tokio::time::Instant;

use super::clients::ms;

/// From here on a machine stood still: a lock of a second that is not extended in the meantime is
/// nobody's fault. Every test leaves more room than this where nothing stands still.
const STANDSTILL: Duration = ms(50);

/// How often a test may be spoiled by the machine.
const ATTEMPTS_MAX: u32 = 8;

/// Runs a test. One that fails is run again if the machine was seen to stand still meanwhile; one
/// that fails without that has failed.
pub(crate) async fn steadily(test: impl AsyncFn()) {
    for attempt in 1.. {
        let watch = Watch::start();
        let result = AssertUnwindSafe(test()).catch_unwind().await;
        let stood_still = watch.stop();
        match result {
            Ok(()) => return,
            Err(_) if stood_still >= STANDSTILL && attempt < ATTEMPTS_MAX => {
                eprintln!("the machine stood still for {stood_still:?}: once more");
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// A thread that only sleeps, and sees by how much too long it did.
struct Watch {
    ended: Arc<AtomicBool>,
    longest_ms: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start() -> Self {
        let (ended, longest_ms) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (has_ended, longest) = (Arc::clone(&ended), Arc::clone(&longest_ms));
        let thread = thread::spawn(move || {
            while !has_ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                pause(ms(5));
                let late = begun.elapsed().saturating_sub(ms(5)).as_millis();
                longest.fetch_max(u64::try_from(late).expect("fits"), Ordering::Relaxed);
            }
        });
        Self {
            ended,
            longest_ms,
            thread,
        }
    }

    fn stop(self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only sleeps");
        ms(self.longest_ms.load(Ordering::Relaxed))
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread that is no runtime's")]
fn pause(time: Duration) {
    thread::sleep(time);
}
