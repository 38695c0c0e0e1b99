//! How a group is sent: operations of one kind one after another, so that what they have in common is
//! sent, and looked up, once.

use std::{collections::HashMap, sync::Arc};

use fred::types::Value;

use super::{Operation, Request, arguments::number};

/// What operations of one run have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Acquire {
        ttl_ms: u64,
    },
    FencedAcquire {
        ttl_ms: u64,
        lives_ms: u64,
    },
    Release,
    FencedRelease {
        lives_ms: u64,
    },
    /// By itself, with a header.
    Other,
}

/// A group in the order in which it is sent.
pub(super) struct Runs<'a> {
    group: &'a [Arc<Request>],
    order: Vec<Member>,
}

/// One operation of a group.
#[derive(Clone, Copy)]
struct Member {
    place: usize,
    /// No two operations of one wave have a key in common: then it does not matter which is done
    /// first. What was there earlier with a common key is in an earlier wave.
    wave: u32,
    kind: Kind,
}

impl Member {
    fn run(&self) -> (u32, Kind) {
        (self.wave, self.kind)
    }
}

impl<'a> Runs<'a> {
    pub(super) fn of(group: &'a [Arc<Request>]) -> Self {
        let mut waves = HashMap::with_capacity(group.len());
        let members = group.iter().enumerate().map(|(place, request)| {
            let names = || request.resources.iter();
            let wave = names().filter_map(|name| waves.get(name)).max();
            let wave = wave.map_or(0, |wave: &u32| wave + 1);
            waves.extend(names().map(|name| (name, wave)));
            let kind = kind(request);
            Member { place, wave, kind }
        });
        let mut order: Vec<_> = members.collect();
        order.sort_by_key(Member::run);
        Self { group, order }
    }

    /// The requests, in this order.
    pub(super) fn requests(&self) -> impl Iterator<Item = &'a Request> + Clone {
        let group = self.group;
        self.order.iter().map(move |member| &*group[member.place])
    }

    /// The replies as the requests came, from what they are in this order.
    pub(super) fn in_order_of_group<R>(&self, replies: Vec<R>) -> Vec<R> {
        let places = self.order.iter().map(|member| member.place);
        let mut sorted: Vec<_> = places.zip(replies).collect();
        sorted.sort_unstable_by_key(|(place, _)| *place);
        sorted.into_iter().map(|(_, reply)| reply).collect()
    }

    /// What the script is given besides the keys.
    pub(super) fn arguments(&self, words: &mut Vec<Value>) {
        for run in self.order.chunk_by(|a, b| a.run() == b.run()) {
            let kind = run[0].kind;
            if kind != Kind::Other {
                words.push(Value::from_static_str(kind.name()));
                words.push(number(run.len() as u64));
                words.extend(kind.shared().into_iter().flatten().map(number));
            }
            for member in run {
                let request = &self.group[member.place];
                if kind == Kind::Other {
                    words.push(request.header());
                    words.extend_from_slice(request.arguments());
                } else {
                    words.push(request.value_argument());
                    words.extend(request.fence_argument());
                }
            }
        }
    }
}

impl Kind {
    /// As in `group_runs.lua`.
    fn name(self) -> &'static str {
        match self {
            Self::Acquire { .. } => "A",
            Self::FencedAcquire { .. } => "AF",
            Self::Release => "R",
            Self::FencedRelease { .. } => "RF",
            Self::Other => "",
        }
    }

    fn shared(self) -> [Option<u64>; 2] {
        match self {
            Self::Acquire { ttl_ms } => [Some(ttl_ms), None],
            Self::FencedAcquire { ttl_ms, lives_ms } => [Some(ttl_ms), Some(lives_ms)],
            Self::FencedRelease { lives_ms } => [Some(lives_ms), None],
            Self::Release | Self::Other => [None, None],
        }
    }
}

/// Runs are for what there is most of. With a guard each operation has to ask for that first.
fn kind(request: &Request) -> Kind {
    if request.guard_ms.is_some() || request.resources.len() > 1 {
        return Kind::Other;
    }
    let lives_ms = request.fence.map(|fence| fence.lives_ms);
    match (request.operation, lives_ms) {
        (Operation::Acquire { ttl_ms }, None) => Kind::Acquire { ttl_ms },
        (Operation::Acquire { ttl_ms }, Some(lives_ms)) => Kind::FencedAcquire { ttl_ms, lives_ms },
        (Operation::Release { .. }, None) => Kind::Release,
        (Operation::Release { may_return: false }, Some(lives_ms)) => {
            Kind::FencedRelease { lives_ms }
        }
        _ => Kind::Other,
    }
}
