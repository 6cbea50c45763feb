//! A grant in hand: the operations of its holder. They go to the slot directly, without a pin: page
//! memory stays mapped, and identity and stamp tell a stale handle from a good one. What is not as
//! the handle left it takes the slow path: a search by identity, under a pin.

use core::hash::BuildHasher;
use core::time::Duration;

use super::Key;
use super::shared::{Core, Won};
use crate::at::{At, AtomicAt};
use crate::clock::Clock;
use crate::error::{Lost, RenewError};
use crate::events::EndCause;
use crate::hash::Hash;
use crate::id::{HolderId, Token};
use crate::page::Page;
use crate::pinned::{self, Pinned};
use crate::shard::Found;
use crate::slot::{self, Slot};
use crate::stats::Event;
use crate::sync::std_atomic::{AtomicU64, Ordering};
use crate::wait::pass_on::Ending;
use crate::word::{self, Cause, Renew, State, TICK_MAX, TICK_SLACK, Word};

pub(crate) struct Handle<K> {
    /// Follows the lease when its page is replaced; so do the word and the tick. They are read one by
    /// one: where the word is found, under the lease's identity, the lease is.
    at: AtomicAt<K>,
    name: Name,
    /// The lease's word, as this handle knows it, without the waited bit: so that whoever renews or
    /// releases what somebody waits for takes the slow path. If it is still there, under this identity, so is the
    /// lease. The word alone would not do: no value comes back within the time that one operation may
    /// take, but a handle may be kept for longer than a page rests before its ticks begin again.
    word: AtomicU64,
    /// The tick of the page at which the lease was last known to be in use: granted, renewed, or found in
    /// another page. What is left behind when it is released.
    since: AtomicU64,
}

impl<K> Handle<K> {
    /// Whether the slot is still of the same incarnation of the resource.
    #[inline(always)]
    fn is_in(&self, slot: &Slot<K>) -> bool {
        slot.identity() == self.name.identity()
    }
}

/// Which grant it is: enough to find its slot, and to tell whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    pub(crate) hash: Hash,
    pub(crate) token: Token,
    pub(crate) holder: HolderId,
}

impl Name {
    #[inline]
    pub(crate) fn identity(self) -> u64 {
        self.hash.identity(word::token_parts(self.token.get()).0)
    }

    #[inline]
    pub(crate) fn stamp(self) -> u64 {
        word::token_parts(self.token.get()).1
    }
}

/// A lease that is its holder's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valid {
    /// In ticks.
    pub(crate) remaining: u64,
    pub(crate) closing: bool,
}

impl<K> Handle<K> {
    #[inline(always)]
    pub(crate) fn new(at: At<K>, name: Name, won: Won) -> Self {
        Self {
            at: AtomicAt::new(at),
            name,
            word: AtomicU64::new(won.granted.bits()),
            since: AtomicU64::new(won.since),
        }
    }

    /// Notes where the lease is now, and its word, as of a page's time.
    fn follow(&self, found: &Found<'_, K>, word: Word, time: u64) {
        self.at.store(At::new(found.page, found.index));
        // Relaxed: the word, which comes after, releases it.
        self.since.store(time, Ordering::Relaxed);
        // Release: who compares by this word uses this tick, or a later one.
        self.word.store(word.unwaited().bits(), Ordering::Release);
    }

    pub(crate) fn token(&self) -> Token {
        self.name.token
    }

    pub(crate) fn holder(&self) -> HolderId {
        self.name.holder
    }

    pub(crate) fn name(&self) -> Name {
        self.name
    }

    #[inline(always)]
    fn word(&self) -> Word {
        // Acquire: pairs with `follow`; the word itself is only compared.
        Word::from_bits(self.word.load(Ordering::Acquire))
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    #[inline(always)]
    fn deref<'a>(&'a self, handle: &Handle<K>) -> (&'a Page<K>, &'a Slot<K>) {
        // SAFETY: handles are used with the table that made them, which `self` keeps.
        unsafe { handle.at.load().get() }
    }

    #[inline(always)]
    pub(crate) fn check(&self, handle: &Handle<K>) -> Result<Valid, Lost> {
        let (page, slot) = self.deref(handle);
        let word = slot.word();
        // Whether or not somebody waits for it.
        if word.unwaited() == handle.word() && handle.is_in(slot) {
            let time = page.time(self.clock.now());
            // The second look: the time was that of this life of the page (invariant P4).
            if word.is_valid(time) && slot.is_still(word) {
                let closing = word.state() == State::Closing;
                return Ok(Valid { remaining: word.tick() - time, closing });
            }
        }
        self.check_slow(handle.name, Some(handle))
    }

