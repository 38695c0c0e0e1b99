//! A master behind a server compared with an in-memory one, step by step: the scripts and the
//! native commands against the reference that the simulation runs on.

use std::{sync::Arc, time::Duration};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        ClusterHash, CustomCommand,
        config::{Config, ConnectionConfig},
    },
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};

use super::{Link, MemoryMasters};
use crate::{
    entropy::Entropy,
    label::{OwnerLabel, value_of},
    mark::Mark,
    master::{
        Arguments, Break, FenceWrite, GUARD_MARKER, GUARD_QUARANTINE, GuardSight, Missing,
        Operation, Question, Reply, Request, Sight,
        connection::{Connection, Standing},
        fred::FredMaster,
        queue::Wire,
    },
    outcome::Answer,
    resources::Resources,
    token::Token,
};

/// How often each answer was given, by both.
#[doc(hidden)]
#[derive(Debug, Default, Clone, Copy)]
#[non_exhaustive]
pub struct Agreed {
    pub granted: u32,
    pub stale: u32,
    pub busy: u32,
    pub extended: u32,
    pub missing: u32,
    pub not_held: u32,
    pub released: u32,
    pub quarantined: u32,
    pub questions: u32,
}

const TIMEOUT: Duration = Duration::from_secs(5);
/// How far two times to live may be apart: the same command reaches the two at different moments.
const APART: Duration = Duration::from_secs(5);
const NAMES: usize = 10;
/// Larger sets, and groups whose operations get in each other's way, are of these.
const CROWDED: usize = 3;

/// Does `steps` random operations, fenced or not, with a restart guard or without, on the server and on an in-memory master, and
/// compares every answer and, after every step, every key. Empties the server.
///
/// # Errors
/// The first difference.
#[doc(hidden)]
pub async fn conform(
    url: &str,
    seed: u64,
    steps: usize,
    fenced: bool,
    guarded: bool,
) -> Result<Agreed, String> {
    let pair = Pair::connect(url).await?;
    pair.flush().await?;
    let mut rng = StdRng::seed_from_u64(seed);
    let entropy = Entropy::from_seed(seed);
    let labels = [None, None, OwnerLabel::new("conform: ä").ok()];
    let mark = Mark::fresh(&entropy);
    let tokens = labels.map(|label| (Token::fresh(&entropy, mark), label));
    let mut agreed = Agreed::default();
    let mut step = 0;
    while step < steps {
        if rng.gen_bool(0.03) {
            pair.vanish(&mut rng, guarded).await?;
        }
        if rng.gen_bool(0.12) {
            pair.compare_sights(&mut rng, step, guarded)
                .await
                .map_err(|difference| format!("step {step}: {difference}"))?;
            agreed.questions += 1;
        }
        // Alone, or together with others in one call.
        let size = if rng.gen_bool(0.5) {
            1
        } else {
            rng.gen_range(2..=8)
        };
        // Apart from each other, operations of one kind are done together.
        let apart = (size > 1 && rng.gen_bool(0.5)).then(|| {
            let mut names: Vec<_> = (0..NAMES).collect();
            names.shuffle(&mut rng);
            names
        });
        let group: Vec<_> = (0..size)
            .map(|more| {
                let name = apart.as_ref().map(|names| names[more]);
                request(&mut rng, &tokens, step + more, name, fenced, guarded)
            })
            .collect();
        step += size;
        if size == 1 && pair.is_own_already(&group[0]) {
            continue;
        }
        let [here, there] = pair.call(&group).await?;
        for ((request, here), there) in group.iter().zip(&here).zip(&there) {
            if !is_same(here, there) {
                return Err(format!(
                    "step {step}: {request:?} of {group:?}: in memory {here:?}, on the server {there:?}"
                ));
            }
            if let Ok(answer) = here {
                agreed.count(answer);
            }
        }
        pair.compare()
            .await
            .map_err(|difference| format!("step {step}: {group:?}: {difference}"))?;
    }
    Ok(agreed)
}

fn name(index: usize) -> String {
    format!("conform-{index}")
}

