//! The documents show the code and the SQL that the tests run, and nothing else.

use super::{database, demo};

const GUIDE: &str = include_str!("../../docs/postgresql.md");
const FENCING: &str = include_str!("../../docs/fencing.md");

macro_rules! sources {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../../examples/postgresql/", $name)))),+]
    };
}

/// Everything that the documents may show of PostgreSQL.
const SOURCES: [(&str, &str); 17] = sources![
    "fenced.rs",
    "queue.rs",
    "row_lock.rs",
    "session_lock.rs",
    "transaction_lock.rs",
    "sql/schema.sql",
    "sql/admit.sql",
    "sql/fenced_read.sql",
    "sql/fenced_update.sql",
    "sql/fenced_upsert.sql",
    "sql/queue_done.sql",
    "sql/queue_take.sql",
    "sql/row_read.sql",
    "sql/row_write.sql",
    "sql/session_lock.sql",
    "sql/session_unlock.sql",
    "sql/transaction_lock.sql",
];

/// The blocks of a language in a document, without the fences around them.
fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let opening = format!("```{language}\n");
    let after = document.split(&opening).skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap().trim_end())
        .collect()
}

/// The text of the documentation comments, whose examples `cargo test` runs.
fn documentation(source: &str) -> String {
    let lines = source.lines().filter_map(|line| line.strip_prefix("///"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_block_of_the_documents_is_code_that_the_tests_run() {
    let mut count = 0;
    let documentation = documentation(include_str!("../../src/gate.rs"));
    for document in [GUIDE, FENCING] {
        for block in [blocks(document, "rust"), blocks(document, "sql")].concat() {
            // The documents take out whole items, or whole statements.
            let shown = |source: &str| source.contains(block);
            let is_tested =
                SOURCES.iter().any(|(_, source)| shown(source)) || shown(&documentation);
            assert!(is_tested, "nobody tests this:\n{block}");
            count += 1;
        }
    }
    assert!(count >= 14, "{count} blocks");
}

#[test]
fn every_statement_is_shown() {
    for (name, source) in SOURCES {
        let shown = |document| blocks(document, "sql").contains(&source.trim_end());
        // The schema is shown in parts.
        let is_statement = name.starts_with("sql/") && name != "sql/schema.sql";
        assert!(!is_statement || shown(GUIDE) || shown(FENCING), "{name}");
    }
}

#[tokio::test]
async fn the_example_runs_and_leaves_nothing_behind() {
    let postgres = database().await;
    demo::run(&postgres.url()).await.unwrap();
    let sql = "SELECT count(*) FROM pg_namespace WHERE nspname = 'fredlock_example'";
    let worker = postgres.connect().await;
    assert_eq!(
        worker
            .client
            .query_one(sql, &[])
            .await
            .unwrap()
            .get::<_, i64>(0),
        0
    );
}
