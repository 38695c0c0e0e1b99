//! A holder that is paused past its ttl, as by a garbage collector, a swapping machine or SIGSTOP.

use std::{future::Future, sync::mpsc, thread, time::Duration};

use fredlock::{Fence, Redlock, UsingError};
use tokio::sync::oneshot;

/// How long the test may leave it paused.
const LIMIT: Duration = Duration::from_secs(30);

/// A holder on a thread and a runtime of its own, all of which stands still: nothing extends its
/// lock, no timer runs, and its connections wait.
#[derive(Debug)]
pub struct PausedHolder<T> {
    pub fence: Fence,
    wake: mpsc::Sender<()>,
    thread: thread::JoinHandle<Result<T, UsingError<T>>>,
}

impl<T: Send + 'static> PausedHolder<T> {
    /// Acquires the resource, looks at its signal, which says that all is well, and is paused then.
    /// What it does when it wakes up is `write`, without another look.
    pub async fn start<Fut: Future<Output = T>>(
        urls: Vec<String>,
        resource: &'static str,
        ttl: Duration,
        write: impl FnOnce(Fence) -> Fut + Send + 'static,
    ) -> Self {
        let (paused, has_paused) = oneshot::channel();
        let (wake, woken) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let redlock = Redlock::connect(urls).await.expect("masters");
                let routine = async |signal: fredlock::Signal| {
                    signal.check().expect("just acquired");
                    paused.send(signal.fence()).expect("the test waits");
                    // Blocks the only thread of the runtime.
                    woken.recv_timeout(LIMIT).expect("woken up by the test");
                    write(signal.fence()).await
                };
                redlock.using([resource], ttl, routine).await
            })
        });
        let fence = has_paused.await.expect("it holds the lock");
        Self {
            fence,
            wake,
            thread,
        }
    }

    /// Wakes it up; gives what came of its write, and of its `using`.
    pub async fn wake(self) -> Result<T, UsingError<T>> {
        self.wake.send(()).expect("it is paused");
        let thread = self.thread;
        let ended = tokio::task::spawn_blocking(move || thread.join());
        match ended.await.expect("not cancelled") {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
