//! All is well again, and many want one lock: who is served, in which order, and how soon.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{Redlock, Retry};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    faults::resource_name,
    history::History,
    plan::{Plan, Weather},
};

/// How many of each client stand in line.
const TASKS: usize = 4;
/// Timers are a millisecond late, several of them in a row.
const SLACK: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Served {
    /// Client and place in its line.
    order: Vec<(usize, usize)>,
    released: Option<Instant>,
}

/// Every client has a few tasks stand in line for one lock, some of which give up at some await.
pub(crate) async fn line_up(plan: &Plan, handles: &[Redlock], history: &Arc<History>) {
    let keeps_time = !matches!(plan.weather, Weather::WrongClocks | Weather::Wipes);
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x006c_696e);
    let served = Arc::new(Mutex::new(Served::default()));
    let mut tasks = JoinSet::new();
    let (delay, jitter) = (plan.ttl / 4, plan.ttl / 10);
    let retry = Retry::default().unlimited().delay(delay).jitter(jitter);
    // With a polling pause and a hold for everybody, and as much again.
    let limit = plan.ttl * u32::try_from(2 * handles.len() * TASKS).unwrap() + SLACK * 40;
    for (client, handle) in handles.iter().enumerate() {
        let redlock = handle.with(|settings| settings.retry(retry).wait_limit(limit));
        for place in 0..TASKS {
            let patience = rng
                .gen_bool(0.3)
                .then(|| plan.ttl.mul_f64(rng.gen_range(0.0..1.5)));
            let (redlock, history) = (redlock.clone(), Arc::clone(history));
            let (served, ttl) = (Arc::clone(&served), plan.ttl);
            tasks.spawn(async move {
                sleep(Duration::from_millis(2 * place as u64)).await;
                let acquiring = redlock.acquire([resource_name(0)], ttl);
                let acquired = match patience {
                    Some(patience) => timeout(patience, acquiring).await,
                    None => Ok(acquiring.await),
                };
                let lock = match acquired {
                    Err(_) => {
                        return history.note(format!("client {client}, place {place}: gives up"));
                    }
                    Ok(Ok(lock)) => lock,
                    Ok(Err(error)) => {
                        return history.violation(format!(
                            "client {client}, place {place} never got the lock: {error}"
                        ));
                    }
                };
                history.note(format!("client {client}, place {place}: served"));
                let released = {
                    let mut served = served.lock().unwrap();
                    served.order.push((client, place));
                    served.released.take()
                };
                let late = released.map_or(Duration::ZERO, |at| at.elapsed());
                if keeps_time && late > delay + jitter + SLACK {
                    history.violation(format!("a free lock was not taken for {late:?}"));
                }
                sleep(ttl / 10).await;
                drop(lock.release().await);
                served.lock().unwrap().released = Some(Instant::now());
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let served = served.lock().unwrap();
    for client in 0..handles.len() {
        let own = served.order.iter().filter(|(of, _)| *of == client);
        if !own.clone().is_sorted() {
            let own: Vec<_> = own.collect();
            history.violation(format!("not first come, first served: {own:?}"));
        }
    }
}
