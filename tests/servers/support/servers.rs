//! The N independent masters of a test.

use std::ops::Index;
use std::slice;

use super::server::Server;

/// Several servers, started together.
#[derive(Debug)]
pub struct Servers(Vec<Server>);

impl Servers {
    /// Starts `count` servers in parallel.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, &[]).await
    }

    /// Starts `count` servers in parallel, each with these arguments.
    pub async fn start_with(count: usize, extra: &[&str]) -> Self {
        let extra: Vec<_> = extra.iter().map(ToString::to_string).collect();
        let starts: Vec<_> = (0..count)
            .map(|_| {
                let extra = extra.clone();
                tokio::spawn(async move {
                    Server::start_with(&extra.iter().map(String::as_str).collect::<Vec<_>>()).await
                })
            })
            .collect();
        Self(gather(starts).await)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Their URLs, in order.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// The servers, in order.
    pub fn iter(&self) -> slice::Iter<'_, Server> {
        self.0.iter()
    }

    /// Freezes those with these indices.
    pub fn freeze(&self, indices: &[usize]) {
        for &index in indices {
            self[index].freeze();
        }
    }

    /// Thaws those with these indices.
    pub fn thaw(&self, indices: &[usize]) {
        for &index in indices {
            self[index].thaw();
        }
    }

    /// Kills those with these indices.
    pub async fn kill(&self, indices: &[usize]) {
        for &index in indices {
            self[index].kill().await;
        }
    }

    /// The key's value on each server. Frozen and dead servers are not asked and give `None`; one
    /// that runs and does not answer is a panic, so that a `None` of a running server always means
    /// that it has no such key.
    pub async fn values_of(&self, key: &str) -> Vec<Option<String>> {
        let mut values = Vec::new();
        for server in self {
            values.push(if server.is_running() {
                server.get(key).await
            } else {
                None
            });
        }
        values
    }
}

impl Index<usize> for Servers {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.0[index]
    }
}

impl<'a> IntoIterator for &'a Servers {
    type Item = &'a Server;
    type IntoIter = slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The tasks' outputs, in order. A task that panicked shows its own message.
async fn gather<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut outputs = Vec::new();
    for task in tasks {
        match task.await {
            Ok(output) => outputs.push(output),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    outputs
}
