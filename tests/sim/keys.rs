//! The keys of one hold, as they are on the masters.

use fredlock::testing::MemoryMasters;

use crate::{client::Client, faults::resource_name};

/// The keys of one hold, and how many masters must have them.
pub(crate) struct Keys {
    names: Vec<String>,
    token: Option<String>,
    pub(crate) quorum: usize,
}

impl Keys {
    pub(crate) fn of(client: &Client, set: &[usize], token: Option<String>) -> Self {
        let names: Vec<_> = set.iter().map(|&r| resource_name(r)).collect();
        let count = client.plan.masters;
        let mut keys = Self {
            names,
            token,
            quorum: client.plan.quorum(),
        };
        if keys.token.is_none() {
            // Ours is the one that a quorum has.
            let values = (0..count).filter_map(|master| client.masters.get(master, &keys.names[0]));
            let values: Vec<_> = values.collect();
            keys.token = values
                .iter()
                .find(|value| values.iter().filter(|other| other == value).count() >= keys.quorum)
                .cloned();
        }
        keys
    }

    pub(crate) fn count(&self, masters: &MemoryMasters) -> usize {
        let Some(token) = &self.token else {
            return self.quorum;
        };
        let has_all = |master: &usize| {
            self.names
                .iter()
                .all(|name| masters.get(*master, name).as_ref() == Some(token))
        };
        (0..masters.len()).filter(has_all).count()
    }
}
