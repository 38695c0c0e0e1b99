//! Each way in turn, by two workers, with what comes of it.

use std::error::Error;

use fredlock::Fence;
use tokio_postgres::{Client, NoTls};

use crate::{fenced, queue, row_lock, session_lock, transaction_lock};

const SCHEMA: &str = "fredlock_example";

/// Makes the tables in a schema of its own, and drops it at the end.
pub async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let admin = connect(url).await?;
    let drop_schema = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
    admin.batch_execute(&drop_schema).await?;
    let create = format!("CREATE SCHEMA {SCHEMA}; SET search_path = {SCHEMA}");
    admin.batch_execute(&create).await?;
    admin.batch_execute(include_str!("sql/schema.sql")).await?;
    let shown = show(worker(url).await?, worker(url).await?).await;
    admin.batch_execute(&drop_schema).await?;
    shown
}

async fn show(mut one: Client, mut two: Client) -> Result<(), Box<dyn Error>> {
    tokio::try_join!(
        transaction_lock::charge(&mut one, 4821, 700),
        transaction_lock::charge(&mut two, 4821, 200),
    )?;
    println!("transaction lock: both charged invoice 4821, one after the other");

    let first = session_lock::try_lock(&one, "export").await?;
    let second = session_lock::try_lock(&two, "export").await?;
    println!("session lock: worker 1 has it: {first}, worker 2 has it: {second}");
    session_lock::unlock(&one, "export").await?;

    let taken = tokio::try_join!(
        row_lock::take(&mut one, 4821, 600),
        row_lock::take(&mut two, 4821, 600),
    )?;
    println!("row lock: of 900 cents both wanted 600, and got them: {taken:?}");

    let add = "INSERT INTO jobs (payload) VALUES ('letter 1'), ('letter 2'), ('letter 3')";
    one.batch_execute(add).await?;
    tokio::try_join!(work(&mut one, 1), work(&mut two, 2))?;

    show_fences(&mut one, &mut two).await
}

async fn show_fences(one: &mut Client, two: &mut Client) -> Result<(), Box<dyn Error>> {
    // As `lock.fence()` gives them: `two` has the earlier one, and was paused since.
    let (earlier, later): (Fence, Fence) =
        ("1764518400000217".parse()?, "1764518412000042".parse()?);
    fenced::upsert(one, 4822, 100, earlier).await?;
    let seen = fenced::read(one, 4822, later).await?;
    fenced::update(one, 4822, 950, later).await?;
    let late = fenced::update(two, 4822, 200, earlier).await?;
    println!(
        "fenced write: the later holder read {seen:?} and wrote; the earlier one wrote: {late}"
    );

    let tx = one.transaction().await?;
    fenced::admit(&tx, "export", later).await?;
    tx.commit().await?;
    let tx = two.transaction().await?;
    let late = fenced::admit(&tx, "export", earlier).await?;
    println!("fenced transaction: the earlier holder is admitted after the later one: {late}");
    Ok(())
}

async fn work(db: &mut Client, worker: u32) -> Result<(), tokio_postgres::Error> {
    let mut left = true;
    while left {
        left = queue::work_on_one::<tokio_postgres::Error>(db, async |_, payload| {
            println!("queue: worker {worker} does {payload}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn worker(url: &str) -> Result<Client, tokio_postgres::Error> {
    let client = connect(url).await?;
    let set = format!("SET search_path = {SCHEMA}");
    client.batch_execute(&set).await?;
    Ok(client)
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async {
        if let Err(error) = connection.await {
            eprintln!("the connection broke: {error}");
        }
    });
    Ok(client)
}
