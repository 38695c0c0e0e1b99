//! Very many locks that `using` keeps at once: how their extensions come to lie in time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fredlock::{
    Lock, Redlock,
    testing::{Fate, MemoryMasters, Message, MessageKind},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const TTL: Duration = Duration::from_secs(60);
const LOCKS: usize = 200;
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// When the first master was asked to extend a lock.
#[derive(Clone, Default)]
struct Extensions(Arc<Mutex<Vec<Instant>>>);

impl Extensions {
    fn noted_on(masters: &MemoryMasters) -> Self {
        let extensions = Self::default();
        let noted = extensions.clone();
        masters.set_network(move |message| noted.note(message));
        extensions
    }

    fn note(&self, message: &Message) -> Fate {
        if message.master == 0 && message.kind == MessageKind::Extend {
            self.0.lock().unwrap().push(Instant::now());
        }
        Fate::default()
    }

    /// Those noted from now on are the first.
    fn forget(&self) {
        self.0.lock().unwrap().clear();
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The most within any time of this length.
    fn most_within(&self, length: Duration) -> usize {
        let times = self.0.lock().unwrap();
        let within = |begin: &Instant| {
            let later = times.iter().filter(|&time| time >= begin);
            later.take_while(|&&time| time < *begin + length).count()
        };
        times.iter().map(within).max().unwrap_or(0)
    }
}

/// A client whose random choices are the same in every run.
async fn client(masters: &MemoryMasters, command_timeout: Duration) -> Redlock {
    let builder = Redlock::builder().memory(masters).seed(1);
    let builder = builder.settings(|settings| settings.command_timeout(command_timeout));
    builder.connect().await.unwrap()
}

/// Routines that all begin now, each with a lock of its own, and say at their end whether it was kept.
fn keep(redlock: &Redlock, lasts: Duration) -> JoinSet<bool> {
    let mut routines = JoinSet::new();
    for number in 0..LOCKS {
        let redlock = redlock.clone();
        routines.spawn(async move {
            let name = format!("job-{number}");
            let using = redlock.using([name], TTL, async |signal| {
                sleep(lasts).await;
                signal.check().is_ok()
            });
            using.await.is_ok_and(|was_kept| was_kept)
        });
    }
    routines
}

#[tokio::test(start_paused = true)]
async fn locks_that_were_taken_at_one_moment_are_extended_over_a_third_of_their_ttl() {
    let masters = MemoryMasters::new(3);
    let extensions = Extensions::noted_on(&masters);
    let redlock = client(&masters, SECOND).await;
    let routines = keep(&redlock, 2 * TTL);
    assert_eq!(routines.join_all().await, vec![true; LOCKS]);
    assert!(extensions.count() >= 3 * LOCKS, "{}", extensions.count());
    // Ten in a second if they were spread evenly; fifty over a tenth of the time; all in step.
    let most = extensions.most_within(SECOND);
    assert!(most <= 40, "{most} of {LOCKS} within a second");
}

/// Those that failed while masters were away ask again within seconds of each other when these come
/// back; from then on they would all be due together.
#[tokio::test(start_paused = true)]
async fn locks_that_masters_brought_into_step_are_out_of_step_again_with_the_next_extension() {
    let masters = MemoryMasters::new(3);
    let extensions = Extensions::noted_on(&masters);
    let redlock = client(&masters, SECOND).await;
    let routines = keep(&redlock, 2 * TTL);
    // Before the first is due; when they come back, all are overdue.
    sleep(15 * SECOND).await;
    for master in 0..3 {
        masters.hang(master);
    }
    sleep(30 * SECOND).await;
    for master in 0..3 {
        masters.heal(master);
    }
    sleep(5 * SECOND).await;
    extensions.forget();
    assert_eq!(routines.join_all().await, vec![true; LOCKS]);
    let most = extensions.most_within(SECOND);
    assert!(most <= 40, "{most} of {LOCKS} within a second");
}

#[tokio::test(start_paused = true)]
async fn extensions_that_failed_together_are_not_tried_again_together() {
    let masters = MemoryMasters::new(3);
    let extensions = Extensions::noted_on(&masters);
    let redlock = client(&masters, SECOND).await;
    let mut locks: Vec<Lock> = Vec::new();
    for number in 0..LOCKS {
        locks.push(
            redlock
                .acquire([format!("job-{number}")], TTL)
                .await
                .unwrap(),
        );
    }
    for master in 0..3 {
        masters.stop(master);
    }
    let mut extending = JoinSet::new();
    for mut lock in locks {
        extending.spawn(async move { lock.extend(TTL).await.is_ok() });
    }
    sleep(3 * SECOND).await;
    extensions.forget();
    for master in 0..3 {
        masters.heal(master);
    }
    assert_eq!(extending.join_all().await, vec![true; LOCKS]);
    assert_eq!(extensions.count(), LOCKS, "one try each");
    let most = extensions.most_within(20 * MS);
    assert!(most <= LOCKS / 5, "{most} of {LOCKS} within 20 ms");
}

/// Where masters answer nobody for long, they are not kept from it by those who ask again.
#[tokio::test(start_paused = true)]
async fn an_extension_that_fails_is_tried_the_less_often_the_more_time_is_left() {
    let masters = MemoryMasters::new(3);
    let extensions = Extensions::noted_on(&masters);
    let redlock = client(&masters, SECOND).await;
    let mut lock = redlock.acquire(["job"], TTL).await.unwrap();
    for master in 0..3 {
        masters.stop(master);
    }
    lock.extend(TTL).await.unwrap_err();
    // A pause of an eighth of what is left makes some forty of a minute, one of 200 ms four hundred.
    let tries = extensions.count();
    assert!((20..=120).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_hangs_keeps_no_other_lock_from_its_own() {
    for direct_max in [1, 4] {
        let masters = MemoryMasters::new(3);
        let (extensions, hangs) = (Extensions::default(), Arc::new(AtomicBool::new(true)));
        let (noted, first) = (extensions.clone(), Arc::clone(&hangs));
        let mut lost = 0;
        masters.set_network(move |message| {
            let fate = noted.note(message);
            // The first of all: on every master.
            if message.kind == MessageKind::Extend && lost < 3 {
                lost += 1;
                first.store(false, Ordering::Relaxed);
                return fate.lose_request();
            }
            fate
        });
        let builder = Redlock::builder().memory(&masters).seed(1);
        let builder = builder.direct_max(direct_max);
        let settings = builder.settings(|settings| settings.command_timeout(5 * SECOND));
        let redlock = settings.connect().await.unwrap();
        let routines = keep(&redlock, TTL);
        while hangs.load(Ordering::Relaxed) {
            sleep(10 * MS).await;
        }
        // It hangs by now, and does for another four seconds.
        extensions.forget();
        sleep(4 * SECOND).await;
        let meanwhile = extensions.count();
        assert!(meanwhile >= 10, "{meanwhile} while one hung");
        assert_eq!(routines.join_all().await, vec![true; LOCKS]);
    }
}
