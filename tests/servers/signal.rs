//! The signal: it fires in time, for the right reason, and for everybody who has it.

use std::time::Duration;

use fredlock::{Answer, LostReason, Outcomes, Redlock, Retry, Signal, UsingError};
use tokio::{
    sync::Barrier,
    task::yield_now,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::clients::{KEY, LONG, SOON, client, client_of, connected, freed, lost, ms};
use super::steady::steadily;
use super::support::{relay::Relay, servers::Servers};

/// How somebody waits for the signal, each of which has to be in time by itself.
#[derive(Debug, Clone, Copy)]
enum Waiter {
    Aborted,
    Token,
}

impl Waiter {
    /// Waits twice over, and says when the last of the two was woken.
    async fn last_woken(self, signal: Signal) -> Instant {
        let waits = async |signal: Signal| {
            match self {
                Self::Aborted => drop(signal.aborted().await),
                Self::Token => signal.token().cancelled().await,
            }
            Instant::now()
        };
        let (one, other) = tokio::join!(waits(signal.clone()), waits(signal));
        one.max(other)
    }
}

/// Replies may take ten seconds here, so that nothing but the clock can be what fires the signal.
///
/// A machine with other work to do may wake this process late, and its timers with it. So a timer
/// set to the end of validity is the judge: on one thread, what is due before it runs before it.
/// And of many locks, one at least of each kind must not have met with such a delay.
#[tokio::test]
async fn every_waiter_is_woken_before_the_validity_ends_while_a_majority_is_frozen() {
    steadily(async || {
        const TTL: Duration = ms(900);
        // ttl × 0.01 + 2 ms, as is documented.
        const VALIDITY: Duration = ms(900 - 9 - 2);
        let servers = Servers::start(5).await;
        let redlock = client(&servers, |settings| {
            let settings = settings.command_timeout(ms(10_000));
            settings.extension_threshold(ms(300))
        });
        let redlock = redlock.await;
        let mut running = Vec::new();
        for number in 0..16 {
            let redlock = redlock.clone();
            let waiter = [Waiter::Aborted, Waiter::Token][number % 2];
            running.push(tokio::spawn(async move {
                let before = Instant::now();
                let end = before + VALIDITY;
                let using = redlock.using([format!("job-{number}")], TTL, async |signal| {
                    let ends = tokio::spawn(async move {
                        sleep_until(end).await;
                        for _ in 0..5 {
                            // Whom those that were due before have woken in turn.
                            yield_now().await;
                        }
                        Instant::now()
                    });
                    let woken = waiter.last_woken(signal).await;
                    let ended = ends.await.unwrap();
                    assert!(woken <= ended, "{waiter:?} {:?} late", woken - ended);
                    (waiter, woken, end)
                });
                match using.await {
                    Err(UsingError::Lost {
                        output: Some(times),
                        reason: LostReason::Expired { .. },
                        ..
                    }) => times,
                    other => panic!("{other:?}"),
                }
            }));
            sleep(ms(7)).await;
        }
        let begun = Instant::now();
        servers.freeze(&[0, 2, 4]);
        assert!(begun.elapsed() < ms(300), "frozen before any extension");
        // The routines end with the loss; the release waits for replies until then.
        sleep(TTL).await;
        servers.thaw(&[0, 2, 4]);
        let (mut aborted_in_time, mut token_in_time) = (0, 0);
        for using in running {
            let (waiter, woken, end) = using.await.unwrap();
            assert!(woken > end - ms(100), "{waiter:?} {:?} early", end - woken);
            let in_time = match waiter {
                Waiter::Aborted => &mut aborted_in_time,
                Waiter::Token => &mut token_in_time,
            };
            *in_time += usize::from(woken <= end);
        }
        assert!(
            aborted_in_time > 0 && token_in_time > 0,
            "every one was late"
        );
    })
    .await;
}

#[tokio::test]
async fn a_loss_names_the_masters_that_did_not_answer() {
    steadily(async || {
        let servers = Servers::start(5).await;
        // Rounds that time out, and one that is under way when the lock ends. Both for a routine
        // that looks again and again and for one that waits.
        let kinds = [(100, false), (100, true), (10_000, false), (10_000, true)];
        let all_end = Barrier::new(kinds.len());
        let run = async |(timeout_ms, looks)| {
            let redlock = client(&servers, |settings| {
                let settings = settings.retry(Retry::default());
                settings.command_timeout(ms(timeout_ms))
            });
            let redlock = redlock.await;
            all_end.wait().await;
            let name = format!("{KEY}-{timeout_ms}-{looks}");
            let using = redlock.using([name], ms(1_000), async |signal| {
                all_end.wait().await;
                servers.freeze(&[1, 2, 3]);
                while looks && !signal.is_aborted() {
                    sleep(ms(1)).await;
                }
                signal.aborted().await;
                all_end.wait().await;
                servers.thaw(&[1, 2, 3]);
            });
            let (output, reason, text) = lost(using.await);
            assert_eq!(output, Some(()));
            assert!(matches!(reason, LostReason::Expired { .. }), "{reason}");
            for index in [1, 2, 3] {
                let master = format!("127.0.0.1:{}", servers[index].port());
                // In the end the client gives such a connection up.
                let says = [
                    "not heard yet",
                    "timed out",
                    "not responding",
                    "not connected",
                ];
                let said = says
                    .iter()
                    .any(|says| text.contains(&format!("{master} {says}")));
                assert!(said, "{master} at {timeout_ms} ms: {text}");
            }
            assert!(!text.contains("granted"), "from long before: {text}");
        };
        tokio::join!(run(kinds[0]), run(kinds[1]), run(kinds[2]), run(kinds[3]));
    })
    .await;
}

/// A client that extends 1 s after it acquired for 3 s.
async fn client_of_three_seconds(servers: &Servers, urls: Vec<String>) -> Redlock {
    let redlock = client_of(urls, |settings| settings.extension_threshold(ms(1_970))).await;
    connected(&redlock, servers).await;
    redlock
}

/// What fires the signal before a lock of 3 s has to end, and what the masters answered.
async fn gone_at_the_next_extension(redlock: &Redlock, harm: impl AsyncFnOnce()) -> Outcomes {
    let begun = Instant::now();
    let using = redlock.using([KEY], ms(3_000), async |signal| {
        harm().await;
        signal.aborted().await;
    });
    let (_, reason, _) = lost(using.await);
    assert!(begun.elapsed() < ms(2_500), "{:?}", begun.elapsed());
    match reason {
        LostReason::Gone { outcomes, .. } => outcomes,
        reason => panic!("{reason}"),
    }
}

fn answers(outcomes: &Outcomes) -> Vec<&Answer> {
    outcomes.iter().map(fredlock::Outcome::answer).collect()
}

#[tokio::test]
async fn a_key_deleted_on_a_majority_is_noticed_at_the_next_extension() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let redlock = client_of_three_seconds(&servers, servers.urls()).await;
        let outcomes = gone_at_the_next_extension(&redlock, async || {
            for index in [0, 1, 2] {
                assert!(servers[index].del(KEY).await);
            }
        })
        .await;
        assert_eq!(answers(&outcomes)[..3], [&Answer::Missing; 3], "{outcomes}");
        freed(&servers, KEY).await;
    })
    .await;
}