    #[inline]
    pub(crate) fn renew(&self, handle: &Handle<K>, term: Duration) -> Result<(), RenewError> {
        let ticks = self.renewal_ticks(term)?;
        let (page, slot) = self.deref(handle);
        let word = slot.word();
        if word == handle.word() && handle.is_in(slot) {
            let time = page.time(self.clock.now());
            let deadline = time.saturating_add(ticks);
            if deadline <= TICK_MAX - TICK_SLACK {
                let done = match word.renew(handle.name.stamp(), time, deadline) {
                    Renew::To(next) => {
                        page.raise_top(deadline);
                        let done = slot.transition(word, next).is_ok();
                        if done {
                            // Relaxed, both: as in `word`.
                            handle.since.store(time, Ordering::Relaxed);
                            handle.word.store(next.bits(), Ordering::Relaxed);
                        }
                        done
                    }
                    Renew::Unchanged => slot.is_still(word),
                    _ => false,
                };
                if done {
                    self.stats.add(Event::Renewal, 1);
                    return Ok(());
                }
            }
        }
        self.renew_slow(handle.name, ticks, Some(handle))
    }

    #[inline(always)]
    pub(crate) fn release(&self, handle: &Handle<K>) -> Result<(), Lost> {
        let (page, slot) = self.deref(handle);
        let word = handle.word();
        // Relaxed: it only says how recently the resource was used; see `word`.
        let since = handle.since.load(Ordering::Relaxed);
        // The place and the word may be of two pages, if another thread moves the handle on meanwhile: then
        // a copy in a draft could have this very word, and does not count (invariants P4 and P7).
        if !self.events.tells(EndCause::Released)
            && slot.word() == word
            && handle.is_in(slot)
            && let Some(since) = page.clamp(since, word.tick())
            && slot.transition(word, word.released(since)).is_ok()
        {
            self.stats.add(Event::Release, 1);
            return Ok(());
        }
        self.release_slow(handle.name, Some((handle.at.load(), word)))
    }

