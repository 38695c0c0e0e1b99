//! How long the threads of a runtime could have run, and no core was free for them.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::Path,
    time::Duration,
};

use tokio::time::sleep;

/// Some seconds' worth of looks.
const LOOKS_MAX: usize = 2048;

/// By the kernel's own account: `schedstat` of a thread has, as its second number, the nanoseconds
/// that it spent runnable, but not running (Linux, `Documentation/scheduler/sched-stats.rst`). A
/// thread that sleeps or is blocked does not count there, so that a timer which nobody looked at is
/// no excuse.
#[derive(Debug)]
pub(crate) struct CoreWaits {
    threads: Vec<File>,
    /// When somebody looked, and what each thread had waited by then.
    looks: VecDeque<(Duration, Vec<Duration>)>,
}

impl CoreWaits {
    /// A thread names itself once it runs, which can be later than this.
    pub(crate) async fn of_this_runtime() -> Self {
        let known = tokio::runtime::Handle::current().metrics().num_workers();
        for _ in 0..500 {
            let threads = workers();
            if threads.len() >= known {
                let looks = VecDeque::new();
                return Self { threads, looks };
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!(
            "{} of {known} threads of the runtime found",
            workers().len()
        );
    }

    pub(crate) fn look(&mut self, now: Duration) {
        let waits = self.waits();
        self.looks.push_back((now, waits));
        if self.looks.len() > LOOKS_MAX {
            self.looks.pop_front();
        }
    }

    /// The longest that one of them has waited since the last look before then. What it had waited
    /// already when it got its turn counts whole, since the kernel adds it up only then.
    pub(crate) fn longest_since(&self, from: Duration) -> Duration {
        let before = self.looks.iter().rev().find(|look| look.0 <= from);
        let Some((_, then)) = before else {
            return Duration::ZERO;
        };
        let waits = self.waits().into_iter().zip(then);
        waits
            .map(|(now, then)| now.saturating_sub(*then))
            .max()
            .unwrap_or_default()
    }

    fn waits(&self) -> Vec<Duration> {
        self.threads.iter().map(wait).collect()
    }
}

fn workers() -> Vec<File> {
    let tasks = fs::read_dir("/proc/self/task").expect("this process's threads");
    let tasks = tasks.map(|task| task.expect("a thread").path());
    tasks
        .filter(|task| is_worker(task))
        .map(|task| File::open(task.join("schedstat")).expect("a kernel with schedstat"))
        .collect()
}

fn is_worker(task: &Path) -> bool {
    let mut name = String::new();
    // A thread may have ended meanwhile.
    let read = File::open(task.join("comm")).and_then(|mut comm| comm.read_to_string(&mut name));
    read.is_ok() && name.trim_end() == "tokio-rt-worker"
}

/// Zero for a thread that has ended.
fn wait(schedstat: &File) -> Duration {
    let mut text = [0; 96];
    let length = schedstat.read_at(&mut text, 0).unwrap_or_default();
    let text = std::str::from_utf8(&text[..length]).expect("numbers");
    let waited = text.split_whitespace().nth(1);
    Duration::from_nanos(waited.map_or(0, |waited| waited.parse().expect("a number")))
}

#[cfg(test)]
mod tests {
    use std::{
        hint::spin_loop,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        thread,
    };

    use super::*;
    use crate::{clock::now, runs::ALONE};

    const BLOCKED: Duration = Duration::from_millis(400);

    async fn waited_while(work: impl FnOnce() + Send + 'static) -> Duration {
        let mut cores = CoreWaits::of_this_runtime().await;
        let from = now();
        cores.look(from);
        tokio::spawn(async { work() }).await.unwrap();
        cores.longest_since(from)
    }

    // One test, since what one half does would disturb the other.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_thread_that_waits_for_a_core_is_seen_and_one_that_blocks_is_not() {
        let _alone = ALONE.lock().await;
        #[expect(clippy::disallowed_methods, reason = "the fault that it is about")]
        let waited = waited_while(|| thread::sleep(BLOCKED)).await;
        assert!(waited < BLOCKED / 2, "{waited:?} while it blocked");

        let cores = thread::available_parallelism().unwrap().get();
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..cores * 8 {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let waited = waited_while(|| {
            let end = now() + BLOCKED;
            while now() < end {
                spin_loop();
            }
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        assert!(waited > BLOCKED / 10, "{waited:?} while others ran");
    }
}
