//! A client's process: this very binary, started once more for one test that is ignored otherwise.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fredlock::{Redlock, testing::Mutant};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    client::Client,
    clock::Pulse,
    plan::{Plan, TASKS, from_environment},
    record::Recorder,
    section::Sections,
    store::RemoteStore,
    support::process::Process,
};

const NUMBER: &str = "FREDLOCK_CHAOS_CLIENT";
const SEED: &str = "FREDLOCK_CHAOS_CLIENT_SEED";
const MASTERS: &str = "FREDLOCK_CHAOS_CLIENT_MASTERS";
const STORE: &str = "FREDLOCK_CHAOS_CLIENT_STORE";
const DIR: &str = "FREDLOCK_CHAOS_CLIENT_DIR";
const MUTANT: &str = "FREDLOCK_CHAOS_CLIENT_MUTANT";

/// Starts the process of one client. Its output is in `client-N/server.log` below `dir`.
pub(crate) fn spawn(
    plan: &Plan,
    number: usize,
    urls: &[String],
    store: &str,
    dir: &Path,
) -> Process {
    let own = dir.join(format!("client-{number}"));
    std::fs::create_dir(&own).expect("the client's directory");
    let mut args = vec![
        format!("{NUMBER}={number}"),
        format!("{SEED}={}", plan.seed),
        format!("{MASTERS}={}", urls.join(",")),
        format!("{STORE}={store}"),
        format!("{DIR}={}", dir.display()),
    ];
    args.extend(plan.mutant.map(|mutant| format!("{MUTANT}={mutant:?}")));
    let binary = std::env::current_exe().expect("this binary");
    args.push(binary.to_str().expect("its path in UTF-8").to_owned());
    let test = ["--exact", "worker::work", "--ignored", "--nocapture"];
    args.extend(test.map(str::to_owned));
    // `env` becomes the process that it starts.
    Process::spawn(Path::new("env"), &args, &own)
}

/// Where a client writes its history.
pub(crate) fn history(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("history-{number}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a client's process, which the chaos starts"]
async fn work() {
    let text = |name| std::env::var(name).unwrap_or_else(|_| panic!("the chaos sets {name}"));
    let process = usize::try_from(from_environment(NUMBER).expect(NUMBER)).unwrap();
    let seed = from_environment(SEED).expect(SEED);
    let dir = PathBuf::from(text(DIR));
    let mutant = std::env::var(MUTANT).ok().map(|name| {
        let mut all = Mutant::ALL.into_iter();
        all.find(|mutant| format!("{mutant:?}") == name)
            .unwrap_or_else(|| panic!("there is no mutant {name}"))
    });
    let redlock = Redlock::builder()
        .urls(text(MASTERS).split(','))
        .mutant(mutant)
        .connect()
        .await
        .expect("a Redlock");
    let recorder = Arc::new(Recorder::create(&history(&dir, process), process));
    let (store, pulse) = (RemoteStore(text(STORE)), Pulse::start().await);
    let finish = watch::Sender::new(false);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let number = process * TASKS + task;
        let client = Client {
            process,
            number,
            redlock: redlock.clone(),
            recorder: Arc::clone(&recorder),
            pulse: pulse.clone(),
            sections: Sections::in_dir(&dir),
            store: store.clone(),
            rng: StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number as u64)),
        };
        tasks.spawn(client.run(finish.subscribe()));
    }
    store.finish().await;
    finish.send_replace(true);
    while let Some(ended) = tasks.join_next().await {
        ended.expect("a task of the client");
    }
    assert!(
        redlock.shutdown(Duration::from_secs(10)).await,
        "all of its tasks ended"
    );
    recorder.finished();
}
