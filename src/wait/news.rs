//! What masters tell of keys that somebody waits for. All of it is a hint: nothing rests on it.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::crowd::Turn;
use crate::{
    core::Core,
    master::{Holder, Watch, Watched},
    resources::Resources,
};

/// So often is a notice followed up by a question at once; from then on a little later, since a holder
/// may extend its lock as often as it likes.
const PROMPT_MAX: u32 = 64;
const PACE: Duration = Duration::from_millis(20);

/// Waits until a quorum of masters has told that the keys are free, or were changed. May never end,
/// and may be wrong.
///
/// All who wait hear it at the same moment. `pause` says for how long to let others go first, and
/// then it asks whether the keys are free still: an attempt that only collides takes from everybody.
/// A holder that extends its lock is told from one that releases it by the same question.
///
/// `missed` counts how often it came too late.
///
/// # Cancel safety
/// Questions that were sent change nothing.
pub(super) async fn freed(
    core: &Arc<Core>,
    resources: &Resources,
    pause: impl Fn(Cause) -> Pause,
    missed: &AtomicU32,
) {
    let mut news = News::new(core, resources);
    let (mut has_asked, mut asked) = (false, 0);
    loop {
        news.quorum().await;
        if has_asked && news.says_free() {
            return;
        }
        // It was free, or seemed so, and is not any more.
        missed.fetch_add(u32::from(has_asked), Ordering::Relaxed);
        let cause = news.cause();
        if matches!(cause, Cause::Turn(Turn { is_news: true, .. })) {
            // Others have had it meanwhile: they are no reason to ask less often.
            asked = 0;
        }
        let Pause::Ask(pause) = pause(cause) else {
            return;
        };
        let pace = if asked < PROMPT_MAX {
            Duration::ZERO
        } else {
            PACE
        };
        let pause = pause + pace;
        // A timer takes a millisecond at least.
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        news.ask_again();
        (has_asked, asked) = (true, asked + 1);
    }
}

/// What masters have told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It was free when they were asked.
    Free,
    /// One who is known to have held it has released it, or has extended it.
    Turn(Turn),
    /// Whoever held it.
    Changed,
}

/// What to do then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// To try at once.
    None,
    /// To ask after that time.
    Ask(Duration),
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
            self.hear(cx);
            let told =
                |state: &&State| matches!(state, State::Told(Watched::Free | Watched::Changed(_)));
            if self.masters.iter().filter(told).count() >= self.core.quorum.needed {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    fn hear(&mut self, cx: &mut Context<'_>) {
        // Timers must not end with a runtime of the caller's.
        let _home = self.core.background.enter();
        for state in &mut self.masters {
            if let State::Asked(watch) = state
                && let Poll::Ready(watched) = watch.as_mut().poll(cx)
            {
                *state = State::Told(watched);
            }
        }
    }

    fn says_free(&self) -> bool {
        let free = |state: &&State| matches!(state, State::Told(Watched::Free));
        self.masters.iter().filter(free).count() >= self.core.quorum.needed
    }

    fn cause(&self) -> Cause {
        if self.says_free() {
            return Cause::Free;
        }
        let turn = self.holder().and_then(|holder| {
            let resource = self.resources.iter().nth(holder.resource)?;
            self.core.crowd.had(resource, holder, self.core.mark)
        });
        turn.map_or(Cause::Changed, Cause::Turn)
    }

    /// Who has had it, by most of the masters on which it was changed.
    fn holder(&self) -> Option<Holder> {
        let changed = || {
            self.masters.iter().filter_map(|state| match state {
                State::Told(Watched::Changed(holder)) => Some(*holder),
                _ => None,
            })
        };
        let is_most = |holder: &Holder| {
            let same = changed().filter(|other| *other == Some(*holder));
            same.count() * 2 > changed().count()
        };
        changed().flatten().find(is_most)
    }

    /// Asks those again that told something: it may have passed.
    fn ask_again(&mut self) {
        // Those too that have told since a quorum had: it would count as news of the next change.
        self.hear(&mut Context::from_waker(Waker::noop()));
        for (state, master) in self.masters.iter_mut().zip(&self.core.masters) {
            if matches!(state, State::Told(Watched::Free | Watched::Changed(_))) {
                *state = State::Asked(master.watch(self.resources));
            }
        }
    }
}
