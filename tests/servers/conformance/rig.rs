//! Masters of either kind behind one face.

use std::time::Duration;

use fredlock::{Builder, Fencing, Lock, Redlock, testing::MemoryMasters};

use crate::support::servers::Servers;

/// Three masters, clients of them, and a look into each that does not go through the library.
pub(super) struct Rig {
    masters: Masters,
    pub(super) fenced: bool,
}

enum Masters {
    Memory(MemoryMasters),
    Real(Servers),
}

/// Long enough that nothing expires by accident.
pub(super) const TTL: Duration = Duration::from_secs(20);
pub(super) const MASTERS: usize = 3;
/// How much of a time to live a slow machine may eat up between a write and a look at it.
const SLACK: Duration = Duration::from_secs(5);

impl Rig {
    pub(super) fn memory(fenced: bool) -> Self {
        Self {
            masters: Masters::Memory(MemoryMasters::new(MASTERS)),
            fenced,
        }
    }

    pub(super) async fn real(fenced: bool) -> Self {
        Self {
            masters: Masters::Real(Servers::start(MASTERS).await),
            fenced,
        }
    }

    /// One more client of the same masters, which tries once.
    pub(super) async fn client(&self) -> Redlock {
        let fencing = if self.fenced {
            Fencing::default()
        } else {
            Fencing::Off
        };
        let builder = self.add_masters(Redlock::builder()).fencing(fencing);
        let once = |settings: fredlock::Settings| {
            settings
                .retry(fredlock::Retry::none())
                .command_timeout(Duration::from_secs(5))
        };
        builder
            .settings(once)
            .connect()
            .await
            .expect("masters of the test are fit")
    }

    fn add_masters(&self, builder: Builder) -> Builder {
        match &self.masters {
            Masters::Memory(masters) => builder.memory(masters),
            Masters::Real(servers) => builder.urls(servers.urls()),
        }
    }

    pub(super) async fn get(&self, master: usize, key: &str) -> Option<String> {
        match &self.masters {
            Masters::Memory(masters) => masters.get(master, key),
            Masters::Real(servers) => servers[master].get(key).await,
        }
    }

    /// What stands under the key on every master.
    pub(super) async fn values(&self, key: &str) -> Vec<Option<String>> {
        let mut values = Vec::new();
        for master in 0..MASTERS {
            values.push(self.get(master, key).await);
        }
        values
    }

    /// Sets a key that does not expire soon.
    pub(super) async fn set(&self, master: usize, key: &str, value: &str) {
        match &self.masters {
            Masters::Memory(masters) => masters.set(master, key, value, Some(TTL)),
            Masters::Real(servers) => servers[master].set_for(key, value, TTL).await,
        }
    }

    pub(super) async fn delete(&self, master: usize, key: &str) {
        let existed = match &self.masters {
            Masters::Memory(masters) => masters.delete(master, key),
            Masters::Real(servers) => servers[master].del(key).await,
        };
        assert!(
            existed,
            "{key} was to be deleted on master {master}, and was not there"
        );
    }

    /// Empties a master, as a restart without persistence does.
    pub(super) async fn clear(&self, master: usize) {
        match &self.masters {
            Masters::Memory(masters) => masters.clear(master),
            Masters::Real(servers) => servers[master].flush_all().await,
        }
    }

    pub(super) async fn time_left(&self, master: usize, key: &str) -> Duration {
        match &self.masters {
            Masters::Memory(masters) => masters.time_left(master, key).expect("the key expires"),
            Masters::Real(servers) => {
                let ms = servers[master].pttl(key).await;
                Duration::from_millis(u64::try_from(ms).expect("the key is there and expires"))
            }
        }
    }

    /// The key's time to live is what was just set, give or take what a slow machine needs.
    pub(super) async fn assert_ttl(&self, master: usize, key: &str, ttl: Duration) {
        let left = self.time_left(master, key).await;
        assert!(
            left <= ttl && left + SLACK > ttl,
            "{key} on {master}: {left:?} of {ttl:?}"
        );
    }

    /// The lock is what every master of `held` has, and none of the others has anything.
    pub(super) async fn assert_held_on(&self, lock: &Lock, held: &[usize]) {
        for name in lock.resources().iter() {
            for master in 0..MASTERS {
                let expected = held.contains(&master).then(|| lock.token().reveal());
                let what = || async { self.get(master, name).await == expected };
                crate::support::eventually(
                    &format!("{name} on {master} is {expected:?}"),
                    SLACK,
                    what,
                )
                .await;
            }
        }
    }

    /// The resource is free, or becomes so: a roll-back may be under way still.
    pub(super) async fn assert_free(&self, resource: &str) {
        let free = || async { self.values(resource).await.iter().all(Option::is_none) };
        crate::support::eventually(&format!("{resource} is free everywhere"), SLACK, free).await;
    }
}
