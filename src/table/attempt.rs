//! An attempt to grant one slot that is not simply vacant, and what is told of it.

use core::hash::BuildHasher;

use super::Key;
use super::handle::{Handle, Name};
use super::shared::{Core, Place, Want, Won};
use crate::clock::Clock;
use crate::error::{AcquireError, Held};
use crate::events::hub::EVENTS;
use crate::events::{EndCause, Ended};
use crate::hash::Hash;
use crate::id::HolderId;
use crate::page::Page;
use crate::shard::Found;
use crate::slot::{self, Slot};
use crate::stats::Event;
use crate::sync::epoch::{self, Guard};
use crate::word::{Acquire, Cause, TICK_MAX, TICK_SLACK, Word};

/// How an attempt at one slot ended.
enum Outcome {
    Granted(Won),
    Refused(Word),
    /// The slot is dead, or its page is being replaced: look again.
    Moved,
    /// The page's base is too old for this deadline: replace it.
    OutOfRange,
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// Tries to grant the slot that was found. `None`: look again.
    #[inline]
    pub(super) fn grant(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        want: Want,
        pinned: &Guard,
    ) -> Option<Result<Handle<K>, AcquireError>> {
        let &Found { page, index, .. } = found;
        let slot = page.slot(index);
        let (outcome, ended) = self.try_grant(found, want, pinned);
        let done = match outcome {
            Outcome::Granted(won) => {
                let place = Place { page, slot, index };
                Some(Ok(self.handle(place, hash, won, want)))
            }
            Outcome::Refused(word) => {
                self.stats.add(Event::Refusal, 1);
                Some(Err(AcquireError::Held(self.held(page, slot, word, want.now))))
            }
            Outcome::Moved => None,
            Outcome::OutOfRange => {
                self.shard(hash).settle(page, &self.ctx(want.now, pinned), false);
                None
            }
        };
        // After the new holder can be found: somebody else's code may run here.
        if let Some(ended) = ended {
            self.events.tell(ended, want.now, pinned);
        }
        done
    }

    #[inline]
    fn try_grant(
        &self,
        found: &Found<'_, K>,
        want: Want,
        pinned: &Guard,
    ) -> (Outcome, Option<Ended<K>>) {
        let &Found { page, index, mut word } = found;
        let slot = page.slot(index);
        let time = page.time(want.now);
        let deadline = time.saturating_add(want.ticks);
        if deadline > TICK_MAX - TICK_SLACK {
            return (Outcome::OutOfRange, None);
        }
        loop {
            let told = slot.is_told(word);
            let same_holder = slot.holder_of(word.stamp()) == Some(want.holder);
            if word.is_reclaimable(time)
                && !same_holder
                && self.takeover_waits(page, word, want.now) > 0
            {
                return (Outcome::Refused(word), None);
            }
            let (next, ended, outcome) = match word.acquire(time, deadline, told, same_holder) {
                Acquire::Grant { next, ended } => {
                    page.raise_top(deadline);
                    (next, ended, Outcome::Granted(Won { granted: next, since: time }))
                }
                Acquire::Bury { next, ended } => (next, ended, Outcome::Moved),
                Acquire::Refused => return (Outcome::Refused(word), None),
                Acquire::Dead | Acquire::Frozen => return (Outcome::Moved, None),
            };
            let report = ended
                .map(EndCause::of)
                .and_then(|cause| self.events.report(page, index, word, cause, want.now, pinned));
            match slot.transition(word, next) {
                Ok(()) => {
                    self.count_grant(ended, &outcome);
                    if matches!(outcome, Outcome::Granted(_)) {
                        self.see_to(page, next.tick());
                    }
                    return (outcome, report);
                }
                Err(found) => word = found,
            }
        }
    }

    #[inline]
    fn count_grant(&self, ended: Option<Cause>, outcome: &Outcome) {
        if matches!(outcome, Outcome::Granted(_)) {
            self.stats.add(Event::Grant, 1);
        }
        match ended {
            None => {}
            Some(Cause::Superseded) => self.stats.add(Event::Superseded, 1),
            Some(_) => self.stats.add(Event::Lapse, 1),
        }
    }

    /// Tells who won a grant whose page was being replaced when it was told.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_copy(&self, name: Name, now: u64) {
        let pinned = epoch::pin();
        let ctx = self.ctx(now, &pinned);
        let (identity, stamp) = (name.identity(), name.stamp());
        if let Some(found) = self.shard(name.hash).find_identity(name.hash, identity, &ctx) {
            found.page.slot(found.index).tell_copy(stamp, name.holder);
        }
    }

    fn takeover_waits(&self, page: &Page<K>, word: Word, now: u64) -> u64 {
        self.gaps.takeover_waits(page.clock_tick(word.tick()), now)
    }

    /// Sees to it that a lease that was just granted until a deadline is looked at when it is over. The
    /// page cannot begin another life meanwhile.
    #[inline(always)]
    pub(super) fn see_to(&self, page: &Page<K>, deadline: u64) {
        if EVENTS && page.due.is_after(deadline + 1) {
            self.filings.file(page, deadline + 1);
        }
    }

    #[cold]
    fn held(&self, page: &Page<K>, slot: &Slot<K>, word: Word, now: u64) -> Held {
        let time = page.time(now);
        let wait = if word.is_reclaimable(time) { self.takeover_waits(page, word, now) } else { 0 };
        let left = (word.tick() + 1).saturating_sub(time);
        self.held_by(slot.holder_of(word.stamp()), slot, word, left.max(wait))
    }

    /// A refusal: the lease is reclaimable in so many ticks, one after its deadline. Rounded up: no earlier
    /// retry can succeed.
    #[inline(always)]
    pub(super) fn held_by(
        &self,
        holder: Option<HolderId>,
        slot: &Slot<K>,
        word: Word,
        ticks: u64,
    ) -> Held {
        let token = slot::token(slot.identity(), word.stamp());
        Held { holder, token, retry_after: self.rate.duration_ceil(ticks) }
    }
}
