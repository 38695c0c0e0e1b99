//! What masters tell of keys that somebody waits for. All of it is a hint: nothing rests on it.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::{
    core::Core,
    master::{Watch, Watched},
    resources::Resources,
};

/// So often is a notice followed up by a question at once; from then on a little later, since a holder
/// may extend its lock as often as it likes.
const PROMPT_MAX: u32 = 64;
const PACE: Duration = Duration::from_millis(20);

/// Waits until a quorum of masters has told that the keys are free, or were changed. May never end,
/// and may be wrong.
///
/// Where others wait too (`window` is not zero), all of them hear it at the same moment. Then it
/// waits for a moment of its own, and asks whether the keys are free still: an attempt that only
/// collides takes from everybody. A holder that extends its lock is told from one that releases it
/// by the same question.
///
/// `missed` counts how often it came too late.
///
/// # Cancel safety
/// Questions that were sent change nothing.
pub(super) async fn freed(
    core: &Arc<Core>,
    resources: &Resources,
    window: Duration,
    spread: impl Fn() -> Duration,
    missed: &AtomicU32,
) {
    let mut news = News::new(core, resources);
    let mut asked = 0;
    loop {
        news.quorum().await;
        if window.is_zero() || (asked > 0 && news.says_free()) {
            return;
        }
        // It was free, or seemed so, and is not any more.
        missed.fetch_add(u32::from(asked > 0), Ordering::Relaxed);
        let pace = if asked < PROMPT_MAX {
            Duration::ZERO
        } else {
            PACE
        };
        tokio::time::sleep(spread() + pace).await;
        news.ask_again();
        asked += 1;
    }
}

struct News<'a> {
    core: &'a Core,
    resources: &'a Resources,
    masters: Vec<State>,
}

/// What one master said.
enum State {
    Asked(Watch),
    Told(Watched),
}

impl<'a> News<'a> {
    fn new(core: &'a Core, resources: &'a Resources) -> Self {
        let ask = |master: &Arc<dyn crate::master::Master>| State::Asked(master.watch(resources));
        Self {
            core,
            resources,
            masters: core.masters.iter().map(ask).collect(),
        }
    }

    /// Waits for a quorum of masters on which the keys are free or were changed.
    async fn quorum(&mut self) {
        poll_fn(|cx| {
            // Timers must not end with a runtime of the caller's.
            let _home = self.core.background.enter();
            for state in &mut self.masters {
                if let State::Asked(watch) = state
                    && let Poll::Ready(watched) = watch.as_mut().poll(cx)
                {
                    *state = State::Told(watched);
                }
            }
            let told =
                |state: &&State| matches!(state, State::Told(Watched::Free | Watched::Changed));
            if self.masters.iter().filter(told).count() >= self.core.quorum.needed {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn says_free(&self) -> bool {
        let free = |state: &&State| matches!(state, State::Told(Watched::Free));
        self.masters.iter().filter(free).count() >= self.core.quorum.needed
    }

    /// Asks those again that told something: it may have passed.
    fn ask_again(&mut self) {
        for (state, master) in self.masters.iter_mut().zip(&self.core.masters) {
            if matches!(state, State::Told(Watched::Free | Watched::Changed)) {
                *state = State::Asked(master.watch(self.resources));
            }
        }
    }
}
