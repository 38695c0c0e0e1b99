//! Leader election: of three candidates one leads until it resigns, and the next is elected at once.
//!
//! ```sh
//! compose/with-masters cargo run --example leader     # on five local servers
//! cargo run --example leader                          # on masters in memory
//! ```
//!
//! `election.rs` is the whole of it, for you to copy. A leader that is stopped past the end of its
//! term does not know that it is deposed: what it leads has to refuse a smaller term number.

use std::{env, error::Error, time::Duration};

use fredlock::{OwnerLabel, Redlock, testing::MemoryMasters};
use tokio::{task::JoinSet, time::sleep};

mod election;

use election::Election;

const TTL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

async fn connect() -> Result<Redlock, Box<dyn Error>> {
    let urls = env::var("FREDLOCK_MASTERS").unwrap_or_default();
    if urls.is_empty() {
        let masters = MemoryMasters::new(5);
        return Ok(Redlock::builder().memory(&masters).connect().await?);
    }
    Ok(Redlock::connect(urls.split(',')).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = connect().await?;
    let observer = Election::new(
        &redlock,
        "election:billing",
        OwnerLabel::new("observer")?,
        TTL,
    );
    let (resign, _) = tokio::sync::watch::channel(String::new());
    let mut candidates = JoinSet::new();
    for name in ["web-1", "web-2", "web-3"] {
        let election = Election::new(&redlock, "election:billing", OwnerLabel::new(name)?, TTL);
        let mut resigning = resign.subscribe();
        candidates.spawn(async move {
            let result = election
                .campaign(async |term| {
                    println!("{name} leads, term {}", term.number());
                    loop {
                        // Before every deed of a leader.
                        if term.is_over() {
                            break "is deposed";
                        }
                        tokio::select! {
                            () = term.over() => {}
                            () = sleep(LOOK) => {}
                            // An error is the end of the program.
                            _ = resigning.wait_for(|who| who == name) => break "resigns",
                        }
                    }
                })
                .await;
            match result {
                Ok(how) => println!("{name} {how}"),
                Err(error) => println!("{name}: {error}"),
            }
        });
    }

    let mut last = None;
    for _ in 0..3 {
        let leader = observer.successor(last.as_deref(), LOOK).await?;
        println!("the observer sees {leader}");
        resign.send_replace(leader.clone());
        last = Some(leader);
    }
    while let Some(candidate) = candidates.join_next().await {
        candidate?;
    }
    redlock.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