fn request(
    rng: &mut StdRng,
    tokens: &[(Token, Option<OwnerLabel>)],
    step: usize,
    only: Option<usize>,
    fenced: bool,
    guarded: bool,
) -> Request {
    let sets: [&[usize]; 6] = [&[0], &[1], &[0, 1], &[1, 2], &[2, 0], &[0, 1, CROWDED - 1]];
    let set = sets[rng.gen_range(0..sets.len())];
    let names = match &only {
        Some(only) => std::slice::from_ref(only),
        None => set,
    };
    let names = names.iter().map(|&index| name(index));
    let resources = Resources::parse(names).unwrap_or_else(|error| panic!("{error}"));
    // The native extension knows no other ttl than that of the acquisition.
    let uniform = !fenced && rng.gen_bool(0.5);
    let ttl_ms = if fenced {
        200_000 * rng.gen_range(1..3)
    } else {
        300_000
    };
    let operation = match rng.gen_range(0..10) {
        0..=4 => Operation::Acquire { ttl_ms },
        5 | 6 => Operation::Extend {
            ttl_ms,
            missing: Missing::Report,
            uniform,
        },
        7 => Operation::Extend {
            ttl_ms,
            missing: Missing::PutBack,
            uniform,
        },
        _ => Operation::Release {
            may_return: rng.gen_bool(0.3),
        },
    };
    let write = FenceWrite {
        fence: 1_700_000_000_000_000 + step as u64 + rng.gen_range(0..12),
        lives_ms: 500_000 * rng.gen_range(2..4),
    };
    let owner = rng.gen_range(0..tokens.len());
    Request {
        operation,
        resources,
        token: tokens[owner].0,
        value: value_of(tokens[owner].0, tokens[owner].1.as_ref()).into(),
        fence: fenced.then_some(write),
        guard_ms: guarded.then_some(300_000),
        arguments: Arguments::default(),
    }
}

fn is_same(here: &Reply, there: &Reply) -> bool {
    match (here, there) {
        (
            Ok(Answer::Busy {
                seen: a,
                time_left: Some(left),
            }),
            Ok(Answer::Busy {
                seen: b,
                time_left: Some(right),
            }),
        ) => a == b && left.abs_diff(*right) < APART,
        (
            Ok(Answer::Quarantined {
                time_left: left,
                missing: a,
            }),
            Ok(Answer::Quarantined {
                time_left: right,
                missing: b,
            }),
        ) => a == b && left.abs_diff(*right) < APART,
        _ => here == there,
    }
}

/// The same, but for the time that has passed between the two.
fn is_same_sight(here: &Sight, there: &Sight) -> bool {
    let lefts = |a: Option<Duration>, b: Option<Duration>| match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) < APART,
        (a, b) => a == b,
    };
    let guards = match (here.guard, there.guard) {
        (
            Some(GuardSight::Quarantined { time_left: a }),
            Some(GuardSight::Quarantined { time_left: b }),
        ) => a.abs_diff(b) < APART,
        (a, b) => a == b,
    };
    here.value == there.value
        && lefts(here.time_left, there.time_left)
        && here.fence == there.fence
        && here.deleted == there.deleted
        && guards
}

async fn send(wire: &impl Wire, group: &[Request]) -> Result<Vec<Reply>, String> {
    match group {
        [request] => Ok(vec![wire.send(request, TIMEOUT).await]),
        group => {
            let group: Vec<_> = group.iter().cloned().map(Arc::new).collect();
            let replies = wire.send_group(&group, TIMEOUT).await;
            replies.map_err(|error| error.to_string())
        }
    }
}

/// The two masters.
struct Pair {
    memory: MemoryMasters,
    link: Link,
    server: FredMaster,
    /// A look at the keys that does not go through what is compared.
    client: Client,
}

impl Pair {
    async fn connect(url: &str) -> Result<Self, String> {
        let config = Config::from_url(url).map_err(|error| error.to_string())?;
        let client = Client::new(config.clone(), None, None, None);
        client.init().await.map_err(|error| error.to_string())?;
        let connection = Connection::open(
            "server".into(),
            config,
            ConnectionConfig::default(),
            Arc::default(),
        );
        let mut standing = connection.standing();
        let fit = standing.wait_for(|standing| matches!(standing, Standing::Fit(_)));
        let fit = tokio::time::timeout(TIMEOUT, fit).await;
        fit.map_err(|_| "the server does not become a master".to_owned())?
            .map_err(|error| error.to_string())?;
        let memory = MemoryMasters::new(1);
        let link = memory.as_masters().next().ok_or("one master")?;
        Ok(Self {
            memory,
            link,
            server: FredMaster::new(connection),
            client,
        })
    }

    /// Without fencing an acquire is never sent twice, and `SET NX` would not know its own key.
    fn is_own_already(&self, request: &Request) -> bool {
        let is_acquire = matches!(request.operation, Operation::Acquire { .. });
        let own = Some(request.value.to_string());
        let mut names = request.resources.iter();
        request.fence.is_none() && is_acquire && names.any(|name| self.memory.get(0, name) == own)
    }

