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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        entropy::Entropy,
        mark::Mark,
        master::{Arguments, FenceWrite, Missing},
        resources::Resources,
        token::Token,
    };

    const ACQUIRE: Operation = Operation::Acquire { ttl_ms: 9 };
    const RELEASE: Operation = Operation::Release { may_return: false };

    fn request(operation: Operation, names: &[&str], fence: Option<u64>) -> Arc<Request> {
        let lives_ms = 70;
        Arc::new(Request {
            operation,
            resources: Resources::parse(names.iter().copied()).unwrap(),
            token: Token::fresh(&Entropy::from_seed(1), Mark::fresh(&Entropy::from_seed(1))),
            value: "me".into(),
            fence: fence.map(|fence| FenceWrite { fence, lives_ms }),
            guard_ms: None,
            arguments: Arguments::default(),
        })
    }

    /// The names in the order in which they are sent, and the arguments.
    fn sent(group: &[Arc<Request>]) -> (String, String) {
        let runs = Runs::of(group);
        let names: Vec<_> = runs.requests().map(|r| r.resources.to_string()).collect();
        let mut words = Vec::new();
        runs.arguments(&mut words);
        let words: Vec<_> = words.iter().filter_map(Value::as_string).collect();
        (names.join(" "), words.join(" "))
    }

    #[test]
    fn operations_of_one_kind_are_sent_together_with_what_they_share_once() {
        let group = [
            request(ACQUIRE, &["a"], None),
            request(RELEASE, &["b"], None),
            request(ACQUIRE, &["c"], None),
            request(RELEASE, &["d"], None),
        ];
        let sent = sent(&group);
        assert_eq!(sent.0, "a c b d");
        assert_eq!(sent.1, "A 2 9 me me R 2 me me");
    }

    #[test]
    fn fences_are_their_own_and_what_keeps_them_is_shared() {
        let group = [
            request(RELEASE, &["b"], Some(6)),
            request(ACQUIRE, &["a"], Some(5)),
            request(ACQUIRE, &["c"], Some(7)),
        ];
        let sent = sent(&group);
        assert_eq!(sent.0, "a c b");
        assert_eq!(sent.1, "AF 2 9 70 me 5 me 7 RF 1 70 me 6");
    }

    #[test]
    fn what_shares_a_key_stays_in_order() {
        let group = [
            request(RELEASE, &["a"], None),
            request(ACQUIRE, &["b"], None),
            request(ACQUIRE, &["a"], None),
            request(RELEASE, &["a"], None),
            request(RELEASE, &["b"], None),
        ];
        let sent = sent(&group);
        // Each wave is one of operations without a common key.
        assert_eq!(sent.0, "b a a b a");
        assert_eq!(sent.1, "A 1 9 me R 1 me A 1 9 me R 1 me R 1 me");
    }

    #[test]
    fn what_is_not_of_one_resource_or_may_be_followed_goes_by_itself() {
        let extend = Operation::Extend {
            ttl_ms: 9,
            missing: Missing::Report,
            uniform: false,
        };
        let group = [
            request(ACQUIRE, &["a", "b"], None),
            request(extend, &["c"], None),
            request(Operation::Release { may_return: true }, &["d"], Some(5)),
        ];
        let sent = sent(&group);
        assert_eq!(sent.1, "a 2 2 me 9 e 1 3 me 9 0 r 2 4 me 5 70 1");
    }

    #[test]
    fn replies_are_given_in_the_order_of_the_group() {
        let group = [
            request(RELEASE, &["a"], None),
            request(ACQUIRE, &["b"], None),
            request(RELEASE, &["c"], None),
        ];
        let runs = Runs::of(&group);
        let names: Vec<_> = runs.requests().map(|r| r.resources.to_string()).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert_eq!(runs.in_order_of_group(names), ["a", "b", "c"]);
    }
}
