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
use crate::pinned::{self, Pinned};
use crate::shard::{Ctx, Found, Shard};
use crate::slot::{self, Slot};
use crate::stats::Event;
use crate::wait::pass_on::Ending;
use crate::word::{Acquire, Cause, STAMP_MAX, State, TICK_MAX, TICK_SLACK, Word};

/// How an attempt to grant a resource ended.
pub(crate) enum Attempt<K> {
    Granted(Handle<K>),
    /// Somebody holds it, or waits for it.
    Refused(Word),
    /// It is elsewhere now: look again.
    Again,
}

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
        pinned: &Pinned,
    ) -> Option<Result<Handle<K>, AcquireError>> {
        match self.attempt(found, hash, want, pinned) {
            Attempt::Granted(handle) => Some(Ok(handle)),
            Attempt::Refused(word) => {
                self.stats.add(Event::Refusal, 1);
                Some(Err(AcquireError::Held(self.held(found, hash, word, want.now))))
            }
            Attempt::Again => None,
        }
    }

    #[inline]
    pub(crate) fn attempt(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        want: Want,
        pinned: &Pinned,
    ) -> Attempt<K> {
        let &Found { page, index, word } = found;
        if word.is_waited() && !word.is_frozen() {
            return self.attempt_waited(found, hash, want, pinned);
        }
        let (outcome, ended) = self.try_grant(found, want, pinned);
        let done = match outcome {
            Outcome::Granted(won) => {
                let place = Place { page, slot: page.slot(index), index };
                Attempt::Granted(self.handle(place, hash, won, want))
            }
            Outcome::Refused(word) => Attempt::Refused(word),
            Outcome::Moved => Attempt::Again,
            Outcome::OutOfRange => {
                self.shard(hash).settle(page, &self.ctx(want.now, pinned), false);
                Attempt::Again
            }
        };
        // After the new holder can be found: somebody else's code may run here.
        if let Some(ended) = ended {
            self.events.tell(ended, want.now, pinned);
        }
        done
    }

    /// Whoever asks for what others wait for does not come first, but sees to it that they do.
    #[cold]
    #[inline(never)]
    fn attempt_waited(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        want: Want,
        pinned: &Pinned,
    ) -> Attempt<K> {
        let &Found { page, word, .. } = found;
        if !self.can_take_over(page, word, want.now) {
            return self.come_back(found, hash, want, pinned);
        }
        let shard = self.shard(hash);
        let ending = if word.is_leased() {
            Ending::Lease(Cause::Lapsed)
        } else {
            Ending::Vacancy(shard.orphan_for(found, hash))
        };
        self.pass_on(found, hash, ending, want.now, pinned);
        Attempt::Again
    }

    /// Ends what is in a waited word, in favour of those who wait.
    fn pass_on(&self, found: &Found<'_, K>, hash: Hash, ending: Ending, now: u64, pinned: &Pinned) {
        let ctx = self.ctx(now, pinned);
        if let Ok(passed) = self.shard(hash).pass_on(found, ending, &ctx) {
            match ending {
                Ending::Lease(Cause::Superseded) => self.stats.add(Event::Superseded, 1),
                Ending::Lease(_) => self.stats.add(Event::Lapse, 1),
                Ending::Vacancy(_) => {}
            }
            passed.tell(&ctx);
        }
    }

    /// Ends what lapsed in a page and is waited for, or was: that does not end by being left behind.
    #[cold]
    pub(super) fn end_waited(&self, shard: &Shard<K>, page: &Page<K>, ctx: &Ctx<'_, K, S>) {
        for (index, word) in page.slots().iter().map(Slot::word).enumerate() {
            let over = word.is_leased() && self.can_take_over(page, word, ctx.now);
            if over && word.is_waited() && !word.is_frozen() {
                let found = Found { page, index, word };
                if let Ok(passed) = shard.pass_on(&found, Ending::Lease(Cause::Lapsed), ctx) {
                    self.stats.add(Event::Lapse, 1);
                    passed.tell(ctx);
                }
            }
        }
    }

    /// Its own holder is granted anew what nobody else can have: in its grace, after the clock has jumped; or as
    /// ever, if all who waited have left. The word stays marked, as somebody may come to wait meanwhile.
    fn come_back(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        want: Want,
        pinned: &Pinned,
    ) -> Attempt<K> {
        let &Found { page, index, word } = found;
        let slot = page.slot(index);
        let since = page.time(want.now);
        let deadline = since.saturating_add(want.ticks);
        let lapsed = word.is_reclaimable(since);
        let mine = slot.holder_of(word.stamp()) == Some(want.holder);
        let free = || self.shard(hash).waits.len_of(slot.identity()) == 0;
        let may = lapsed || word.state() == State::Held && free();
        if !mine || !may {
            return Attempt::Refused(word);
        }
        let cause = if lapsed { Cause::Lapsed } else { Cause::Superseded };
        if deadline > TICK_MAX - TICK_SLACK {
            self.shard(hash).settle(page, &self.ctx(want.now, pinned), false);
            return Attempt::Again;
        }
        if word.stamp() == STAMP_MAX {
            // As without waiters: it gives up what it has, and goes on in another slot.
            self.pass_on(found, hash, Ending::Lease(cause), want.now, pinned);
            return Attempt::Again;
        }
        let report = self.events.report(page, index, word, EndCause::of(cause), want.now, pinned);
        page.raise_top(deadline);
        let granted = word.passed_on(deadline, true);
        if slot.transition(word, granted).is_err() {
            return Attempt::Again;
        }
        self.count_grant(Some(cause), true);
        self.see_to(page, deadline);
        let won = Won { granted: granted.unwaited(), since };
        let handle = self.handle(Place { page, slot, index }, hash, won, want);
        if let Some(ended) = report {
            self.events.tell(ended, want.now, pinned);
        }
        Attempt::Granted(handle)
    }

    /// Whether what is in a word may be given to somebody else: it is vacant, or over, and its holder has no
    /// grace in which to come back.
    pub(crate) fn can_take_over(&self, page: &Page<K>, word: Word, now: u64) -> bool {
        !word.is_leased()
            || word.is_reclaimable(page.time(now)) && self.takeover_waits(page, word, now) == 0
    }

    #[inline]
    fn try_grant(
        &self,
        found: &Found<'_, K>,
        want: Want,
        pinned: &Pinned,
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
                Acquire::Dead | Acquire::Frozen | Acquire::Waited => return (Outcome::Moved, None),
            };
            let report = ended
                .map(EndCause::of)
                .and_then(|cause| self.events.report(page, index, word, cause, want.now, pinned));
            match slot.transition(word, next) {
                Ok(()) => {
                    let granted = matches!(outcome, Outcome::Granted(_));
                    self.count_grant(ended, granted);
                    if granted {
                        self.see_to(page, next.tick());
                    }
                    return (outcome, report);
                }
                Err(found) => word = found,
            }
        }
    }

    #[inline]
    fn count_grant(&self, ended: Option<Cause>, granted: bool) {
        if granted {
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
        let pinned = pinned::pin();
        self.shard(name.hash).tell_copy(name, &self.ctx(now, &pinned));
    }

    fn takeover_waits(&self, page: &Page<K>, word: Word, now: u64) -> u64 {
        self.gaps.takeover_waits(page.clock_tick(word.tick()), now)
    }

    /// Sees to it that a lease that was just granted until a deadline is looked at when it is over. The
    /// page cannot begin another life meanwhile.
    #[inline(always)]
    pub(crate) fn see_to(&self, page: &Page<K>, deadline: u64) {
        if EVENTS && page.due.is_after(deadline + 1) {
            self.filings.file(page, deadline + 1);
        }
    }

    #[cold]
    fn held(&self, found: &Found<'_, K>, hash: Hash, word: Word, now: u64) -> Held {
        let page = found.page;
        let slot = page.slot(found.index);
        let time = page.time(now);
        let wait = if word.is_reclaimable(time) { self.takeover_waits(page, word, now) } else { 0 };
        let left = (word.tick() + 1).saturating_sub(time);
        let held = self.held_by(slot.holder_of(word.stamp()), slot, word, left.max(wait));
        let waits = &self.shard(hash).waits;
        let waiters = if word.is_waited() { waits.len_of(slot.identity()) } else { 0 };
        Held { waiters, ..held }
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
        Held { holder, token, retry_after: self.rate.duration_ceil(ticks), waiters: 0 }
    }
}
