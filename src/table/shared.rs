//! What every handle of a table shares, and the operations by key.

use core::borrow::Borrow;
use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::HashMap;

use crossbeam_utils::CachePadded;

use super::Key;
use super::handle::{Handle, Name};
use crate::at::At;
use crate::clock::{Clock, TickRate};
use crate::directory::Entry;
use crate::error::{AcquireError, Held, RenewError};
use crate::events::hub::Hub;
use crate::expiry::driver::{Driver, Stop};
use crate::expiry::due::Filings;
use crate::expiry::gap::GapWatch;
use crate::expiry::sweep::Sweeper;
use crate::granted;
use crate::hash::Hash;
use crate::id::{HolderId, TableId};
use crate::page::Page;
use crate::pinned::{self, Pinned};
use crate::room::Room;
use crate::shard::{Ctx, Found, Limits, NoSlot, Shard};
use crate::slot::{self, Slot};
use crate::stats::{Event, Striped};
use crate::sync::std_arc::Arc;
use crate::sync::std_atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::wait::timers::Timers;
use crate::word::{State, TICK_MAX, TICK_SLACK, Word};

pub(crate) struct Core<K, S, C> {
    pub(crate) clock: C,
    pub(crate) rate: TickRate,
    pub(crate) hasher: S,
    pub(crate) limits: Limits,
    pub(super) room: Room,
    pub(crate) stats: Striped,
    pub(crate) shards: Box<[CachePadded<Shard<K>>]>,
    pub(crate) events: Hub<K>,
    pub(crate) filings: Arc<Filings<K>>,
    pub(crate) gaps: GapWatch,
    /// What the sweeper knows; taken out while somebody sweeps, so that nothing runs under the lock.
    pub(crate) sweeper: Mutex<Option<Box<Sweeper<K>>>>,
    /// How late a sweep may be.
    pub(crate) interval_ticks: u64,
    /// How long the sweeper's thread sleeps at most.
    pub(crate) nap_ticks: u64,
    /// Wakes the sweeper's thread when the table goes.
    pub(super) _stop: Stop,
    pub(super) id: TableId,
    pub(super) labels: RwLock<HashMap<HolderId, Arc<str>>>,
    pub(super) term_max: Duration,
    /// Terms of fewer ticks, but for none, are granted without further checks: `term_max` in ticks, less one; 0
    /// once the table is closed.
    pub(super) gate: AtomicU64,
    pub(super) closed: AtomicBool,
    pub(crate) driver: Driver,
    pub(crate) timers: Timers,
    pub(super) capacity_max: usize,
}

/// Who asks, for how many ticks, as of when.
#[derive(Clone, Copy)]
pub(crate) struct Want {
    pub(crate) holder: HolderId,
    pub(crate) ticks: u64,
    pub(crate) now: u64,
}

/// A grant that was won.
#[derive(Clone, Copy)]
pub(crate) struct Won {
    /// The word that won it, without the waited bit.
    pub(crate) granted: Word,
    /// The page's time at the grant.
    pub(crate) since: u64,
}

/// A slot that was found, and where.
pub(super) struct Place<'a, K> {
    pub(super) page: &'a Page<K>,
    pub(super) slot: &'a Slot<K>,
    pub(super) index: usize,
}

impl<K> Clone for Place<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Place<'_, K> {}

impl<K, S, C> Core<K, S, C> {
    #[inline]
    pub(crate) fn shard(&self, hash: Hash) -> &Shard<K> {
        &self.shards[hash.shard(self.limits.shard_bits)]
    }