    /// The deadline's distance, without saying anything about a lease that is over.
    pub(crate) fn remaining(&self, handle: &Handle<K>) -> Duration {
        let ticks = self.check(handle).map_or(0, |valid| valid.remaining);
        self.rate.duration_floor(ticks)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn check_slow(&self, name: Name, handle: Option<&Handle<K>>) -> Result<Valid, Lost> {
        let (identity, stamp) = (name.identity(), name.stamp());
        let pinned = pinned::pin();
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            let found =
                self.shard(name.hash).find_identity(name.hash, identity, &ctx).ok_or(Lost::Gone)?;
            let Found { page, index, word } = found;
            let time = page.time(now);
            // A renewal that would move nothing finds out the same.
            match word.renew(stamp, time, 0) {
                Renew::Frozen => {}
                Renew::Expire(next) => {
                    if page.slot(index).transition(word, next).is_ok() {
                        return Err(Lost::Expired);
                    }
                }
                Renew::Expired => return Err(Lost::Expired),
                Renew::Lost => return Err(Self::reason(page.slot(index), word, stamp)),
                Renew::To(_) | Renew::Unchanged | Renew::Closing => {
                    Self::tell_late(page.slot(index), word, name);
                    if let Some(handle) = handle {
                        handle.follow(&found, word, time);
                    }
                    let closing = word.state() == State::Closing;
                    return Ok(Valid { remaining: word.tick() - time, closing });
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn renew_slow(
        &self,
        name: Name,
        ticks: u64,
        handle: Option<&Handle<K>>,
    ) -> Result<(), RenewError> {
        let done = self.try_renew(name, ticks, handle);
        let event = if done.is_ok() { Event::Renewal } else { Event::Stale };
        if !matches!(done, Err(RenewError::Closing { .. })) {
            self.stats.add(event, 1);
        }
        done
    }

    fn try_renew(
        &self,
        name: Name,
        ticks: u64,
        handle: Option<&Handle<K>>,
    ) -> Result<(), RenewError> {
        let (identity, stamp) = (name.identity(), name.stamp());
        let pinned = pinned::pin();
        let shard = self.shard(name.hash);
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            let found = shard.find_identity(name.hash, identity, &ctx).ok_or(Lost::Gone)?;
            let Found { page, index, word } = found;
            let slot = page.slot(index);
            let time = page.time(now);
            let deadline = time.saturating_add(ticks);
            if deadline > TICK_MAX - TICK_SLACK {
                shard.settle(page, &ctx, false);
                continue;
            }
            match word.renew(stamp, time, deadline) {
                Renew::To(next) => {
                    page.raise_top(deadline);
                    if slot.transition(word, next).is_ok() {
                        Self::tell_late(slot, word, name);
                        if let Some(handle) = handle {
                            handle.follow(&found, next, time);
                        }
                        return Ok(());
                    }
                }
                Renew::Unchanged => return Ok(()),
                Renew::Expire(next) => {
                    if slot.transition(word, next).is_ok() {
                        return Err(Lost::Expired.into());
                    }
                }
                Renew::Expired => return Err(Lost::Expired.into()),
                Renew::Closing => {
                    let remaining = self.rate.duration_floor(word.tick() - time);
                    return Err(RenewError::Closing { remaining });
                }
                Renew::Lost => return Err(Self::reason(slot, word, stamp).into()),
                Renew::Frozen => {}
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn release_slow(&self, name: Name, left: Option<(At<K>, Word)>) -> Result<(), Lost> {
        let done = self.try_release(name, left);
        match done {
            Ok(()) => self.stats.add(Event::Release, 1),
            Err(_) => self.stats.add(Event::Stale, 1),
        }
        done
    }

    /// A lease where its handle left it, if it is there, as it was but that somebody waits for it now.
    fn left_waited<'g>(
        &'g self,
        identity: u64,
        (at, word): (At<K>, Word),
        _pinned: &'g Pinned,
    ) -> Option<Found<'g, K>> {
        // SAFETY: handles are used with the table that made them, which `self` keeps.
        let (page, slot) = unsafe { at.get() };
        let word = word.waited();
        // If the word was the same before and after the page was found open, the page was in use in between; and
        // it stays the same page under this pin.
        let here = slot.word() == word
            && slot.identity() == identity
            && page.is_open()
            && slot.is_still(word);
        here.then(|| Found { page, index: at.index(), word })
    }

    fn try_release(&self, name: Name, left: Option<(At<K>, Word)>) -> Result<(), Lost> {
        let (identity, stamp) = (name.identity(), name.stamp());
        let shard = self.shard(name.hash);
        let pinned = pinned::pin();
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            let found = left.and_then(|left| self.left_waited(identity, left, &pinned));
            let found = found.or_else(|| shard.find_identity(name.hash, identity, &ctx));
            let found = found.ok_or(Lost::Gone)?;
            let Found { page, index, word } = found;
            let slot = page.slot(index);
            if word.stamp() != stamp || !word.is_leased() {
                return Err(Self::reason(slot, word, stamp));
            }
            let expired = word.state() == State::Expired;
            let cause = if expired { Cause::Lapsed } else { Cause::Released };
            if word.is_waited() {
                let Ok(passed) = shard.pass_on(&found, Ending::Lease(cause), &ctx) else {
                    continue;
                };
                let done = self.released(expired);
                passed.tell(&ctx);
                return done;
            }
            let report = ctx.report(page, index, word, EndCause::of(cause));
            let since = page.time(now).min(word.tick());
            if slot.transition(word, word.end(since, cause)).is_ok() {
                if let Some(ended) = report {
                    self.events.tell(ended, now, &pinned);
                }
                return self.released(expired);
            }
        }
    }

    fn released(&self, expired: bool) -> Result<(), Lost> {
        if expired {
            self.stats.add(Event::Lapse, 1);
            return Err(Lost::Expired);
        }
        Ok(())
    }

    /// Tells who holds the lease, if its page was replaced while that was being told.
    fn tell_late(slot: &Slot<K>, word: Word, name: Name) {
        if !slot.is_told(word) {
            slot.tell_copy(name.stamp(), name.holder);
        }
    }

    /// Why the lease of `stamp` is no longer in its slot.
    fn reason(slot: &Slot<K>, word: Word, stamp: u64) -> Lost {
        if word.is_dead() && stamp != word.stamp() {
            // Buried for somebody who asked for it since.
            return Lost::Taken { holder: None, token: None };
        }
        if word.stamp() == stamp {
            return match word.cause() {
                Cause::Released => Lost::Released,
                Cause::Lapsed => Lost::Expired,
                Cause::Revoked => Lost::Revoked,
                Cause::Superseded => Lost::Taken { holder: slot.holder_of(stamp), token: None },
            };
        }
        Lost::Taken {
            holder: slot.holder_of(word.stamp()),
            token: Some(slot::token(slot.identity(), word.stamp())),
        }
    }
}
