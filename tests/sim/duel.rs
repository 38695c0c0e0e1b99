//! Two clients on three masters, the last of which restarts empty again and again: what a restart
//! guard is for, in a run that is made for it. The holder seldom reaches that master with its
//! acquisitions, and the one in the middle only with every other extension; the rival tries for a
//! whole ttl each time, and its messages to the one in the middle take as long. Then a grant from
//! before a restart can come together with one from long after it, if anything lets the holder go
//! on with the master that has restarted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{
    Lock, Redlock,
    testing::{Fate, MemoryMasters, MessageKind, Mutant},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    check::{Rules, check},
    hold::Hold,
};

const MASTERS: usize = 3;
const TTL: Duration = Duration::from_millis(100);
/// The longest ttl, and what the clients' clocks may differ.
const GUARD: Duration = Duration::from_millis(105);
const LASTS: Duration = Duration::from_secs(2);

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) holds: usize,
    pub(crate) restarts: usize,
}

/// Runs a seed, on time of its own.
pub(crate) fn run(seed: u64, guarded: bool, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulate(seed, guarded, mutant))
}

/// All that happened.
#[derive(Debug)]
struct Book {
    start: Instant,
    holds: Mutex<Vec<Hold>>,
}

impl Book {
    fn at(&self, moment: Instant) -> Duration {
        moment - self.start
    }

    fn open(&self, client: usize, begun: Instant, lock: &Lock) -> usize {
        let now = self.at(Instant::now());
        let mut holds = self.holds.lock().unwrap();
        holds.push(Hold {
            client,
            resources: vec![0],
            fence: lock.fence().get(),
            begun: self.at(begun),
            from: now,
            until: now + lock.remaining(),
            ended: None,
        });
        holds.len() - 1
    }

    fn extended(&self, hold: usize, lock: &Lock) {
        let until = self.at(Instant::now()) + lock.remaining();
        self.holds.lock().unwrap()[hold].until = until;
    }

    fn ended(&self, hold: usize) {
        let now = self.at(Instant::now());
        self.holds.lock().unwrap()[hold].ended = Some(now);
    }
}

async fn simulate(seed: u64, guarded: bool, mutant: Option<Mutant>) -> Outcome {
    let mut rng = StdRng::seed_from_u64(seed);
    let masters = MemoryMasters::new(MASTERS);
    masters.mutate(mutant);
    let book = Arc::new(Book {
        start: Instant::now(),
        holds: Mutex::default(),
    });
    let holder = client(&masters, guarded, mutant, seed).await;
    let rival = client(&masters, guarded, mutant, seed ^ 1 << 40).await;
    if guarded {
        holder.initialise().await.unwrap();
    }
    let mut fates = StdRng::seed_from_u64(seed ^ 2 << 40);
    masters.set_network(move |message| {
        let fate = Fate::default().delay_request(fraction(&mut fates, 0.01));
        match (message.client, message.kind) {
            (0, MessageKind::Release) => fate,
            (0, MessageKind::Acquire) if message.master == 2 && fates.gen_bool(0.8) => {
                fate.lose_request()
            }
            (0, MessageKind::Extend) if message.master == 1 && fates.gen_bool(0.5) => {
                fate.lose_request()
            }
            (1, MessageKind::Acquire) if message.master == 1 && fates.gen_bool(0.8) => {
                fate.delay_request(fraction(&mut fates, 1.0))
            }
            _ => fate,
        }
    });
    let choices = StdRng::seed_from_u64(seed ^ 3 << 40);
    let holding = tokio::spawn(hold(holder, Arc::clone(&book), choices));
    let choices = StdRng::seed_from_u64(seed ^ 4 << 40);
    let rivalling = tokio::spawn(rival_of(rival, Arc::clone(&book), choices));
    let mut restarts = 0;
    while book.start.elapsed() < LASTS {
        sleep(TTL + fraction(&mut rng, 2.0)).await;
        masters.restart_empty(MASTERS - 1);
        restarts += 1;
    }
    for task in [holding, rivalling] {
        task.abort();
    }
    let holds = book.holds.lock().unwrap().clone();
    let rules = Rules {
        exclusion: true,
        fences: guarded,
    };
    Outcome {
        violations: check(rules, &holds),
        holds: holds.len(),
        restarts,
    }
}

fn fraction(rng: &mut StdRng, most: f64) -> Duration {
    TTL.mul_f64(rng.gen_range(0.0..most))
}

async fn client(
    masters: &MemoryMasters,
    guarded: bool,
    mutant: Option<Mutant>,
    seed: u64,
) -> Redlock {
    let start = Instant::now();
    let clock = move || 1_800_000_000_000_000 + u64::try_from(start.elapsed().as_micros()).unwrap();
    Redlock::builder()
        .memory(masters)
        .restart_guard(guarded.then_some(GUARD))
        .settings(|settings| settings.command_timeout(TTL))
        .wall_clock(clock)
        .seed(seed)
        .mutant(mutant)
        .connect()
        .await
        .unwrap()
}

async fn hold(redlock: Redlock, book: Arc<Book>, mut rng: StdRng) {
    // Its extensions do not wait for what was lost.
    let hasty = redlock.with(|settings| settings.command_timeout(TTL / 20));
    loop {
        sleep(fraction(&mut rng, 0.2)).await;
        let begun = Instant::now();
        let Ok(mut lock) = hasty.try_acquire(["a"], TTL).await else {
            continue;
        };
        let hold = book.open(0, begun, &lock);
        for _ in 0..rng.gen_range(1..8) {
            sleep(fraction(&mut rng, 0.4)).await;
            let ttl = if rng.gen_bool(0.5) { TTL / 2 } else { TTL };
            // One that finds no quorum is given up early, or the next would come too late.
            match timeout(TTL / 10, lock.extend(ttl)).await {
                Ok(Ok(())) => book.extended(hold, &lock),
                Ok(Err(_)) => break,
                Err(_) => {}
            }
        }
        book.ended(hold);
        drop(lock.release().await);
    }
}

async fn rival_of(redlock: Redlock, book: Arc<Book>, mut rng: StdRng) {
    loop {
        sleep(fraction(&mut rng, 0.3)).await;
        let begun = Instant::now();
        let Ok(lock) = redlock.try_acquire(["a"], TTL).await else {
            continue;
        };
        let hold = book.open(1, begun, &lock);
        sleep(fraction(&mut rng, 0.3)).await;
        book.ended(hold);
        drop(lock.release().await);
    }
}
