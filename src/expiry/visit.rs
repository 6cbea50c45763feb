//! One visit to a page.

use super::Swept;
use super::agenda::Listed;
use super::due::NEVER;
use crate::events::{EndCause, Ended};
use crate::page::{Page, SLOTS};
use crate::prefetch::prefetch;
use crate::shard::{Ctx, Found, Shard};
use crate::slot::Slot;
use crate::stats::Event;
use crate::table::Key;
use crate::wait::pass_on::Ending;
use crate::word::{Cause, State, Word};
use core::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a look at a whole page found.
#[allow(clippy::large_enum_variant, reason = "it is taken apart where it is made; small in models")]
pub(super) enum Look {
    /// The page must be looked at as a whole again at this tick of the page, and these slots before.
    Due(u64, Listed),
    /// Resources in it have been idle for so long that they are to be left behind.
    Replace,
    /// It is being replaced.
    Frozen,
}

pub(super) struct Visit<'a, 'g, K, S> {
    pub(super) ctx: &'a Ctx<'g, K, S>,
    pub(super) page: &'g Page<K>,
    pub(super) swept: &'a mut Swept,
    pub(super) shard: &'a Shard<K>,
    /// Ends to be told.
    pub(super) ended: &'a mut Vec<Ended<K>>,
    /// After how many ticks to try again what panicked.
    pub(super) retry: u64,
}

/// What becomes of a slot.
enum Next {
    /// To be looked at when this tick is past.
    At(u64),
    /// Idle since then.
    Idle(u64),
    Nothing,
    Frozen,
}

impl<K: Key, S: BuildHasher> Visit<'_, '_, K, S> {
    /// Ends what lapsed, and looks when there will be something to do again.
    ///
    /// The page's due tick is raised first, and the words are looked at after that: so a grant that is not
    /// seen here finds that it must file the page (invariant P12).
    pub(super) fn look(mut self) -> Look {
        for slot in self.page.slots().iter().step_by(2) {
            prefetch(slot);
        }
        self.page.due.visit();
        let mut deadlines = [(0, 0); SLOTS];
        let (mut leases, mut idle) = (0, NEVER);
        for index in 0..SLOTS {
            match self.slot(index) {
                Next::At(tick) => {
                    deadlines[leases] = (tick, index);
                    leases += 1;
                }
                Next::Idle(since) => idle = idle.min(since),
                Next::Nothing => {}
                Next::Frozen => return Look::Frozen,
            }
        }
        let (evict, time) = (self.evict_at(idle), self.page.time(self.ctx.now));
        if evict <= time {
            return Look::Replace;
        }
        for (tick, _) in &mut deadlines[..leases] {
            *tick -= time;
        }
        let (listed, scan) = Listed::of(self.page.clock_tick(time), &mut deadlines[..leases]);
        let due = scan.saturating_add(time).min(evict).min(NEVER);
        self.page.due.lower_quietly(due);
        Look::Due(due, listed)
    }

    /// Ends the lease in a slot if it lapsed; then the slot is idle, until the tick that is returned. `None`
    /// if it is not as it was when it was taken down.
    pub(super) fn look_at(&mut self, index: usize) -> Option<u64> {
        match self.slot(index) {
            Next::Idle(since) => Some(self.evict_at(since)),
            Next::Nothing => Some(NEVER),
            Next::At(_) | Next::Frozen => None,
        }
    }

    /// When what has been idle since then is to be left behind. After two retentions: then all that is idle
    /// for longer than one goes with it, and the page is replaced once in a retention at most.
    fn evict_at(&self, idle: u64) -> u64 {
        idle.saturating_add(self.ctx.limits.retention * 2 + 1).min(NEVER)
    }

    fn slot(&mut self, index: usize) -> Next {
        let (slot, time) = (self.page.slot(index), self.page.time(self.ctx.now));
        let mut word = slot.word_for_visit();
        loop {
            if word.is_frozen() {
                return Next::Frozen;
            }
            if word.is_leased() {
                if !word.is_reclaimable(time) {
                    return Next::At(word.tick());
                }
                let wait = self.ctx.takeover_waits(self.page, word);
                if wait > 0 {
                    return Next::At(time + wait - 1);
                }
                // The key's code may panic. Then the others go on, and this one is tried again, though not at
                // once.
                let found = if word.is_waited() {
                    catch_unwind(AssertUnwindSafe(|| self.pass_on(index, word)))
                } else {
                    // Before the exchange.
                    let report = || self.ctx.report(self.page, index, word, EndCause::Lapsed);
                    let report = catch_unwind(AssertUnwindSafe(report));
                    report.map(|report| self.lapse(slot, word, time, report))
                };
                let Ok(found) = found else {
                    self.swept.panics += 1;
                    return Next::At(time.saturating_add(self.retry));
                };
                word = found;
            } else if word.state() == State::Vacant && !word.is_dead() {
                return Next::Idle(word.tick());
            } else {
                return Next::Nothing;
            }
        }
    }

    /// Ends a lapsed lease, if nobody was faster. Returns the word that is there then.
    fn lapse(&mut self, slot: &Slot<K>, word: Word, time: u64, report: Option<Ended<K>>) -> Word {
        let ended = word.end(word.tick().min(time), Cause::Lapsed);
        if let Err(found) = slot.transition(word, ended) {
            return found;
        }
        self.count(report);
        ended
    }

    /// As [`lapse`](Self::lapse), of a lease that somebody waits for.
    #[cold]
    #[inline(never)]
    fn pass_on(&mut self, index: usize, word: Word) -> Word {
        let found = Found { page: self.page, index, word };
        // The term counts from the grant, not from when these visits began.
        let ctx = self.ctx.anew();
        if let Ok(mut passed) = self.shard.pass_on(&found, Ending::Lease(Cause::Lapsed), &ctx) {
            self.count(passed.ended.take());
            passed.finish(&ctx);
        }
        self.page.slot(index).word_for_visit()
    }

    #[inline]
    fn count(&mut self, ended: Option<Ended<K>>) {
        self.swept.lapsed += 1;
        self.ctx.stats.add(Event::Lapse, 1);
        self.ended.extend(ended);
    }
}
