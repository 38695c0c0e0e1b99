//! One connection through a relay: the client's side, the server's side, and the bytes under way
//! between them.

use std::io::{self, ErrorKind, Read as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::sleep;

use super::queue::Queue;
use super::relay::{Shared, Weather};

/// How many bytes may be under way in one direction. Beyond that the sender is not read from, as in
/// a full network.
const UNDER_WAY_MAX: usize = 16 << 20;

/// How many bytes are read at once.
const CHUNK_MAX: usize = 16 << 10;

/// What becomes of a link, in the order in which it can happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// It passes bytes on.
    #[default]
    Open,
    /// The client's side is closed and its requests are kept.
    Detached,
    /// The kept requests go to the server.
    Released,
    /// Both sides are reset.
    Cut,
    /// Nothing is left of it.
    Ended,
}

/// The part of a link that the relay sees while a task runs the rest.
#[derive(Debug)]
pub(super) struct Link {
    fate: watch::Sender<Fate>,
    has_client: watch::Sender<bool>,
    requests: Queue,
    replies: Queue,
}

impl Default for Link {
    fn default() -> Self {
        let (requests, replies) = (Queue::default(), Queue::default());
        Self {
            fate: watch::Sender::default(),
            has_client: watch::Sender::new(true),
            requests,
            replies,
        }
    }
}

impl Link {
    /// Sends the link to its fate, unless it is past it.
    pub(super) fn meet(&self, fate: Fate) {
        self.fate.send_if_modified(|now| {
            let later = *now < fate;
            *now = fate.max(*now);
            later
        });
    }

    /// Its fate so far.
    pub(super) fn fate(&self) -> Fate {
        *self.fate.borrow()
    }

    /// Whether the client has its side open.
    pub(super) fn has_client(&self) -> bool {
        *self.has_client.borrow()
    }

    /// Bytes on their way to the server.
    pub(super) fn requests_held(&self) -> usize {
        self.requests.len()
    }

    /// Bytes on their way to the client.
    pub(super) fn replies_held(&self) -> usize {
        self.replies.len()
    }

    /// Waits until the link has ended.
    pub(super) async fn ended(&self) {
        self.fate_reaches(Fate::Ended).await;
    }

    /// Waits until the client's side is closed and all it sent is here.
    pub(super) async fn client_gone(&self) {
        tokio::select! {
            () = self.ended() => {}
            _ = async { self.has_client.subscribe().wait_for(|open| !open).await.map(|_| ()) } => {}
        }
    }

    /// Runs the link to its end.
    pub(super) async fn run(&self, mut client: TcpStream, shared: &Shared) {
        // By `Drop`, as the relay may be dropped and this future with it: nobody must wait for the
        // end for ever.
        let _end = End(self);
        let connected = tokio::select! {
            connected = TcpStream::connect(shared.upstream()) => connected,
            () = self.fate_reaches(Fate::Cut) => return reset(&client),
        };
        let Ok(mut server) = connected else {
            return reset(&client);
        };
        client
            .set_nodelay(true)
            .and_then(|()| server.set_nodelay(true))
            .expect("no delay");
        let passed_on = tokio::select! {
            // In this order: a link that was cut or detached passes nothing on any more.
            biased;
            () = self.fate_reaches(Fate::Detached) => None,
            passed_on = self.pass_on(&mut client, &mut server, shared) => Some(passed_on),
        };
        match passed_on {
            Some(Ok(())) => {}
            Some(Err(Cut)) => [&client, &server].into_iter().for_each(reset),
            None => self.outlive_client(client, server).await,
        }
    }

    /// Passes bytes on in both directions until both sides have closed, or until a reply was to be
    /// cut off.
    async fn pass_on(
        &self,
        client: &mut TcpStream,
        server: &mut TcpStream,
        shared: &Shared,
    ) -> Result<(), Cut> {
        let (from_client, mut to_client) = client.split();
        let (from_server, mut to_server) = server.split();
        let ended = tokio::try_join!(
            async {
                collect(&from_client, &self.requests, shared).await;
                self.has_client.send_replace(false);
                Ok(())
            },
            async {
                collect(&from_server, &self.replies, shared).await;
                Ok(())
            },
            deliver_requests(&self.requests, &mut to_server, shared),
            deliver_replies(&self.replies, &mut to_client, shared),
        );
        ended.map(|_| ())
    }

