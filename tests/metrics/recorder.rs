//! A recorder that keeps every figure as it was told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    figures: BTreeMap<Title, Arc<Figure>>,
    described: BTreeMap<String, Description>,
}

/// Kind, name and labels of a figure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Title {
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
}

/// What was said of a name: its kind, its unit, and a text.
pub(crate) type Description = (&'static str, Option<Unit>, String);

/// All that it was told, in order.
#[derive(Default)]
struct Figure(Mutex<Vec<f64>>);

impl Book {
    /// Every counter that is not zero, and its value: `name label=value … value`.
    pub(crate) fn counts(&self) -> Vec<String> {
        let pages = self.pages();
        let counters = pages
            .figures
            .iter()
            .filter(|(title, _)| title.kind == "counter");
        let counts = counters.map(|(title, figure)| {
            let labels = title
                .labels
                .iter()
                .map(|(key, value)| format!(" {key}={value}"));
            (
                format!("{}{}", title.name, labels.collect::<String>()),
                figure.sum(),
            )
        });
        counts
            .filter(|(_, sum)| *sum != 0.0)
            .map(|(title, sum)| format!("{title} {sum}"))
            .collect()
    }

    /// The counters of the locks, without those of single masters.
    pub(crate) fn locks(&self) -> Vec<String> {
        let counts = self.counts().into_iter();
        counts.filter(|count| !count.contains(" master=")).collect()
    }

    /// What one counter shows.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let sum = self.figure("counter", name, labels).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it only rises"
        )]
        let count = sum as u64;
        count
    }

    /// What a gauge shows.
    pub(crate) fn gauge(&self, name: &str) -> f64 {
        self.figure("gauge", name, &[]).sum()
    }

    /// What a histogram was told, in milliseconds, in order.
    pub(crate) fn times_ms(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let figure = self.figure("histogram", name, labels);
        figure.told().iter().map(|seconds| seconds * 1e3).collect()
    }

    /// All that was registered.
    pub(crate) fn titles(&self) -> Vec<Title> {
        self.pages().figures.keys().cloned().collect()
    }

    /// What was said of a name.
    pub(crate) fn described(&self, name: &str) -> Option<Description> {
        self.pages().described.get(name).cloned()
    }

    /// How many names were described.
    pub(crate) fn described_count(&self) -> usize {
        self.pages().described.len()
    }

    fn figure(&self, kind: &'static str, name: &str, labels: &[(&str, &str)]) -> Arc<Figure> {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        let title = Title {
            kind,
            name: name.to_owned(),
            labels: labels.iter().map(owned).collect(),
        };
        let figure = self.pages().figures.get(&title).cloned();
        figure.unwrap_or_else(|| panic!("nobody has registered {title:?}"))
    }

    fn register(&self, kind: &'static str, key: &Key) -> Arc<Figure> {
        let labels = key
            .labels()
            .map(|label| (label.key().to_owned(), label.value().to_owned()));
        let title = Title {
            kind,
            name: key.name().to_owned(),
            labels: labels.collect(),
        };
        Arc::clone(self.pages().figures.entry(title).or_default())
    }

    fn describe(&self, key: &KeyName, description: Description) {
        self.pages()
            .described
            .insert(key.as_str().to_owned(), description);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Figure {
    fn told(&self) -> MutexGuard<'_, Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sum(&self) -> f64 {
        self.told().iter().sum()
    }
}

impl Recorder for Book {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, ("counter", unit, text.to_string()));
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, ("gauge", unit, text.to_string()));
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe(&key, ("histogram", unit, text.to_string()));
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register("counter", key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register("gauge", key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.register("histogram", key))
    }
}

impl CounterFn for Figure {
    fn increment(&self, value: u64) {
        #[expect(clippy::cast_precision_loss, reason = "tests count little")]
        self.told().push(value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("a counter of ours only rises");
    }
}

impl GaugeFn for Figure {
    fn increment(&self, value: f64) {
        self.told().push(value);
    }

    fn decrement(&self, value: f64) {
        self.told().push(-value);
    }

    fn set(&self, _: f64) {
        unreachable!("several clients share a gauge of ours");
    }
}

impl HistogramFn for Figure {
    fn record(&self, value: f64) {
        self.told().push(value);
    }
}
