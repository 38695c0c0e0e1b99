//! What is told of locks by `tracing`, and what never is.

use std::{
    io::Write,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use fredlock::{Redlock, Retry, testing::MemoryMasters};
use tracing::{Level, subscriber};
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("page").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Page {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// In a process of its own: what a thread without a subscriber comes by first may be taken for what
/// nobody wants to hear, by all.
#[test]
fn every_step_of_a_lock_is_told_and_no_token_whole() {
    let binary = std::env::current_exe().expect("this binary");
    let arguments = ["--exact", "tracing::told", "--ignored", "--nocapture"];
    let output = Command::new(binary).args(arguments).output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{error}"
    );
}

#[tokio::test(start_paused = true)]
#[ignore = "run by the test above, in a process of its own"]
async fn told() {
    let page = Page::default();
    let told = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_ansi(false)
        .with_writer(page.clone())
        .finish();
    let _guard = subscriber::set_default(told);

    let masters = MemoryMasters::new(3);
    let redlock = Redlock::builder()
        .memory(&masters)
        .connect()
        .await
        .expect("masters");
    let redlock = redlock.with(|settings| settings.retry(Retry::none().count(1)));
    let ttl = Duration::from_secs(1);
    let mut tokens = Vec::new();

    let mut lock = redlock.acquire(["job"], ttl).await.expect("free");
    tokens.push(lock.token().reveal());
    redlock.acquire(["job"], ttl).await.expect_err("held");
    masters.clear(2);
    lock.extend(ttl).await.expect("held by two");
    lock.release().await.expect("held");
    let routine = async |_| {
        tokens.extend(masters.get(0, "job"));
        masters.lose("job");
        tokio::time::sleep(2 * ttl).await;
    };
    redlock
        .using(["job"], ttl, routine)
        .await
        .expect_err("lost");

    let text = String::from_utf8(page.0.lock().expect("page").clone()).expect("text");
    for step in [
        "acquire{resources=job ttl_ms=1000}:attempt{count=2}: fredlock: attempt failed",
        "fredlock: acquired resources=job",
        "fredlock: putting the lock back on a master that lost it",
        "fredlock: extended resources=job",
        "fredlock: released resources=job",
        "WARN fredlock: lock lost resources=job",
    ] {
        assert!(text.contains(step), "{step}\n{text}");
    }
    assert_eq!(tokens.len(), 2);
    for token in tokens {
        assert!(text.contains(&token[..8]), "{text}");
        assert!(!text.contains(&token[..9]), "a whole token is told\n{text}");
    }
}
