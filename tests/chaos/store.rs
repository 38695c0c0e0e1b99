//! What the locks protect, with a fence: it never takes a write that is older than another.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use crate::plan::RESOURCES;

/// In the process of the test, so that no client that is stopped stands in the way of others. It
/// also tells clients when to finish.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) addr: String,
    writes: Arc<Mutex<Writes>>,
    finish: watch::Sender<bool>,
    serving: tokio::task::AbortHandle,
}

#[derive(Debug, Default)]
struct Writes {
    newest: [u64; RESOURCES],
    taken: u64,
    refused: u64,
}

impl Writes {
    /// Compare and set: 0 if it is taken, or the newer fence.
    fn write(&mut self, resource: usize, fence: u64) -> u64 {
        let newest = &mut self.newest[resource];
        if *newest > fence {
            self.refused += 1;
            return *newest;
        }
        *newest = fence;
        self.taken += 1;
        0
    }
}

impl Store {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let writes = Arc::<Mutex<Writes>>::default();
        let finish = watch::Sender::new(false);
        let serving = tokio::spawn(serve(listener, Arc::clone(&writes), finish.subscribe()));
        Self {
            addr,
            writes,
            finish,
            serving: serving.abort_handle(),
        }
    }

    /// How many were taken, and how many refused.
    pub(crate) fn writes(&self) -> (u64, u64) {
        let writes = self.writes.lock().unwrap();
        (writes.taken, writes.refused)
    }

    /// Tells the clients to come to an end.
    pub(crate) fn finish(&self) {
        self.finish.send_replace(true);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, writes: Arc<Mutex<Writes>>, finish: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.expect("the store's listener"),
            Some(_) = connections.join_next() => continue,
        };
        let (writes, finish) = (Arc::clone(&writes), finish.clone());
        // A client that is gone in the middle of it is no matter of the store's.
        connections.spawn(async move { answer(stream, &writes, finish).await.ok() });
    }
}

/// `RESOURCE FENCE` is a write; anything else waits for the end.
async fn answer(
    stream: TcpStream,
    writes: &Mutex<Writes>,
    mut finish: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let words = line.trim().split_once(' ');
    let write = words.and_then(|(resource, fence)| resource.parse().ok().zip(fence.parse().ok()));
    let answer = if let Some((resource, fence)) = write {
        writes.lock().unwrap().write(resource, fence)
    } else {
        finish.wait_for(|finish| *finish).await.ok();
        0
    };
    stream.write_all(format!("{answer}\n").as_bytes()).await
}

/// The store as its clients see it.
#[derive(Debug, Clone)]
pub(crate) struct RemoteStore(pub(crate) String);

impl RemoteStore {
    /// Writes; an error is the newer fence that it has seen.
    pub(crate) async fn write(&self, resource: usize, fence: u64) -> Result<(), u64> {
        match self.ask(&format!("{resource} {fence}")).await {
            Some(0) => Ok(()),
            Some(newer) => Err(newer),
            None => panic!("the store does not answer"),
        }
    }

    /// Waits until it is time to finish; which it is too when the test has gone.
    pub(crate) async fn finish(&self) {
        self.ask("finish").await;
    }

    async fn ask(&self, question: &str) -> Option<u64> {
        let mut stream = BufReader::new(TcpStream::connect(&self.0).await.ok()?);
        let question = format!("{question}\n");
        stream.write_all(question.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_line(&mut answer).await.ok()?;
        answer.trim().parse().ok()
    }
}
