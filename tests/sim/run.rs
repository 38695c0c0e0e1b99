//! One run of one plan.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fredlock::{
    Fencing, Redlock,
    testing::{MemoryMasters, Pause},
};
use tokio::{
    runtime::Builder,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    check::check,
    client::Client,
    faults::{self, Injected, all_expired, resource_name},
    history::History,
    hold::Hold,
    network::{Partitions, network},
    plan::{Plan, Weather},
    waiting::line_up,
};

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) trace: String,
    pub(crate) holds: usize,
    pub(crate) hold_list: Vec<Hold>,
    pub(crate) injected: Arc<Injected>,
}

/// Runs the plan on this thread, on time of its own.
pub(crate) fn run(plan: &Plan) -> Outcome {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = runtime.block_on(simulate(plan.clone()));
    drop(runtime);
    outcome
}

async fn simulate(plan: Plan) -> Outcome {
    let injected = Arc::new(Injected::default());
    let history = Arc::new(History::new(plan.resources));
    let masters = MemoryMasters::new(plan.masters);
    masters.mutate(plan.mutant);
    for master in (0..plan.masters).filter(|_| plan.guard.is_some()) {
        // As after `initialise`.
        masters.set(master, "fredlock:guard:marker", "1", None);
    }
    faults::set_clocks(&plan, &masters, &injected);
    let partitions = Partitions::default();
    let calm = Arc::new(AtomicBool::new(false));
    masters.set_network(network(
        &plan,
        Arc::clone(&partitions),
        Arc::clone(&calm),
        Arc::clone(&injected),
    ));

    let pauses: Vec<_> = (0..plan.clients).map(|_| Pause::new()).collect();
    let (mut clients, mut handles) = (JoinSet::new(), Vec::new());
    for (number, pause) in pauses.iter().enumerate() {
        let redlock = connect(&plan, &masters, number, pause).await;
        handles.push(redlock.clone());
        let task = |rng| Client {
            number,
            plan: plan.clone(),
            redlock: redlock.clone(),
            masters: masters.clone(),
            history: Arc::clone(&history),
            injected: Arc::clone(&injected),
            rng,
        };
        let client = task(Client::rng(&plan, number));
        let twin = plan.twins.then(|| task(Client::rng(&plan, number + 1_000)));
        let pause = pause.clone();
        clients.spawn(async move {
            let both = async {
                match twin {
                    Some(twin) => drop(tokio::join!(client.run(), twin.run())),
                    None => client.run().await,
                }
            };
            pause.run(both).await;
        });
    }
    let storm = tokio::spawn(faults::storm(
        plan.clone(),
        masters.clone(),
        pauses.clone(),
        Arc::clone(&partitions),
        Arc::clone(&history),
        Arc::clone(&injected),
    ));

    // A client's operations take a few ttls each, pauses included.
    let bound = plan.ttl * 40 * u32::try_from(plan.operations).unwrap();
    let all_ended = async { while clients.join_next().await.is_some_and(|ended| ended.is_ok()) {} };
    if timeout(bound, all_ended).await.is_err() {
        history.violation("a client never ended");
    }
    storm.abort();
    calm.store(true, Ordering::Relaxed);
    faults::heal(&plan, &masters, &pauses, &partitions, &history, None);
    settle(&plan, &handles, &masters, &history).await;
    // Stragglers are done, and what they wrote is gone.
    line_up(&plan, &handles, &history).await;
    settle_tasks(&plan, &handles, &history).await;

    let mut violations = history.violations();
    violations.extend(check(plan.rules(), &history.holds()));
    Outcome {
        violations,
        trace: history.trace(),
        holds: history.holds().len(),
        hold_list: history.holds(),
        injected,
    }
}

async fn connect(plan: &Plan, masters: &MemoryMasters, number: usize, pause: &Pause) -> Redlock {
    let skew = plan.skews[number];
    let start = Instant::now();
    let wall_clock = move || {
        let now = 1_800_000_000_000_000 + i64::try_from(start.elapsed().as_micros()).unwrap();
        u64::try_from(now + skew).unwrap()
    };
    let fencing = if plan.fenced {
        Fencing::default()
    } else {
        Fencing::Off
    };
    let builder = Redlock::builder().memory(masters);
    let builder = match plan.direct_max {
        Some(calls) => builder.direct_max(calls),
        None => builder,
    };
    builder
        .fencing(fencing)
        .quorum(plan.quorum())
        .restart_guard(plan.guard)
        .settings(|settings| settings.command_timeout(plan.command_timeout))
        .wall_clock(wall_clock)
        .seed(plan.seed + number as u64)
        .pause(pause)
        .mutant(plan.mutant)
        .connect()
        .await
        .unwrap()
}

/// All is well again: what is left of the locks?
async fn settle(plan: &Plan, handles: &[Redlock], masters: &MemoryMasters, history: &History) {
    settle_tasks(plan, handles, history).await;
    let left = || {
        let places = (0..plan.masters).flat_map(|m| (0..plan.resources).map(move |r| (m, r)));
        places
            .filter(|&(m, r)| masters.get(m, &resource_name(r)).is_some())
            .collect::<Vec<_>>()
    };
    if plan.weather == Weather::ReleasesArrive {
        // What is under way takes a third of a ttl at most: nothing is gone by its ttl alone.
        sleep(plan.ttl / 3).await;
        if !left().is_empty() {
            history.violation(format!(
                "keys are left though every release arrived: {:?}",
                left()
            ));
        }
    }
    // Stragglers and repetitions take up to one and a half ttls, and may come one after another.
    sleep(plan.ttl * 4).await;
    if plan.fenced && plan.weather.keeps_fences() && plan.weather != Weather::WrongClocks {
        let resurrections: u64 = (0..plan.masters)
            .map(|master| masters.resurrections(master))
            .sum();
        if resurrections > 0 {
            history.violation(format!(
                "{resurrections} keys were written after their release was done"
            ));
        }
    }
    sleep(all_expired(plan)).await;
    let has_slow_clock = plan.weather == Weather::WrongClocks;
    if !has_slow_clock && !left().is_empty() {
        history.violation(format!("keys outlived their ttl: {:?}", left()));
    }
}

/// Nothing is under way any more, and nobody waits.
async fn settle_tasks(plan: &Plan, handles: &[Redlock], history: &History) {
    let tasks = || handles.iter().map(Redlock::background_tasks).sum::<usize>();
    let end = Instant::now() + all_expired(plan);
    while tasks() > 0 {
        if Instant::now() > end {
            history.violation(format!("{} tasks are left", tasks()));
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    let waiting = handles.iter().map(Redlock::waiting).sum::<usize>();
    if waiting > 0 {
        history.violation(format!("{waiting} places are left in the queue"));
    }
}
