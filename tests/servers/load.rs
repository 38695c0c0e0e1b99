//! Many routines at once, and what is left of them.

use std::time::Duration;

use fredlock::{Redlock, Retry, testing::MemoryMasters};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::clients::{LONG, SOON, client, idle, ms};
use super::steady::steadily;
use super::support::{eventually, servers::Servers};

/// In memory: ten thousand commands at once, each under way for 200 ms, are more than a relay on
/// the one thread that is tested could carry.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_thousand_routines_at_once_over_slow_links_lose_nothing_on_one_thread() {
    steadily(async || {
        let masters = MemoryMasters::new(5);
        for master in 0..5 {
            masters.set_latency(master, ms(200));
        }
        let builder = Redlock::builder().memory(&masters).settings(|settings| {
            let settings = settings.command_timeout(ms(2_000)).retry(Retry::none());
            // The earliest that can be had: after a third of the ttl.
            settings.extension_threshold(Duration::MAX)
        });
        let redlock = builder.connect().await.unwrap();
        let (ttl, routines) = (ms(6_000), 2_000);
        let mut running = JoinSet::new();
        for number in 0..routines {
            let redlock = redlock.clone();
            running.spawn(async move {
                let using = redlock.using([format!("job-{number}")], ttl, async |signal| {
                    // Beyond the extension, which is due after 1.9 s.
                    sleep(ms(2_500)).await;
                    signal.check()
                });
                using
                    .await
                    .map_err(|error| error.to_string())?
                    .map_err(|reason| reason.to_string())
            });
        }
        let results = running.join_all().await;
        let lost: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert_eq!(lost, [""; 0]);
        // An acquisition, an extension and a release of each.
        assert!(masters.calls(0) >= 3 * routines, "{}", masters.calls(0));
    })
    .await;
}

#[tokio::test]
async fn a_thousand_routines_leave_no_task_and_no_command_behind() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let one = async |number: usize, ttl| {
        let using = redlock.using([format!("job-{number}")], ttl, async |_| ());
        timeout(2 * SOON, using).await.expect("it ends").unwrap();
    };
    one(0, LONG).await;
    idle(&redlock).await;
    let metrics = Handle::current().metrics();
    let tasks = metrics.num_alive_tasks();
    // A ttl whose extension would be due soon after the end, if anybody still made it.
    let ttl = ms(600);
    for batch in 0..20 {
        let batch = (0..50).map(|number| one(50 * batch + number, ttl));
        futures_all(batch).await;
    }
    idle(&redlock).await;
    eventually("no task is left", SOON, async || {
        metrics.num_alive_tasks() <= tasks
    })
    .await;
    let commands = commands_of(&servers).await;
    sleep(ttl).await;
    assert_eq!(commands_of(&servers).await, commands);
    for server in &servers {
        let keys = server.keys().await;
        let lock = keys.iter().find(|key| !key.contains("fence"));
        assert_eq!(lock, None);
    }
}

async fn commands_of(servers: &Servers) -> Vec<u64> {
    let mut commands = Vec::new();
    for server in servers {
        commands.push(server.commands_processed().await);
    }
    commands
}

/// Drives all of them on this task.
async fn futures_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}
