//! That names, labels and their values are told where they are looked for, and nothing else is a label.

use std::{collections::BTreeSet, fs};

use ::metrics::{Unit, with_local_recorder};
use fredlock::{metrics, testing::MemoryMasters};

use crate::{client, recorder::Book};

/// The constants of the public module: name and value.
fn constants() -> Vec<(String, String)> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics.rs");
    let source = fs::read_to_string(source).unwrap();
    let constants = source.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("pub const ")?.split_once(": &str = \"")?;
        Some((name.to_owned(), value.strip_suffix("\";")?.to_owned()))
    });
    constants.collect()
}

fn names() -> BTreeSet<String> {
    let constants = constants().into_iter();
    let names = constants.filter(|(name, _)| !name.starts_with("LABEL_"));
    names.map(|(_, value)| value).collect()
}

/// What the document has in the row of a name: kind and unit, labels, meaning, what to alert on.
fn row(name: &str) -> [String; 4] {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operating.md");
    let document = fs::read_to_string(document).unwrap();
    let start = format!("| `{name}` |");
    let row = document
        .lines()
        .find_map(|line| line.strip_prefix(&start)?.strip_suffix('|'));
    let row = row.unwrap_or_else(|| panic!("docs/operating.md has no row of {name}"));
    let cells: Vec<_> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
    cells.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_name_is_public_described_and_documented_with_its_kind_unit_and_labels() {
    let (_redlock, book) = client(&MemoryMasters::new(3)).await;
    let registered: BTreeSet<_> = book.titles().into_iter().map(|title| title.name).collect();
    assert_eq!(registered, names());

    with_local_recorder(&book, metrics::describe);
    assert_eq!(book.described_count(), names().len());
    for title in book.titles() {
        let name = &title.name;
        let (kind, unit, text) = book
            .described(name)
            .unwrap_or_else(|| panic!("{name}: no description"));
        assert!(kind == title.kind && !text.is_empty(), "{name}");
        let is_time = name.ends_with("_seconds");
        assert_eq!(unit, is_time.then_some(Unit::Seconds), "{name}");
        assert_eq!(kind == "histogram", is_time, "{name}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");

        let [kind, labels, meaning, alert] = row(name);
        let said = if is_time { "histogram, s" } else { title.kind };
        assert_eq!(kind, said, "{name}");
        for (key, value) in title.labels {
            assert!(labels.contains(&format!("`{key}`")), "{name}: {key}");
            if key != metrics::LABEL_MASTER {
                assert!(labels.contains(&format!("`{value}`")), "{name}: {value}");
            }
        }
        assert!(!meaning.is_empty() && !alert.is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_are_few_and_the_documented_ones_and_name_no_resource() {
    let masters = MemoryMasters::new(3);
    let (redlock, book) = client(&masters).await;
    let before = book.titles();
    let ttl = std::time::Duration::from_secs(5);
    let lock = redlock.acquire(["secret"], ttl).await.unwrap();
    redlock.acquire(["secret"], ttl).await.unwrap_err();
    lock.release().await.unwrap();
    // All that there is was there from the start.
    assert_eq!(book.titles(), before);
    let labels = constants()
        .into_iter()
        .filter(|(name, _)| name.starts_with("LABEL_"));
    let labels: BTreeSet<_> = labels.map(|(_, value)| value).collect();
    let used = before.iter().flat_map(|title| title.labels.iter());
    let used: BTreeSet<_> = used.map(|(key, _)| key.clone()).collect();
    assert_eq!(used, labels);
}

#[tokio::test(start_paused = true)]
async fn a_recorder_that_comes_after_the_client_is_told_nothing_and_harms_nothing() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::stranger(&masters).await;
    let book = Book::default();
    let _installed = ::metrics::set_default_local_recorder(&book);
    let lock = redlock
        .acquire(["a"], std::time::Duration::from_secs(5))
        .await
        .unwrap();
    lock.release().await.unwrap();
    assert!(book.titles().is_empty());
}