    /// Closes the client's side, keeps its requests until they are released, then sends them and
    /// waits until the server has executed them; or closes both sides if the link is cut.
    async fn outlive_client(&self, client: TcpStream, mut server: TcpStream) {
        let mut buffer = vec![0; CHUNK_MAX];
        reset(&client);
        // As a plain stream, which asks the kernel: the runtime may not have heard yet of bytes
        // that are there.
        let mut client = client.into_std().expect("plain stream");
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            self.requests.push(&buffer[..count], Duration::ZERO);
        }
        drop(client);
        self.has_client.send_replace(false);
        self.fate_reaches(Fate::Released).await;
        let send = async {
            server.write_all(&self.requests.take_all()).await?;
            server.shutdown().await?;
            // A server closes once it has executed all that came before the end.
            while server.read(&mut buffer).await? > 0 {}
            io::Result::Ok(())
        };
        tokio::select! {
            biased;
            () = self.fate_reaches(Fate::Cut) => reset(&server),
            outcome = send => if let Err(error) = outcome {
                eprintln!("sending what was released: {error}");
            },
        }
    }

    /// Waits until its fate is this one or a later one.
    async fn fate_reaches(&self, fate: Fate) {
        self.fate
            .subscribe()
            .wait_for(|now| *now >= fate)
            .await
            .expect("the sender is in self");
    }
}

/// Marks a link as ended when its task ends, whatever ends it.
struct End<'a>(&'a Link);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.has_client.send_replace(false);
        self.0.meet(Fate::Ended);
    }
}

/// A reply was thrown away, and the connection is to be cut.
struct Cut;

/// Makes closing the stream a reset, not an orderly end.
fn reset(stream: &TcpStream) {
    stream.set_zero_linger().expect("reset on close");
}

/// Puts all that one side sends into the queue, and its end.
async fn collect(from: &ReadHalf<'_>, queue: &Queue, shared: &Shared) {
    let mut buffer = vec![0; CHUNK_MAX];
    loop {
        while queue.len() >= UNDER_WAY_MAX {
            sleep(Duration::from_millis(1)).await;
        }
        // An error, such as a reset, is an end for the other side too.
        let count = match from
            .readable()
            .await
            .and_then(|()| from.try_read(&mut buffer))
        {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            read => read.unwrap_or(0),
        };
        queue.push(&buffer[..count], shared.weather.borrow().delay);
        if count == 0 {
            return;
        }
    }
}

/// Passes requests on to the server when they are due and not held, and then their end.
async fn deliver_requests(
    queue: &Queue,
    to: &mut WriteHalf<'_>,
    shared: &Shared,
) -> Result<(), Cut> {
    while queue.due().await {
        clear(shared, |weather| weather.hold_requests).await;
        queue.send_front(to).await;
    }
    // The server may have gone first, which comes to the same.
    to.shutdown().await.ok();
    Ok(())
}

/// Passes replies on to the client when they are due and not held, unless they are to be lost, and
/// then their end.
async fn deliver_replies(
    queue: &Queue,
    to: &mut WriteHalf<'_>,
    shared: &Shared,
) -> Result<(), Cut> {
    while queue.due().await {
        clear(shared, |weather| weather.hold_replies).await;
        let cut = shared
            .weather
            .send_if_modified(|weather| std::mem::take(&mut weather.cut_on_next_reply));
        if cut || shared.weather.borrow().drop_replies {
            shared
                .dropped
                .fetch_add(queue.drop_front(), Ordering::Relaxed);
        } else {
            queue.send_front(to).await;
        }
        if cut {
            return Err(Cut);
        }
    }
    // The client may have gone first, which comes to the same.
    to.shutdown().await.ok();
    Ok(())
}

/// Waits as long as the weather holds bytes of this kind back.
async fn clear(shared: &Shared, held: impl Fn(&Weather) -> bool) {
    let mut weather = shared.weather.subscribe();
    weather
        .wait_for(|weather| !held(weather))
        .await
        .expect("the sender is in shared");
}