    async fn call(&self, group: &[Request]) -> Result<[Vec<Reply>; 2], String> {
        Ok([
            send(&self.link, group).await?,
            send(&self.server, group).await?,
        ])
    }

    async fn command<T: fred::types::FromValue>(
        &self,
        name: &'static str,
        arguments: Vec<String>,
    ) -> Result<T, String> {
        let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
        self.client
            .custom(command, arguments)
            .await
            .map_err(|error| error.to_string())
    }

    async fn flush(&self) -> Result<(), String> {
        self.memory.clear(0);
        self.command("FLUSHALL", Vec::new()).await
    }

    /// A lock expires, or everything is forgotten.
    async fn vanish(&self, rng: &mut StdRng, guarded: bool) -> Result<(), String> {
        if rng.gen_bool(0.1) {
            return self.flush().await;
        }
        // Mostly the quarantine, or nothing else would ever be granted.
        let name = match rng.gen_range(0..10) {
            0..8 if guarded => GUARD_QUARANTINE.to_owned(),
            8 if guarded => GUARD_MARKER.to_owned(),
            _ => name(rng.gen_range(0..NAMES)),
        };
        self.memory.delete(0, &name);
        self.command("DEL", vec![name]).await
    }

    async fn compare_sights(
        &self,
        rng: &mut StdRng,
        step: usize,
        guarded: bool,
    ) -> Result<(), String> {
        let name = name(rng.gen_range(0..NAMES));
        let resource = Resources::parse([name.as_str()]).map_err(|error| error.to_string())?;
        let question = match rng.gen_range(0..12) {
            0 if guarded => Question::Initialise,
            1..3 => Question::GuardState,
            3 => Question::Alive {
                scripted: rng.gen_bool(0.5),
            },
            4..6 => Question::Break(Break {
                resource,
                // Whose lock it is, or somebody's who has gone.
                values: match self.memory.get(0, &name) {
                    Some(value) if rng.gen_bool(0.7) => vec![b"gone".into(), value.into_bytes()],
                    _ => vec![b"gone".into()],
                },
                write: FenceWrite {
                    fence: 1_700_000_000_000_000 + step as u64 + rng.gen_range(0..12),
                    lives_ms: 100_000 * rng.gen_range(1..20),
                },
                guard_ms: guarded.then_some(300_000),
            }),
            _ => Question::Inspect {
                resource,
                guarded: rng.gen_bool(0.5),
            },
        };
        let here = self.link.ask(&question, TIMEOUT).await;
        let there = self.server.ask(&question, TIMEOUT).await;
        match (&here, &there) {
            (Ok(a), Ok(b)) if is_same_sight(a, b) => self.compare().await,
            _ => Err(format!(
                "{question:?}: in memory {here:?}, on the server {there:?}"
            )),
        }
    }

    async fn compare(&self) -> Result<(), String> {
        let locks = (0..NAMES).map(name);
        for key in locks
            .clone()
            .chain(locks.map(|name| format!("{{{name}}}:fence")))
            .chain([GUARD_MARKER, GUARD_QUARANTINE].map(str::to_owned))
        {
            let here = self.memory.get(0, &key);
            let there: Option<String> = self.command("GET", vec![key.clone()]).await?;
            if here != there {
                return Err(format!(
                    "{key} is {here:?} in memory and {there:?} on the server"
                ));
            }
            let left: i64 = self.command("PTTL", vec![key.clone()]).await?;
            let there = u64::try_from(left).ok().map(Duration::from_millis);
            let here = self.memory.time_left(0, &key);
            let is_same = match (here, there) {
                (Some(here), Some(there)) => here.abs_diff(there) < APART,
                (here, there) => here == there,
            };
            if !is_same {
                return Err(format!(
                    "{key} lives for {here:?} in memory and {there:?} on the server"
                ));
            }
        }
        Ok(())
    }
}

impl Agreed {
    fn count(&mut self, answer: &Answer) {
        let counter = match answer {
            Answer::Granted { .. } => &mut self.granted,
            Answer::Stale { .. } => &mut self.stale,
            Answer::Busy { .. } => &mut self.busy,
            Answer::Extended => &mut self.extended,
            Answer::Missing => &mut self.missing,
            Answer::NotHeld => &mut self.not_held,
            Answer::Quarantined { .. } => &mut self.quarantined,
            _ => &mut self.released,
        };
        *counter += 1;
    }
}
