//! An address behind which one server answers now and another then.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use super::server::Server;

/// An address behind which now one server answers and now another.
pub struct Address {
    pub url: String,
    upstream: Arc<Mutex<String>>,
    /// Present connections pass nothing on, and stay open.
    pub stalled: Arc<AtomicBool>,
    links: Arc<Mutex<JoinSet<()>>>,
    accepting: AbortHandle,
}

impl Address {
    pub async fn of(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listener");
        let url = format!("redis://{}", listener.local_addr().expect("address"));
        let upstream = Arc::new(Mutex::new(server.addr()));
        let links = Arc::new(Mutex::new(JoinSet::new()));
        let stalled = Arc::new(AtomicBool::new(false));
        let shared = (
            Arc::clone(&upstream),
            Arc::clone(&links),
            Arc::clone(&stalled),
        );
        let accepting = tokio::spawn(async move {
            let (upstream, links, stalled) = shared;
            while let Ok((mut client, _)) = listener.accept().await {
                let (upstream, stalled) = (
                    upstream.lock().expect("upstream").clone(),
                    Arc::clone(&stalled),
                );
                links.lock().expect("links").spawn(async move {
                    let Ok(mut server) = TcpStream::connect(upstream).await else {
                        return;
                    };
                    let stall = async {
                        while !stalled.load(Ordering::Relaxed) {
                            sleep(Duration::from_millis(5)).await;
                        }
                    };
                    tokio::select! {
                        passed = copy_bidirectional(&mut client, &mut server) => drop(passed),
                        () = stall => std::future::pending().await,
                    }
                });
            }
        })
        .abort_handle();
        Self {
            url,
            upstream,
            stalled,
            links,
            accepting,
        }
    }

    /// Lets another server answer, and closes what is open.
    pub async fn lead_to(&self, upstream: String) {
        *self.upstream.lock().expect("upstream") = upstream;
        let mut links = std::mem::take(&mut *self.links.lock().expect("links"));
        links.shutdown().await;
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