    pub(crate) fn ctx<'a>(&'a self, now: u64, pinned: &'a Pinned) -> Ctx<'a, K, S>
    where
        C: Clock,
    {
        let Self { hasher, limits, room, stats, events, gaps, clock, .. } = self;
        Ctx { hasher, limits, room, stats, events, gaps, pinned, clock, now }
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// A term in ticks: rounded down, so that a holder never counts on more than the table.
    #[inline]
    pub(crate) fn term_ticks(&self, term: Duration) -> Result<u64, AcquireError> {
        let ticks = self.rate.ticks_floor(term);
        // Relaxed: whoever knows that the table was closed finds it closed; no other order matters.
        if ticks.wrapping_sub(1) >= self.gate.load(Ordering::Relaxed) {
            self.check_term_and_closed(term)?;
        }
        Ok(ticks)
    }

    /// For a term that is very short, or very long, or comes after the table was closed.
    #[cold]
    #[inline(never)]
    fn check_term_and_closed(&self, term: Duration) -> Result<(), AcquireError> {
        self.check_term(term)?;
        if self.is_closed() { Err(AcquireError::Closed) } else { Ok(()) }
    }

    /// The bound is on the term itself: one above the longest may be as many whole ticks.
    fn check_term(&self, term: Duration) -> Result<(), AcquireError> {
        if self.rate.ticks_floor(term) == 0 {
            return Err(AcquireError::TermZero);
        }
        if term > self.term_max {
            return Err(AcquireError::TermTooLong { requested: term, max: self.term_max });
        }
        Ok(())
    }

    /// As [`term_ticks`](Self::term_ticks). Leases are renewed also when the table is closed.
    #[inline(always)]
    pub(super) fn renewal_ticks(&self, term: Duration) -> Result<u64, RenewError> {
        self.term_ticks(term).or_else(|_| self.renewal_ticks_slow(term))
    }

    #[cold]
    #[inline(never)]
    fn renewal_ticks_slow(&self, term: Duration) -> Result<u64, RenewError> {
        match self.check_term(term) {
            Ok(()) => Ok(self.rate.ticks_floor(term)),
            Err(AcquireError::TermTooLong { requested, max }) => {
                Err(RenewError::TermTooLong { requested, max })
            }
            Err(_) => Err(RenewError::TermZero),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: as in `term_ticks`.
        self.closed.load(Ordering::Relaxed)
    }

    /// Grants nothing from now on, and sends away those who wait.
    pub(crate) fn close(&self) {
        // Relaxed, both: as in `term_ticks`. Who finds the gate shut before it is closed is before it.
        self.closed.store(true, Ordering::Relaxed);
        self.gate.store(0, Ordering::Relaxed);
        self.shards.iter().for_each(|shard| shard.waits.close());
    }

    /// Grants a resource by key.
    ///
    /// The fast paths' handle is made in registers, and the slow paths make the whole result: so
    /// neither is copied on its way out, which cost as much as the exchange.
    #[inline(always)]
    pub(crate) fn acquire<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> Result<Handle<K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let hash = Hash::of(&self.hasher, key);
        let entry = self.shard(hash).directory.entry(hash.below_shard(self.limits.shard_bits));
        entry.prefetch(hash);
        let ticks = self.term_ticks(term)?;
        let mut now = None;
        if Slot::<K>::can_peek() {
            let now = *now.insert(self.clock.now());
            let want = Want { holder, ticks, now };
            let page = entry.peek();
            if let Some((index, word)) = page.peek(hash, key) {
                let place = Place { page, slot: page.slot(index), index };
                if word.state() == State::Vacant {
                    if let Some(handle) = self.grant_peeked(place, word, hash, want) {
                        return Ok(handle);
                    }
                } else if let Some(held) = self.refuse_peeked(place, word, want) {
                    return Err(AcquireError::Held(held));
                }
            }
        }
        self.acquire_pinned(entry, hash, key, holder, ticks, now)
    }

    /// Grants a vacant slot that was found without a pin.
    ///
    /// What was read of it counts if the page was in use, and its word stayed the same: the exchange
    /// finds out, since no word's value comes back, and a draft's time is beyond every tick. The
    /// announcement keeps the page from another life between the exchange and telling who won.
    #[inline(always)]
    pub(super) fn grant_peeked(
        &self,
        place: Place<'_, K>,
        word: Word,
        hash: Hash,
        want: Want,
    ) -> Option<Handle<K>> {
        let stripe = self.stats.mine()?;
        stripe.announce(place.page);
        let won = self.grant_vacant(place, word, want);
        let handle = won.map(|won| {
            stripe.add(Event::Grant, 1);
            self.handle(place, hash, won, want)
        });
        stripe.withdraw();
        handle
    }

    /// Refuses a slot that was found without a pin, if somebody else holds it. A second look at the
    /// word finds out whether what was read counts. A draft's time is beyond every deadline.
    #[inline(always)]
    pub(super) fn refuse_peeked(
        &self,
        place: Place<'_, K>,
        word: Word,
        want: Want,
    ) -> Option<Held> {
        let Place { page, slot, .. } = place;
        let time = page.time(want.now);
        let by = slot.holder_of(word.stamp());
        if !word.is_held_at(time) || by == Some(want.holder) {
            return None;
        }
        let held = self.held_by(by, slot, word, word.tick() + 1 - time);
        slot.is_still(word).then(|| {
            self.stats.add(Event::Refusal, 1);
            held
        })
    }

    /// Grants a resource by key, under a pin. Its arguments come one by one, so that they stay in registers
    /// on the way that does not come here.
    #[inline(never)]
    fn acquire_pinned<Q>(
        &self,
        entry: Entry<'_, K>,
        hash: Hash,
        key: &Q,
        holder: HolderId,
        ticks: u64,
        now: Option<u64>,
    ) -> Result<Handle<K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let pinned = pinned::pin();
        let page = entry.page(&pinned);
        let page = page.unwrap_or_else(|| self.shard(hash).page(hash, &self.limits, &pinned));
        let found = page.search(hash, key, &pinned);
        // The term counts from the grant, not from before keys were compared; integers take no time.
        let now = now.unwrap_or_else(|| self.clock.now());
        let want = Want { holder, ticks, now };
        if let Some((index, word)) = found {
            let place = Place { page, slot: page.slot(index), index };
            if let Some(won) = self.grant_vacant(place, word, want) {
                self.stats.add(Event::Grant, 1);
                return Ok(self.handle(place, hash, won, want));
            }
            let found = Found { page, index, word };
            return self.acquire_found(&found, hash, key, want, &pinned);
        }
        self.acquire_slow(hash, key, want, &pinned)
    }

