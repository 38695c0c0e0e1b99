//! The fence keys of one master: they rise, and live long enough.

use std::time::Duration;

use super::{Entry, Store};
use crate::{
    master::{FenceWrite, Request},
    resources::Resources,
};

impl Store {
    pub(super) fn seen(&self, request: &Request) -> u64 {
        if request.fence.is_none() {
            return 0;
        }
        request
            .resources
            .fence_keys()
            .map(|key| self.fence(key))
            .max()
            .unwrap_or(0)
    }

    pub(super) fn fence(&self, key: &str) -> u64 {
        self.keys
            .get(key)
            .and_then(|entry| entry.value.parse().ok())
            .unwrap_or(0)
    }

    pub(super) fn raise_fences(&mut self, request: &Request) {
        if let Some(write) = request.fence {
            self.raise_to(&request.resources, write);
        }
    }

    pub(super) fn raise_to(
        &mut self,
        resources: &Resources,
        FenceWrite { fence, lives_ms }: FenceWrite,
    ) {
        for key in resources.fence_keys() {
            let known = self.fence(key);
            if known < fence {
                self.set_for(key, &fence.to_string(), lives_ms);
            }
        }
    }

    /// A fence that is large enough already lives at least as long as the extension asks.
    pub(super) fn keep_fences(&mut self, request: &Request) {
        if let Some(write) = request.fence {
            self.keep_for(&request.resources, write);
        }
    }

    pub(super) fn keep_for(
        &mut self,
        resources: &Resources,
        FenceWrite { lives_ms, .. }: FenceWrite,
    ) {
        let end = self.now + Duration::from_millis(lives_ms);
        for key in resources.fence_keys() {
            if let Some(Entry {
                expires: Some(expires),
                ..
            }) = self.keys.get_mut(key)
            {
                *expires = end.max(*expires);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redlock, testing::MemoryMasters};

    #[tokio::test(start_paused = true)]
    async fn a_fence_outlives_every_extension_by_its_retention() {
        let masters = MemoryMasters::new(1);
        let fencing = crate::Fencing::on(Duration::from_secs(10));
        let builder = Redlock::builder().memory(&masters).fencing(fencing);
        let redlock = builder.connect().await.unwrap();
        let ttl = Duration::from_secs(3);
        let mut lock = redlock.acquire(["a"], ttl).await.unwrap();
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            lock.extend(ttl).await.unwrap();
            let left = masters.time_left(0, "{a}:fence");
            assert_eq!(left, Some(Duration::from_secs(13)));
        }
        assert_eq!(masters.get(0, "{a}:fence"), Some(lock.fence().to_string()));
    }
}
