//! Values that only the newest fence may touch, on a real server.

use std::time::Duration;

use fredlock::{
    Fence, Redlock, Retry, UsingError,
    fenced::{self, FencedError, FencedStore, fence_key},
    fred::{clients::Client, interfaces::ClientLike, types::config::Config},
};

use super::support::{
    eventually, paused::PausedHolder, resp::Resp, server::Server, servers::Servers,
};

const KEY: &str = "invoice:4821";

pub(crate) fn fence(number: u64) -> Fence {
    number.try_into().expect("a fence")
}

async fn store(server: &Server) -> FencedStore {
    FencedStore::new(connected(&server.url()).await)
}

async fn connected(url: &str) -> Client {
    let client = Client::new(Config::from_url(url).unwrap(), None, None, None);
    client.init().await.expect("a server");
    client
}

/// What came of it, where an older fence was refused.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, FencedError>) -> (Fence, Fence) {
    match result {
        Err(FencedError::Older { fence, newest, .. }) => (fence, newest),
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn an_older_fence_neither_reads_nor_writes_nor_deletes() {
    let server = Server::start().await;
    let store = store(&server).await;
    assert_eq!(store.get(KEY, fence(4)).await.unwrap(), None);
    store.set(KEY, "earlier", fence(5)).await.unwrap();
    store.set(KEY, "later", fence(7)).await.unwrap();
    let six = fence(6);
    assert_eq!(refused(store.set(KEY, "late", six).await), (six, fence(7)));
    assert_eq!(refused(store.get(KEY, six).await), (six, fence(7)));
    assert_eq!(refused(store.delete(KEY, six).await), (six, fence(7)));
    assert_eq!(server.get(KEY).await.as_deref(), Some("later"));
    // The same holder again, and the next one.
    assert_eq!(
        store.get(KEY, fence(7)).await.unwrap().as_deref(),
        Some(&b"later"[..])
    );
    store.set(KEY, "latest", fence(8)).await.unwrap();
    assert_eq!(server.get(KEY).await.as_deref(), Some("latest"));
    // Another key has another order.
    store.set("invoice:4822", "", fence(1)).await.unwrap();
}

#[tokio::test]
async fn after_a_read_no_earlier_holder_writes() {
    let server = Server::start().await;
    let store = store(&server).await;
    store.set(KEY, "1", fence(5)).await.unwrap();
    store.get(KEY, fence(6)).await.unwrap();
    refused(store.set(KEY, "2", fence(5)).await);
    assert_eq!(server.get(KEY).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_value_that_is_gone_is_not_brought_back_by_an_earlier_holder() {
    let server = Server::start().await;
    let store = store(&server).await;
    store.set(KEY, "1", fence(5)).await.unwrap();
    assert!(store.delete(KEY, fence(6)).await.unwrap());
    assert!(!store.delete(KEY, fence(6)).await.unwrap());
    refused(store.set(KEY, "2", fence(5)).await);

    let brief = Duration::from_millis(1);
    store.set_for(KEY, "3", brief, fence(7)).await.unwrap();
    eventually(
        "the value has expired",
        Duration::from_secs(5),
        async || server.get(KEY).await.is_none(),
    )
    .await;
    refused(store.set(KEY, "4", fence(6)).await);
    assert_eq!(server.get(KEY).await, None);
}

#[tokio::test]
async fn fences_are_remembered_for_good_or_for_the_retention() {
    let server = Server::start().await;
    let store = store(&server).await;
    let newest = fence_key(KEY);
    let hour = Duration::from_secs(3_600);
    store.set(KEY, "1", fence(5)).await.unwrap();
    assert_eq!(server.pttl(&newest).await, -1);
    let brief = store.clone().retention(hour);
    brief.set(KEY, "1", fence(5)).await.unwrap();
    let left = server.pttl(&newest).await;
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    assert_eq!(server.pttl(KEY).await, -1, "the value stays");
    // Every operation starts it anew: here, from the time that is set by hand.
    for reader in [5, 6] {
        server.command(&["PEXPIRE", &newest, "10000"]).await;
        brief.get(KEY, fence(reader)).await.unwrap();
        assert!(server.pttl(&newest).await > 3_500_000);
    }
    server.command(&["PEXPIRE", &newest, "10000"]).await;
    brief.delete(KEY, fence(6)).await.unwrap();
    assert!(server.pttl(&newest).await > 3_500_000);
    // The least that there is does not mean "for good".
    let least = store.retention(Duration::from_nanos(1));
    least.set(KEY, "1", fence(6)).await.unwrap();
    assert_ne!(server.pttl(&newest).await, -1);
}

#[tokio::test]
async fn a_value_is_bytes_and_a_fence_as_large_as_there_is() {
    let server = Server::start().await;
    let store = store(&server).await;
    let largest = fence((1 << 53) - 2);
    let bytes: Vec<u8> = (0..=255).collect();
    store.set(KEY, bytes.clone(), largest).await.unwrap();
    assert_eq!(store.get(KEY, largest).await.unwrap(), Some(bytes));
    assert_eq!(
        refused(store.get(KEY, fence((1 << 53) - 3)).await).1,
        largest
    );
    store.set(KEY, "", largest).await.unwrap();
    assert_eq!(store.get(KEY, largest).await.unwrap(), Some(Vec::new()));
}

#[tokio::test]
async fn what_is_no_fence_is_an_error_and_changes_nothing() {
    let server = Server::start().await;
    let wrong = [
        "0",
        "",
        "-1",
        "1.5",
        "1e3",
        "0x10",
        "007",
        " 7",
        "seven",
        "9007199254740991",
        "9007199254740993",
        "99999999999999999999",
    ];
    for script in [fenced::SET, fenced::GET, fenced::DELETE] {
        for fence in wrong {
            let call = ["EVAL", script, "2", KEY, "f", fence, "0", "value", "0"];
            let reply = server.command(&call).await;
            assert!(matches!(reply, Resp::Error(_)), "{fence:?}: {reply:?}");
        }
    }
    assert_eq!(server.keys().await, [""; 0]);
    let store = store(&server).await;
    let none = store.set(KEY, "1", Fence::NONE).await;
    assert!(matches!(none, Err(FencedError::NoFence)), "{none:?}");
    server.set(&fence_key(KEY), "nonsense").await;
    let nonsense = store.set(KEY, "1", fence(1)).await;
    assert!(
        matches!(&nonsense, Err(FencedError::Failed(error)) if error.details().contains("no fence")),
        "{nonsense:?}"
    );
    assert_eq!(server.get(KEY).await, None);
}

/// A cluster refuses a script whose keys are not in one hash slot.
#[tokio::test]
async fn a_value_and_its_fence_are_neighbours_on_a_cluster() {
    // A node that does not know its own address gives none to clients.
    let arguments = [
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
    ];
    let server = Server::start_with(&arguments).await;
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let mut add = vec!["CLUSTER", "ADDSLOTS"];
    add.extend(slots.iter().map(String::as_str));
    assert!(server.command(&add).await.is_ok());
    eventually("the cluster serves", Duration::from_secs(20), async || {
        let info = server.command(&["CLUSTER", "INFO"]).await;
        info.text()
            .is_some_and(|info| info.contains("cluster_state:ok"))
    })
    .await;
    let client = connected(&server.url().replace("redis://", "redis-cluster://")).await;
    let store = FencedStore::new(client);
    for key in [KEY, "invoice:{4821}", "{invoice}:4821"] {
        store.set(key, "1", fence(7)).await.unwrap();
        assert!(store.get(key, fence(7)).await.unwrap().is_some());
        refused(store.set(key, "2", fence(6)).await);
        assert!(store.delete(key, fence(8)).await.unwrap());
    }
}

#[tokio::test]
async fn a_holder_that_wakes_up_after_its_successor_wrote_is_refused() {
    let servers = Servers::start(3).await;
    let resource = Server::start().await;
    let url = resource.url();
    let ttl = Duration::from_secs(2);
    let paused = PausedHolder::start(servers.urls(), KEY, ttl, async move |fence| {
        let client = connected(&url).await;
        let unfenced = client
            .custom::<(), _>(plain("SET"), vec!["unfenced", "from A"])
            .await;
        let fenced = FencedStore::new(client).set(KEY, "from A", fence).await;
        (unfenced, fenced)
    })
    .await;

    let redlock = Redlock::connect(servers.urls()).await.unwrap();
    let patient = Retry::default().unlimited();
    let redlock = redlock.with(|settings| settings.retry(patient).wait_limit(ttl * 5));
    let successor = redlock.acquire([KEY], ttl * 10).await.unwrap();
    assert!(successor.fence() > paused.fence);
    resource.set("unfenced", "from B").await;
    let store = store(&resource).await;
    store.set(KEY, "from B", successor.fence()).await.unwrap();

    let woken = paused.wake().await;
    let Err(UsingError::Lost {
        output: Some((unfenced, fenced)),
        ..
    }) = woken
    else {
        panic!("it was paused past its ttl: {woken:?}");
    };
    assert_eq!(refused(fenced).1, successor.fence());
    assert_eq!(resource.get(KEY).await.as_deref(), Some("from B"));
    // The damage that it would have done.
    unfenced.unwrap();
    assert_eq!(resource.get("unfenced").await.as_deref(), Some("from A"));
    successor.release().await.unwrap();
}

fn plain(name: &'static str) -> fredlock::fred::types::CustomCommand {
    let slot = fredlock::fred::types::ClusterHash::FirstKey;
    fredlock::fred::types::CustomCommand::new_static(name, slot, false)
}
