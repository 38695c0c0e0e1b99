//! What is done to masters and clients while they work, drawn from the seed.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fredlock::testing::{MemoryMasters, Pause};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use crate::{
    history::History,
    network::Partitions,
    plan::{Plan, Weather},
};

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Delay,
    DelayReply,
    LoseRequest,
    LoseReply,
    Straggle,
    Repeat,
    Partition,
    Hang,
    Stop,
    Mute,
    Deafen,
    Error,
    Restart,
    PauseClient,
    FastClock,
    ClockWithinDrift,
    ClockJump,
    KeyVanishes,
    RestartEmpty,
    CancelCall,
}

const KINDS: usize = Fault::CancelCall as usize + 1;

/// How often each kind was really injected.
#[derive(Debug, Default)]
pub(crate) struct Injected([AtomicU64; KINDS]);

impl Injected {
    pub(crate) fn count(&self, fault: Fault) {
        self.0[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, other: &Self) {
        for (sum, more) in self.0.iter().zip(&other.0) {
            sum.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize].load(Ordering::Relaxed)
    }

    /// Each kind with its count.
    pub(crate) fn table(&self) -> Vec<(String, u64)> {
        use Fault::{
            CancelCall, ClockJump, ClockWithinDrift, Deafen, Delay, DelayReply, Error, FastClock,
            Hang, KeyVanishes, LoseReply, LoseRequest, Mute, Partition, PauseClient, Repeat,
            Restart, RestartEmpty, Stop, Straggle,
        };
        let kinds: [Fault; KINDS] = [
            Delay,
            DelayReply,
            LoseRequest,
            LoseReply,
            Straggle,
            Repeat,
            Partition,
            Hang,
            Stop,
            Mute,
            Deafen,
            Error,
            Restart,
            PauseClient,
            FastClock,
            ClockWithinDrift,
            ClockJump,
            KeyVanishes,
            RestartEmpty,
            CancelCall,
        ];
        let count = |kind: &Fault| self.0[*kind as usize].load(Ordering::Relaxed);
        kinds
            .iter()
            .map(|kind| (format!("{kind:?}"), count(kind)))
            .collect()
    }
}

/// Sets the clocks of masters, at most as far apart as the drift allows.
pub(crate) fn set_clocks(plan: &Plan, masters: &MemoryMasters, injected: &Injected) {
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x636c_6f63);
    for master in 0..plan.masters {
        if rng.gen_bool(0.5) {
            injected.count(Fault::ClockWithinDrift);
            masters.set_clock_rate(master, rng.gen_range(0.99..1.009));
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a list of faults")]
/// Does one thing after another to masters and clients, until it is dropped.
pub(crate) async fn storm(
    plan: Plan,
    masters: MemoryMasters,
    pauses: Vec<Pause>,
    partitions: Partitions,
    history: Arc<History>,
    injected: Arc<Injected>,
) {
    let mut rng = StdRng::seed_from_u64(plan.seed ^ 0x7374_6f72);
    let ttl = plan.ttl;
    let mut wipes = match plan.weather {
        Weather::WipesInBudget => plan.wipes_survived(),
        Weather::Wipes | Weather::Guarded => usize::MAX,
        _ => 0,
    };
    let kinds = match plan.weather {
        Weather::Network | Weather::ReleasesArrive => return,
        Weather::WrongClocks => 11,
        Weather::Storm | Weather::WipesInBudget | Weather::Wipes | Weather::Guarded => 8,
    };
    loop {
        sleep(ttl.mul_f64(rng.gen_range(0.02..0.5))).await;
        let master = rng.gen_range(0..plan.masters);
        let client = rng.gen_range(0..plan.clients);
        let lasts = ttl.mul_f64(rng.gen_range(0.05..1.5));
        if wipes > 0 && rng.gen_bool(0.3) {
            wipes -= 1;
            injected.count(Fault::RestartEmpty);
            history.note(format!("master {master} restarts empty"));
            masters.restart_empty(master);
            continue;
        }
        let fault = match rng.gen_range(-3..kinds) {
            0 => {
                masters.hang(master);
                Fault::Hang
            }
            1 => {
                masters.stop(master);
                Fault::Stop
            }
            2 => {
                masters.mute(master);
                Fault::Mute
            }
            3 => {
                masters.deafen(master);
                Fault::Deafen
            }
            4 => {
                masters.fail(
                    master,
                    "READONLY You can't write against a read only replica.",
                );
                Fault::Error
            }
            5 => {
                masters.restart(master);
                Fault::Restart
            }
            // The most telling of all, so the most frequent.
            ..0 | 6 => {
                pauses[client].pause();
                history.paused(client);
                Fault::PauseClient
            }
            7 => {
                let mut cut = partitions.lock().unwrap_or_else(PoisonError::into_inner);
                cut.extend(
                    (0..plan.masters)
                        .filter(|_| rng.gen_bool(0.6))
                        .map(|master| (client, master)),
                );
                Fault::Partition
            }
            8 => {
                masters.set_clock_rate(master, rng.gen_range(0.2..4.0));
                Fault::FastClock
            }
            9 => {
                if rng.gen_bool(0.5) {
                    masters.jump_clock_forward(master, lasts);
                } else {
                    masters.jump_clock_back(master, lasts);
                }
                Fault::ClockJump
            }
            _ => {
                let resource = rng.gen_range(0..plan.resources);
                masters.delete(master, &resource_name(resource));
                Fault::KeyVanishes
            }
        };
        injected.count(fault);
        history.note(format!(
            "{fault:?}: master {master}, client {client}, for {lasts:?}"
        ));
        if rng.gen_bool(0.8) {
            sleep(lasts).await;
            heal(
                &plan,
                &masters,
                &pauses,
                &partitions,
                &history,
                rng.gen_bool(0.7).then_some((master, client)),
            );
            history.note("healed");
        }
    }
}

/// Ends the faults of one master and one client, or all.
pub(crate) fn heal(
    plan: &Plan,
    masters: &MemoryMasters,
    pauses: &[Pause],
    partitions: &Partitions,
    history: &History,
    only: Option<(usize, usize)>,
) {
    let is_meant = |master: usize, client: usize| only.is_none_or(|only| only == (master, client));
    for master in (0..plan.masters).filter(|&master| only.is_none_or(|only| only.0 == master)) {
        masters.heal(master);
    }
    for (client, pause) in pauses.iter().enumerate() {
        if only.is_none_or(|only| only.1 == client) {
            pause.resume();
            history.resumed(client);
        }
    }
    let mut cut = partitions.lock().unwrap_or_else(PoisonError::into_inner);
    cut.retain(|&(client, master)| !is_meant(master, client));
    if only.is_none() {
        cut.clear();
    }
}

pub(crate) fn resource_name(resource: usize) -> String {
    format!("resource-{resource}")
}

/// So long after the last command reached a master, every key is gone by its ttl.
pub(crate) fn all_expired(plan: &Plan) -> Duration {
    plan.ttl * 8
}
