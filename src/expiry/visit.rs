//! One visit to a page.

use super::due::NEVER;
use crate::events::{EndCause, Ended};
use crate::page::Page;
use crate::shard::Ctx;
use crate::slot::Slot;
use crate::stats::Event;
use crate::table::Key;
use crate::word::{Cause, State, Word};

/// What a visit found.
pub(super) enum Look {
    /// The page must be looked at again at this tick of the page.
    Due(u64),
    /// Resources in it have been idle for so long that they are to be left behind.
    Replace,
    /// It is being replaced.
    Frozen,
}

pub(super) struct Visit<'a, 'g, K, S> {
    pub(super) ctx: &'a Ctx<'g, K, S>,
    pub(super) page: &'g Page<K>,
    pub(super) lapsed: &'a mut u64,
    /// Ends to be told.
    pub(super) ended: &'a mut Vec<Ended<K>>,
}

/// What becomes of a slot.
enum Next {
    At(u64),
    /// Idle since then.
    Idle(u64),
    Frozen,
}

impl<K: Key, S> Visit<'_, '_, K, S> {
    /// Ends what lapsed, and looks when there will be something to do again.
    ///
    /// The page's due tick is raised first, and the words are looked at after that: so a grant that is not
    /// seen here finds that it must file the page (invariant P12).
    pub(super) fn look(mut self) -> Look {
        let time = self.page.time(self.ctx.now);
        self.page.due.visit();
        let (mut due, mut idle) = (NEVER, NEVER);
        for (index, slot) in self.page.slots().iter().enumerate() {
            match self.slot(index, slot, time) {
                Next::At(tick) => due = due.min(tick),
                Next::Idle(since) => idle = idle.min(since),
                Next::Frozen => return Look::Frozen,
            }
        }
        let retention = self.ctx.limits.retention;
        // Twice: then all that is idle for longer than the retention goes with it, and the page is
        // replaced once in a retention at most.
        let evict = idle.saturating_add(retention * 2);
        if evict < time {
            return Look::Replace;
        }
        // A tick later: what is due is so when the tick is past.
        let due = due.min(evict).saturating_add(1).min(NEVER);
        self.page.due.lower_quietly(due);
        Look::Due(due)
    }

    fn slot(&mut self, index: usize, slot: &Slot<K>, time: u64) -> Next {
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
                    return Next::At(time.saturating_add(wait));
                }
                match self.lapse(index, slot, word, time) {
                    Ok(ended) => word = ended,
                    Err(found) => word = found,
                }
            } else if word.state() == State::Vacant && !word.is_dead() {
                return Next::Idle(word.tick());
            } else {
                return Next::At(NEVER);
            }
        }
    }

    /// Ends a lapsed lease, if nobody was faster.
    fn lapse(&mut self, index: usize, slot: &Slot<K>, word: Word, time: u64) -> Result<Word, Word> {
        let ended = word.end(word.tick().min(time), Cause::Lapsed);
        // Before the exchange: a key's code may panic.
        let report = self.ctx.report(self.page, index, word, EndCause::Lapsed);
        slot.transition(word, ended)?;
        *self.lapsed += 1;
        self.ctx.stats.add(Event::Lapse, 1);
        self.ended.extend(report);
        Ok(ended)
    }
}