#[tokio::test]
async fn a_key_taken_by_somebody_else_is_noticed_and_left_alone() {
    steadily(async || {
        let servers = Servers::start(3).await;
        let redlock = client_of_three_seconds(&servers, servers.urls()).await;
        let outcomes = gone_at_the_next_extension(&redlock, async || {
            for index in [0, 1] {
                servers[index].set_for(KEY, "theirs", LONG).await;
            }
        })
        .await;
        assert_eq!(answers(&outcomes)[..2], [&Answer::NotHeld; 2], "{outcomes}");
        let theirs = Some("theirs".to_owned());
        assert_eq!(servers.values_of(KEY).await, [theirs.clone(), theirs, None]);
    })
    .await;
}

#[tokio::test]
async fn a_key_deleted_where_two_masters_are_dead_is_noticed_at_the_next_extension() {
    steadily(async || {
        let servers = Servers::start(5).await;
        let slow = Relay::before(&servers[4]).await;
        let mut urls = servers.urls();
        urls[4] = slow.url();
        let redlock = client_of_three_seconds(&servers, urls).await;
        let outcomes = gone_at_the_next_extension(&redlock, async || {
            servers.kill(&[0, 1]).await;
            for index in [2, 3, 4] {
                assert!(servers[index].del(KEY).await);
            }
            // Its answer comes after the round is decided, by two that failed and one without a key.
            slow.delay(ms(10));
        })
        .await;
        assert_eq!(answers(&outcomes)[2..], [&Answer::Missing; 3], "{outcomes}");
    })
    .await;
}

#[tokio::test]
async fn clones_that_outlive_the_routine_have_fired() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let using = redlock.using([KEY], LONG, async |signal| {
        let token = signal.token();
        let waiter = tokio::spawn({
            let signal = signal.clone();
            async move { signal.aborted().await }
        });
        assert!(!signal.is_aborted() && !token.is_cancelled());
        (signal, token, waiter)
    });
    let (signal, token, waiter) = using.await.unwrap();
    assert!(signal.is_aborted() && token.is_cancelled());
    assert!(matches!(signal.error(), Some(LostReason::Ended)));
    assert_eq!(signal.remaining(), Duration::ZERO);
    assert!(matches!(signal.aborted().await, LostReason::Ended));
    let woken = timeout(SOON, waiter).await.expect("woken").unwrap();
    assert!(matches!(woken, LostReason::Ended), "{woken}");
}

#[tokio::test]
async fn clones_that_outlive_a_dropped_or_panicking_routine_fire() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    for panics in [false, true] {
        let redlock = redlock.clone();
        let (send, signal) = tokio::sync::oneshot::channel();
        let running = tokio::spawn(async move {
            let using = redlock.using([KEY], LONG, async |signal| {
                send.send(signal).unwrap();
                assert!(!panics, "on purpose");
                std::future::pending::<()>().await;
            });
            using.await
        });
        let signal = signal.await.unwrap();
        running.abort();
        let reason = timeout(SOON, signal.aborted()).await.expect("fires");
        assert!(matches!(reason, LostReason::Ended), "{reason}");
        freed(&servers, KEY).await;
    }
}
