//! What users build around `using`. That it compiles is half of what is tested.

use std::{collections::HashMap, fmt::Debug};

use fredlock::{LostReason, Redlock, Signal, UsingError};
use tokio::task::yield_now;

use super::clients::{KEY, LONG, client, freed};
use super::support::servers::Servers;

/// By the bounds of `using`: any routine, any output.
async fn alone<T, F, Fut>(redlock: &Redlock, name: &str, routine: F) -> Result<T, UsingError<T>>
where
    F: FnOnce(Signal) -> Fut,
    Fut: Future<Output = T>,
{
    let routine = async |signal: Signal| routine(signal).await;
    redlock.using([name], LONG, routine).await
}

/// By the bounds of an async closure.
async fn alone_by_async<T>(
    redlock: &Redlock,
    name: &str,
    routine: impl AsyncFnOnce(Signal) -> T,
) -> Result<T, UsingError<T>> {
    redlock.using([name], LONG, |signal| routine(signal)).await
}

/// With a routine that can fail, whose error and the lock's are one for the caller.
async fn alone_or<T, E, Fut>(
    redlock: &Redlock,
    names: &[String],
    routine: impl FnOnce(Signal) -> Fut,
) -> Result<T, Box<dyn std::error::Error>>
where
    T: Debug + 'static,
    E: std::error::Error + 'static,
    Fut: Future<Output = Result<T, E>>,
{
    Ok(redlock.using(names, LONG, routine).await??)
}

/// A future that a multi-threaded runtime takes, from bounds alone.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` cannot promise that it is `Send`"
)]
fn sendable<T, F, Fut>(
    redlock: Redlock,
    name: String,
    routine: F,
) -> impl Future<Output = Result<T, UsingError<T>>> + Send + 'static
where
    T: Send + 'static,
    F: FnOnce(Signal) -> Fut + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    async move { alone(&redlock, &name, routine).await }
}

#[tokio::test]
async fn generic_wrappers_hand_through_whatever_the_routine_borrows_and_returns() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let mut text = String::from("a b");
    let words: Vec<&str> = alone(&redlock, KEY, async |signal| {
        text.push_str(" c");
        signal.check().unwrap();
        text.split(' ').collect()
    })
    .await
    .unwrap();
    assert_eq!(words, ["a", "b", "c"]);
    let counts: HashMap<&str, usize> = alone_by_async(&redlock, KEY, async |_| {
        words.iter().map(|word| (*word, 1)).collect()
    })
    .await
    .unwrap();
    assert_eq!(counts.len(), 3);
    let names = ["x".to_owned(), "y".to_owned()];
    let failed = alone_or(&redlock, &names, async |_| "no number".parse::<u32>()).await;
    assert_eq!(
        failed.unwrap_err().to_string(),
        "invalid digit found in string"
    );
    freed(&servers, "x").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_that_call_it_can_be_spawned() {
    let servers = Servers::start(3).await;
    let redlock = client(&servers, |settings| settings).await;
    let clone = redlock.clone();
    let spawned = tokio::spawn(async move {
        let names = vec![KEY.to_owned()];
        let using = clone.using(names, LONG, async |signal| {
            yield_now().await;
            signal.check()
        });
        using.await
    });
    spawned.await.unwrap().unwrap().unwrap();
    let routine = async |signal: Signal| signal.error();
    let spawned = tokio::spawn(sendable(redlock, KEY.to_owned(), routine));
    let error: Option<LostReason> = spawned.await.unwrap().unwrap();
    assert!(error.is_none(), "{error:?}");
    freed(&servers, KEY).await;
}
