//! A master that forgets everything at a random moment, again and again, while a lock sits on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fredlock::{Redlock, Retry};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::resp::Connection;
use crate::support::servers::Servers;

/// Each has databases of its own on the same three servers: what happens in one is nothing to the
/// others, and rounds need not wait for each other.
const GROUPS: usize = 32;
const ROUNDS: usize = 1_000;
const TTL: Duration = Duration::from_millis(150);

#[derive(Debug, Default)]
struct Counts {
    /// Rounds in which the other client tried while the lock was held and the master had forgotten.
    told: AtomicUsize,
    doubles: AtomicUsize,
}

struct Group {
    holder: Redlock,
    rival: Redlock,
    raw: Vec<Connection>,
    rng: StdRng,
}

impl Group {
    async fn of(servers: &Servers, database: usize, guard: Option<Duration>) -> Self {
        let urls = servers.urls();
        let urls = urls.iter().map(|url| format!("{url}/{database}"));
        let urls: Vec<_> = urls.collect();
        let client = async || {
            let settings = |s: fredlock::Settings| s.retry(Retry::none()).command_timeout(TTL);
            let builder = Redlock::builder().urls(&urls).restart_guard(guard);
            builder.settings(settings).connect().await.unwrap()
        };
        let mut raw = Vec::new();
        for server in servers {
            let mut connection = server.connect().await.unwrap();
            let select = connection.call(&["SELECT", &database.to_string()]).await;
            assert!(select.unwrap().is_ok());
            raw.push(connection);
        }
        Self {
            holder: client().await,
            rival: client().await,
            raw,
            rng: StdRng::seed_from_u64(database as u64),
        }
    }

    async fn ok(&mut self, master: usize, command: &[&str]) {
        let reply = self.raw[master].call(command).await.unwrap();
        assert!(reply.error().is_none(), "{command:?}: {reply:?}");
    }

    /// Masters that remember nothing, and nothing was ever on them.
    async fn begin_anew(&mut self) {
        while self.holder.background_tasks() + self.rival.background_tasks() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        for master in 0..3 {
            self.ok(master, &["FLUSHDB"]).await;
            self.ok(master, &["SET", "fredlock:guard:marker", "1"])
                .await;
        }
    }

    async fn round(&mut self, counts: &Counts) {
        self.begin_anew().await;
        // The lock sits on the first two, and the second forgets.
        self.ok(2, &["SET", "job", "foreign"]).await;
        let Ok(lock) = self.holder.acquire(["job"], TTL).await else {
            return; // a stalled machine
        };
        self.ok(2, &["DEL", "job"]).await;
        let forgets = Instant::now() + lock.remaining().mul_f64(self.rng.gen_range(0.0..0.7));
        sleep_until(forgets).await;
        self.ok(1, &["FLUSHDB"]).await;
        let mut was_told = false;
        for _ in 0..3 {
            let result = self.rival.acquire(["job"], TTL).await;
            was_told |= lock.is_valid();
            if let Ok(second) = result {
                // Both by the clock of this process, at one moment.
                if lock.is_valid() && second.is_valid() {
                    counts.doubles.fetch_add(1, Ordering::Relaxed);
                }
                break;
            }
        }
        counts
            .told
            .fetch_add(usize::from(was_told), Ordering::Relaxed);
    }
}

/// Rounds until so many have told something.
async fn rounds(wanted: usize, guard: Option<Duration>) -> Arc<Counts> {
    let servers = Servers::start_with(3, &["--databases", "64"]).await;
    let counts = Arc::<Counts>::default();
    let mut groups = JoinSet::new();
    for database in 0..GROUPS {
        let mut group = Group::of(&servers, database, guard).await;
        let counts = Arc::clone(&counts);
        groups.spawn(async move {
            while counts.told.load(Ordering::Relaxed) < wanted {
                group.round(&counts).await;
            }
        });
    }
    while let Some(group) = groups.join_next().await {
        group.unwrap();
    }
    counts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_guard_no_second_holder_comes_in_a_thousand_rounds_and_without_it_one_does() {
    let counts = rounds(ROUNDS, Some(TTL)).await;
    println!("with the guard: {counts:?}");
    assert_eq!(counts.doubles.load(Ordering::Relaxed), 0, "{counts:?}");
    let counts = rounds(GROUPS, None).await;
    println!("without it: {counts:?}");
    assert!(counts.doubles.load(Ordering::Relaxed) > 0, "{counts:?}");
}
