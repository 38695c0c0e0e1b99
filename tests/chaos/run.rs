//! One run of one plan.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    clock,
    nemesis::{Done, World, rage},
    network::Network,
    plan::{CLIENTS, MASTERS, Plan, TTL},
    record::History,
    report::Report,
    store::Store,
    support::{process::State, servers::Servers},
    verdict::judge,
    worker,
};

/// Masters that keep what they acknowledge.
const PERSISTENT: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// How long clients may take to come to their end once all is well.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Lets clients and faults loose on real servers, and tells what came of it.
pub(crate) async fn run(plan: &Plan) -> Report {
    let arguments: &[&str] = if plan.persistent { &PERSISTENT } else { &[] };
    let servers = Servers::start_with(MASTERS, arguments).await;
    let server = servers[0].version().await;
    let network = Network::before(&servers).await;
    let store = Store::open().await;
    let dir = fresh_dir(plan.seed);
    let start = clock::now();
    let clients = (0..CLIENTS)
        .map(|number| worker::spawn(plan, number, &network.urls(number), &store.addr, &dir))
        .collect();
    let world = Arc::new(World {
        servers,
        network,
        clients,
        done: Done::default(),
    });
    rage(plan, &world).await;
    store.finish();
    let mut history = History::default();
    let end = Instant::now() + END_LIMIT;
    while world
        .clients
        .iter()
        .any(|client| client.state() != State::Ended)
    {
        if Instant::now() > end {
            history
                .violations
                .push(format!("a client is not at its end after {END_LIMIT:?}"));
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    history.violations.extend(keys_left(&world.servers).await);
    for client in 0..CLIENTS {
        history.read(&worker::history(&dir, client));
    }
    let (violations, signals) = judge(&history, &world.done.pauses());
    let (writes_taken, writes_refused) = store.writes();
    let mut report = Report {
        server,
        plan: plan.clone(),
        took: clock::now().saturating_sub(start),
        acquisitions: history.holds.len(),
        losses: history.lost,
        met_after_the_end: history.found.len(),
        writes_taken,
        writes_refused,
        faults: world.done.counts(),
        signals,
        violations,
        history: None,
    };
    if !report.violations.is_empty() {
        history.lines.extend(world.done.trace());
        let name = dir.file_name().expect("a name").to_owned();
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(name)
            .with_extension("history");
        fs::write(&path, joined(start, history)).expect("the joined history");
        report.history = Some(path);
    }
    fs::remove_dir_all(&dir).expect("removed the histories");
    report
}

/// A directory that the watchdogs of the processes know by the same path. In memory where that can
/// be had: the servers sync their logs to the disk all the time, and a client that waits for that in
/// the middle of a write blocks the threads on which signals have to be in time.
fn fresh_dir(seed: u64) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() {
        memory
    } else {
        PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
    };
    let dir = parent.join(format!(
        "fredlock-chaos-{seed}-{}-{}",
        std::process::id(),
        clock::now().as_millis()
    ));
    fs::create_dir_all(&dir).expect("a directory for the histories");
    dir.canonicalize().expect("its path without links")
}

/// Locks that outlive their clients and a ttl.
async fn keys_left(servers: &Servers) -> Option<String> {
    sleep(TTL).await;
    let mut left = Vec::new();
    for (master, server) in servers.iter().enumerate() {
        let keys = server.keys().await;
        let locks = keys.into_iter().filter(|key| !key.ends_with(":fence"));
        left.extend(locks.map(|key| format!("{key} on master {master}")));
    }
    (!left.is_empty()).then(|| format!("keys are left: {left:?}"))
}

/// A line an event, in order of time.
fn joined(start: Duration, history: History) -> String {
    let mut lines = history.lines;
    lines.sort();
    let lines = lines.into_iter().map(|(at, line)| {
        let ms = at.saturating_sub(start).as_secs_f64() * 1e3;
        format!("{ms:>12.3} ms ({} ns)  {line}\n", at.as_nanos())
    });
    lines.collect()
}
