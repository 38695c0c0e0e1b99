//! Clients that share nothing but their masters take turns: each knows from what the masters tell who
//! has had the lock, and so whose turn it is.

use std::{sync::Arc, time::Duration};

use fredlock::{
    Fencing, Redlock, Retry, Settings,
    testing::{Fate, MemoryMasters, MessageKind},
};
use tokio::{
    sync::Mutex,
    task::JoinSet,
    time::{Instant, sleep},
};

use super::notices::{HOUR, MASTERS, MS, SECOND, Sent};

const HOLD: Duration = Duration::from_millis(10);

fn patient(settings: Settings) -> Settings {
    settings.retry(Retry::default().unlimited().delay(SECOND))
}

/// Who has had it when, in order.
#[derive(Clone, Default)]
struct History(Arc<Mutex<Vec<(usize, Instant)>>>);

/// Those who want it again and again; each is a client of its own.
struct Workers {
    masters: MemoryMasters,
    history: History,
    tasks: JoinSet<()>,
}

impl Workers {
    /// Notices take some time, which is not the same for everybody.
    fn new() -> Self {
        let masters = MemoryMasters::new(MASTERS);
        (0..MASTERS).for_each(|master| masters.set_latency(master, 2 * MS));
        let mut step = 0_u32;
        masters.set_network(move |message| {
            step = step.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let late = Duration::from_micros(u64::from(step >> 16) % 400);
            match message.kind {
                MessageKind::Watch => Fate::default().delay_reply(late),
                _ => Fate::default(),
            }
        });
        Self {
            masters,
            history: History::default(),
            tasks: JoinSet::new(),
        }
    }

    /// So many come while somebody else has it, so that each knows that it is not alone.
    async fn come(&mut self, stay: &[Duration]) {
        for master in 0..MASTERS {
            self.masters.set(master, "a", "another", None);
        }
        for (number, stays) in stay.iter().enumerate() {
            self.comes(number, *stays).await;
        }
        sleep(20 * MS).await;
        self.masters.lose("a");
    }

    /// One more comes, with this number, and stays for so long.
    async fn comes(&mut self, number: usize, stays: Duration) {
        let builder = Redlock::builder().memory(&self.masters);
        // The clock by which fences rise stands still here, and raising them takes attempts longer.
        let builder = builder.fencing(Fencing::Off);
        let builder = builder.seed(u64::try_from(number).unwrap());
        let redlock = builder.settings(patient).connect().await.unwrap();
        let history = self.history.clone();
        let ends = Instant::now() + stays;
        self.tasks.spawn(async move {
            while Instant::now() < ends {
                let lock = redlock.acquire(["a"], HOUR).await.unwrap();
                history.0.lock().await.push((number, Instant::now()));
                sleep(HOLD).await;
                lock.release().await.unwrap();
            }
        });
    }

    /// How often each of so many had it within that time from now on.
    async fn counts(&self, workers: usize, time: Duration) -> Vec<usize> {
        let begun = Instant::now();
        sleep(time).await;
        let history = self.history.0.lock().await;
        let of = |number| {
            let had = history.iter().filter(|(who, _)| *who == number);
            had.filter(|(_, when)| *when >= begun).count()
        };
        (0..workers).map(of).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn clients_take_turns_evenly_and_hardly_ever_collide() {
    let mut workers = Workers::new();
    workers.come(&[HOUR; 8]).await;
    sleep(2 * SECOND).await;
    let calls = workers.masters.calls(0);
    let counts = workers.counts(8, 10 * SECOND).await;
    let calls = workers.masters.calls(0) - calls;
    let turns: usize = counts.iter().sum();
    let (least, most) = (*counts.iter().min().unwrap(), *counts.iter().max().unwrap());
    assert!(10 * least >= 9 * most, "{counts:?}");
    // 10 ms of holding, 1 ms to the masters, 2 ms until it is told (timers go by milliseconds), 2 ms for
    // an attempt; a little more where the first in line asks before it tries.
    assert!(turns > 10_000 / 17, "{turns} turns");
    // An attempt and a release; of one that was too polite to be first, an attempt and its roll-back.
    let calls = f64::from(u32::try_from(calls).unwrap());
    let for_a_turn = calls / f64::from(u32::try_from(turns).unwrap());
    assert!(for_a_turn < 4.5, "{for_a_turn} calls for a turn");
    workers.tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_who_comes_later_gets_a_place_among_those_who_take_turns() {
    let mut workers = Workers::new();
    workers.come(&[HOUR; 5]).await;
    sleep(2 * SECOND).await;
    workers.comes(5, HOUR).await;
    sleep(2 * SECOND).await;
    let counts = workers.counts(6, 5 * SECOND).await;
    let most = *counts.iter().max().unwrap();
    assert!(10 * counts[5] >= 9 * most, "{counts:?}");
    workers.tasks.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn those_who_have_gone_are_not_waited_for() {
    let mut workers = Workers::new();
    let leaves = 2 * SECOND;
    let stay = [HOUR, HOUR, leaves, leaves, leaves, leaves, leaves, leaves];
    workers.come(&stay).await;
    sleep(3 * SECOND).await;
    let counts = workers.counts(8, 5 * SECOND).await;
    assert_eq!(counts[2..], [0; 6]);
    // Between them they have it every 16 ms; every 22, if six that have gone were let go first.
    assert!(counts[0] + counts[1] > 5_000 / 18, "{counts:?}");
    assert!(counts[0].abs_diff(counts[1]) < 10, "{counts:?}");
    workers.tasks.shutdown().await;
}

/// Whoever has waited longest goes without a question: a holder that only extends its lock is to cost
/// it one attempt, and not one for each extension.
#[tokio::test(start_paused = true)]
async fn a_holder_that_extends_its_lock_again_and_again_costs_the_first_in_line_one_attempt() {
    let masters = MemoryMasters::new(MASTERS);
    (0..MASTERS).for_each(|master| masters.set_latency(master, 2 * MS));
    let long = |settings: Settings| settings.retry(Retry::default().unlimited().delay(HOUR));
    let one = super::client(&masters, long).await;
    let other = super::client(&masters, long).await;
    let mut held = one.acquire(["a"], HOUR).await.unwrap();
    // Both have had it, and waited for it.
    for redlock in [&other, &one] {
        let waiting = redlock.clone();
        let waiting = tokio::spawn(async move { waiting.acquire(["a"], HOUR).await.unwrap() });
        sleep(20 * MS).await;
        held.release().await.unwrap();
        held = waiting.await.unwrap();
    }
    let sent = Sent::noted_on(&masters);
    let waiting = tokio::spawn(async move { other.acquire(["a"], HOUR).await.unwrap() });
    sleep(50 * MS).await;
    assert_eq!(sent.count(MessageKind::Acquire), 1);
    for _ in 0..20 {
        held.extend(HOUR).await.unwrap();
        sleep(10 * MS).await;
    }
    assert_eq!(sent.count(MessageKind::Acquire), 2);
    held.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
}
