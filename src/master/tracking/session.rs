//! One connection on which a master tells, and who waits for what on it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use fred::{
    bytes_utils::Str,
    clients::Client,
    types::{Key, Value},
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::exchange::{custom, meaning},
    ASK_TIMEOUT, LINGER,
};
use crate::{outcome::MasterError, resources::Resources};

/// One client, and who waits for what on it.
pub(super) struct Session {
    pub(super) client: Client,
    /// The number of the connection on which the server tells; `None` while there is none.
    pub(super) line: watch::Sender<Option<u64>>,
    watchers: Mutex<Watchers>,
    pub(super) count: watch::Sender<usize>,
    /// It is of no more use.
    pub(super) ended: CancellationToken,
    /// And its connection is gone.
    pub(super) closed: CancellationToken,
}

#[derive(Default)]
struct Watchers {
    next: u64,
    of: HashMap<Str, HashMap<u64, Arc<Notify>>>,
}

/// The interest of one waiter; dropping it ends that.
pub(super) struct Interest {
    pub(super) session: Arc<Session>,
    resources: Resources,
    number: u64,
    pub(super) changed: Arc<Notify>,
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            line: watch::Sender::new(None),
            watchers: Mutex::default(),
            count: watch::Sender::new(0),
            ended: CancellationToken::new(),
            closed: CancellationToken::new(),
        }
    }

    /// Waits until nobody has been interested for a while.
    pub(super) async fn unused(&self) {
        let mut count = self.count.subscribe();
        loop {
            drop(count.wait_for(|&count| count == 0).await);
            tokio::select! {
                biased;
                // Somebody comes, who may be gone again by the time that this is looked at.
                _ = count.changed() => {}
                () = sleep(LINGER) => return,
            }
        }
    }

    pub(super) fn tell(&self, keys: &[Key]) {
        let watchers = self.watchers();
        let interested = keys
            .iter()
            .filter_map(|key| watchers.of.get(key.as_str()?))
            .flat_map(HashMap::values);
        interested.for_each(|watcher| watcher.notify_one());
    }

    /// Some pushes were missed.
    pub(super) fn tell_all(&self) {
        let watchers = self.watchers();
        let all = watchers.of.values().flat_map(HashMap::values);
        all.for_each(|watcher| watcher.notify_one());
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interest {
    pub(super) fn new(session: Arc<Session>, resources: Resources) -> Self {
        let changed = Arc::new(Notify::new());
        let number = {
            let mut watchers = session.watchers();
            watchers.next += 1;
            let number = watchers.next;
            for name in resources.key_texts() {
                let of = watchers.of.entry(name.clone()).or_default();
                of.insert(number, Arc::clone(&changed));
            }
            number
        };
        session.count.send_modify(|count| *count += 1);
        Self {
            session,
            resources,
            number,
            changed,
        }
    }

    /// Asks which of the keys is the first that is there, and for what stands under it; the server
    /// tells of the next change of each from then on.
    ///
    /// In a task of its own, which waits for every answer though this is dropped: whoever leaves
    /// early must not leave questions in the queue of a server that hangs.
    pub(super) async fn holder(
        &self,
        runtime: &Handle,
    ) -> Result<Option<(usize, Value)>, MasterError> {
        let (session, resources) = (Arc::clone(&self.session), self.resources.clone());
        let asking = runtime.spawn(async move {
            let questions = resources.iter().map(async |name| {
                let key = vec![Value::String(name.into())];
                let reply = custom(&session.client, "GET", key, ASK_TIMEOUT).await;
                reply.map_err(|error| meaning(&error))
            });
            let replies = futures::future::join_all(questions).await;
            if replies.contains(&Err(MasterError::Timeout)) {
                // It hangs: no further question is queued for it.
                session.ended.cancel();
            }
            let replies: Result<Vec<_>, _> = replies.into_iter().collect();
            let mut replies = replies?.into_iter().enumerate();
            Ok(replies.find(|(_, value)| !value.is_null()))
        });
        let ended = || MasterError::ConnectionLost("the runtime has ended".into());
        asking.await.unwrap_or_else(|_| Err(ended()))
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        {
            let mut watchers = self.session.watchers();
            for name in self.resources.iter() {
                let Some(of) = watchers.of.get_mut(name) else {
                    continue;
                };
                of.remove(&self.number);
                if of.is_empty() {
                    watchers.of.remove(name);
                }
            }
        }
        self.session.count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    fn interest(session: &Arc<Session>, names: &[&str]) -> Interest {
        let resources = Resources::parse(names.iter().copied()).unwrap();
        Interest::new(Arc::clone(session), resources)
    }

    fn is_told(interest: &Interest) -> bool {
        interest.changed.notified().now_or_never().is_some()
    }

    #[test]
    fn those_who_wait_for_what_was_changed_are_told_and_all_of_them_where_pushes_were_missed() {
        let session = Arc::new(Session::new(Client::default()));
        let (both, one) = (interest(&session, &["a", "b"]), interest(&session, &["b"]));
        session.tell(&["a".into(), "c".into()]);
        assert!(is_told(&both) && !is_told(&one));
        session.tell(&["b".into()]);
        assert!(is_told(&both) && is_told(&one));
        session.tell_all();
        assert!(is_told(&both) && is_told(&one));
        assert!(!is_told(&both) && !is_told(&one), "once");
    }

    #[test]
    fn nothing_is_left_of_waiters_that_have_gone() {
        let session = Arc::new(Session::new(Client::default()));
        let (both, one) = (interest(&session, &["a", "b"]), interest(&session, &["b"]));
        drop(both);
        assert_eq!(*session.count.borrow(), 1);
        assert!(!session.watchers().of.contains_key("a"));
        assert_eq!(session.watchers().of["b"].len(), 1);
        drop(one);
        assert_eq!(*session.count.borrow(), 0);
        assert!(session.watchers().of.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_unused_a_while_after_the_last_waiter_and_not_after_an_earlier_one() {
        let session = Arc::new(Session::new(Client::default()));
        let first = interest(&session, &["a"]);
        let mut unused = Box::pin(session.unused());
        assert!(
            timeout(LINGER * 2, &mut unused).await.is_err(),
            "it is used"
        );
        drop(first);
        for _ in 0..5 {
            assert!(timeout(LINGER / 2, &mut unused).await.is_err());
            // One that leaves before anybody looks.
            drop(interest(&session, &["a"]));
        }
        assert!(timeout(LINGER * 9 / 10, &mut unused).await.is_err());
        assert!(timeout(LINGER, &mut unused).await.is_ok());
    }
}
