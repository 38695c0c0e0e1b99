//! What a service that locks tells Prometheus (feature `metrics`).
//!
//! ```sh
//! cargo run --features metrics --example metrics                          # on masters in memory
//! compose/with-masters cargo run --features metrics --example metrics     # on five local servers
//! cargo run --features metrics --example metrics -- --serve 127.0.0.1:9464    # for `curl 127.0.0.1:9464`
//! ```
//!
//! Three invoices are billed, each under its lock; the next finds its lock busy; and the last blocks the only
//! thread of the runtime for longer than its lock lives, which nothing can extend meanwhile: it is lost.
//! Then the figures that are not zero are printed, without the buckets of histograms; or all are
//! served until the process is ended. (An exporter has a listener of its own: this one spares the
//! repository a dependency.)

use std::{env, error::Error, thread, time::Duration};

use fredlock::{Redlock, UsingError, metrics, testing::MemoryMasters};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{interval, timeout},
};

const TTL: Duration = Duration::from_secs(5);
/// That of the lock that is lost.
const TTL_SHORT: Duration = Duration::from_millis(500);

/// From a millisecond, which is what masters take, to a minute, which is long for a lock.
const BUCKETS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 60.0];

/// First of all: a `Redlock` tells nothing to a recorder that comes after it.
fn install() -> Result<PrometheusHandle, Box<dyn Error>> {
    let times = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(times, &BUCKETS)?;
    let exporter = builder.install_recorder()?;
    metrics::describe();
    Ok(exporter)
}

async fn connect() -> Result<Redlock, Box<dyn Error>> {
    let urls = env::var("FREDLOCK_MASTERS").unwrap_or_default();
    let builder = if urls.is_empty() {
        Redlock::builder().memory(&MemoryMasters::new(5))
    } else {
        Redlock::builder().urls(urls.split(','))
    };
    // The machine may be busy with other things.
    let builder = builder.settings(|settings| settings.command_timeout(TTL));
    Ok(builder.connect().await?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "it has to block what extends its lock"
)]
async fn work(redlock: &Redlock) -> Result<(), Box<dyn Error>> {
    for invoice in ["invoice:1", "invoice:2", "invoice:3"] {
        let lock = redlock.acquire([invoice], TTL).await?;
        lock.release().await?;
    }
    let held = redlock.acquire(["invoice:4"], TTL).await?;
    match redlock.try_acquire(["invoice:4"], TTL).await {
        Err(error) if error.is_busy() => println!("# busy: {error}"),
        other => return Err(format!("it is held: {other:?}").into()),
    }
    held.release().await?;
    let block = async |_| thread::sleep(2 * TTL_SHORT);
    match redlock.using(["invoice:5"], TTL_SHORT, block).await {
        Err(UsingError::Lost { reason, .. }) => println!("# lost: {reason}"),
        other => return Err(format!("its time was over: {other:?}").into()),
    }
    Ok(())
}

/// Answers every request with the figures.
async fn serve(address: &str, exporter: PrometheusHandle) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("# serving at http://{}/metrics", listener.local_addr()?);
    loop {
        let (mut stream, _) = listener.accept().await?;
        let exporter = exporter.clone();
        tokio::spawn(async move {
            let answer = async {
                // Whatever is asked for: its first bytes are enough to answer.
                let _request = stream.read(&mut [0; 1024]).await?;
                let text = exporter.render();
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
                let head = format!(
                    "{head}Content-Length: {}\r\nConnection: close\r\n\r\n",
                    text.len()
                );
                stream.write_all((head + &text).as_bytes()).await?;
                stream.shutdown().await
            };
            // Who asks and then says nothing is not waited for.
            if let Ok(Err(error)) = timeout(Duration::from_secs(5), answer).await {
                eprintln!("a scrape failed: {error}");
            }
        });
    }
}

/// Times are kept one by one until they are sorted into buckets, by this or by a scrape.
async fn upkeep(exporter: PrometheusHandle) {
    let mut every = interval(Duration::from_secs(5));
    loop {
        every.tick().await;
        exporter.run_upkeep();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let exporter = install()?;
    tokio::spawn(upkeep(exporter.clone()));
    let redlock = connect().await?;
    work(&redlock).await?;

    let words: Vec<_> = env::args().skip(1).collect();
    match &words[..] {
        [serving, address] if serving == "--serve" => serve(address, exporter).await?,
        [] => {
            // So that what masters were last asked is counted too.
            redlock.shutdown(Duration::from_secs(2)).await;
            let text = exporter.render();
            let samples = text.lines().filter(|line| !line.starts_with('#'));
            let samples = samples.filter(|line| !line.is_empty() && !line.ends_with(" 0"));
            samples
                .filter(|line| !line.contains("_bucket"))
                .for_each(|line| println!("{line}"));
        }
        _ => return Err("usage: metrics [--serve ADDRESS]".into()),
    }
    Ok(())
}