    /// The fast path: the slot is vacant, and nobody is faster. One attempt, which succeeds only if the
    /// page was in use all the while: a draft's time is beyond every deadline.
    #[inline(always)]
    pub(super) fn grant_vacant(&self, place: Place<'_, K>, word: Word, want: Want) -> Option<Won> {
        let Place { page, slot, .. } = place;
        if !slot.is_told(word) {
            return None;
        }
        let since = page.time(want.now);
        // Below 2^63 each.
        let deadline = since + want.ticks;
        if deadline > TICK_MAX - TICK_SLACK {
            return None;
        }
        let granted = word.grant_vacant(deadline)?;
        page.raise_top(deadline);
        slot.transition(word, granted).ok()?;
        self.see_to(page, deadline);
        Some(Won { granted, since })
    }

    /// The handle of a grant that was won; tells who won it.
    #[inline(always)]
    pub(super) fn handle(
        &self,
        place: Place<'_, K>,
        hash: Hash,
        won: Won,
        want: Want,
    ) -> Handle<K> {
        let Place { page, slot, index } = place;
        let stamp = won.granted.stamp();
        if self.events.is_on() {
            // SAFETY: ends are told of, so pages are timed; this is the winner, pinned or announced.
            unsafe { granted::note(page, index, want.now) };
        }
        let token = slot::token(slot.identity(), stamp);
        let name = Name { hash, token, holder: want.holder };
        if !slot.tell(stamp, want.holder) {
            self.tell_copy(name, want.now);
        }
        Handle::new(At::new(page, index), name, won)
    }

    /// Goes on from a slot that is not simply vacant.
    #[inline(never)]
    pub(super) fn acquire_found<Q>(
        &self,
        found: &Found<'_, K>,
        hash: Hash,
        key: &Q,
        want: Want,
        pinned: &Pinned,
    ) -> Result<Handle<K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.grant(found, hash, want, pinned) {
            Some(done) => done,
            None => self.acquire_slow(hash, key, want, pinned),
        }
    }

    /// Inserts, replaces pages and goes on to other slots until there is an answer.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire_slow<Q>(
        &self,
        hash: Hash,
        key: &Q,
        mut want: Want,
        pinned: &Pinned,
    ) -> Result<Handle<K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            let found = self.find_or_insert(hash, key, &self.ctx(self.clock.now(), pinned))?;
            // The term counts from the grant, not from before a page was replaced or a key was cloned.
            want.now = self.clock.now();
            if let Some(done) = self.grant(&found, hash, want, pinned) {
                return done;
            }
        }
    }

    pub(crate) fn find_or_insert<'g, Q>(
        &self,
        hash: Hash,
        key: &Q,
        ctx: &Ctx<'g, K, S>,
    ) -> Result<Found<'g, K>, AcquireError>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            match self.shard(hash).find_or_insert(hash, key, ctx) {
                Ok(found) => return Ok(found),
                Err(NoSlot::Crowded) => return Err(AcquireError::Crowded),
                Err(NoSlot::Exhausted) => return Err(AcquireError::Exhausted),
                Err(NoSlot::Full) if self.make_room(hash, ctx) => {}
                Err(NoSlot::Full) => {
                    return Err(AcquireError::Full { capacity_max: self.capacity_max });
                }
            }
        }
    }

    /// Leaves the idle resources of one page behind, however lately they were used; the page of this
    /// hash first. `false` if nothing is idle.
    #[cold]
    fn make_room(&self, hash: Hash, ctx: &Ctx<'_, K, S>) -> bool {
        let settle = |shard: &Shard<K>, page: &Page<K>| {
            self.end_waited(shard, page, ctx);
            let is_idle = |word: Word| {
                let over = word.is_leased() && self.can_take_over(page, word, ctx.now);
                word.state() == State::Vacant || over && !word.is_waited()
            };
            let idle = page.slots().iter().map(Slot::word).any(is_idle);
            if idle {
                shard.settle(page, ctx, true);
            }
            idle
        };
        let first = self.shard(hash);
        settle(first, first.page(hash, &self.limits, ctx.pinned))
            || self.shards.iter().any(|shard| {
                let mut pages = shard.pages_from(0, ctx.pinned);
                pages.any(|page| settle(shard, page))
            })
    }
}
