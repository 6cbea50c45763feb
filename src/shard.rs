//! A shard: a directory, its pages' memory, and the counter from which its incarnations come.

use core::borrow::Borrow;
use core::hash::BuildHasher;

use crossbeam_utils::CachePadded;

use crate::arena::{Arena, Epochs};
use crate::clock::Clock;
use crate::directory::{DEPTH_MAX, Directory};
use crate::events::hub::Hub;
use crate::events::{EndCause, Ended};
use crate::expiry::due::Filings;
use crate::expiry::gap::GapWatch;
use crate::granted::Stride;
use crate::hash::Hash;
use crate::page::Page;
use crate::pinned::Pinned;
use crate::place::Place;
use crate::room::{Reservation, Room};
use crate::stats::Striped;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::sync::std_arc::Arc;
use crate::wait::Waits;
use crate::word::{INCARNATION_MAX, TICK_MAX, TICK_SLACK, Word};

/// A directory may be this many times (as a power of two) larger than the number of its pages: room
/// for hashes that lie unevenly, and a bound on what keys with equal hashes cost.
const DEPTH_SLACK: u32 = 8;

/// What of the builder's settings the table's inner parts use, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) shard_bits: u32,
    pub(crate) term_max: u64,
    pub(crate) retention: u64,
    /// See [`Epochs`].
    pub(crate) reach: u64,
}

/// What an operation has at hand.
pub(crate) struct Ctx<'a, K, S> {
    pub(crate) hasher: &'a S,
    pub(crate) limits: &'a Limits,
    pub(crate) room: &'a Room,
    pub(crate) stats: &'a Striped,
    pub(crate) events: &'a Hub<K>,
    pub(crate) gaps: &'a GapWatch,
    pub(crate) pinned: &'a Pinned,
    pub(crate) clock: &'a dyn Clock,
    /// The clock, read during this operation.
    pub(crate) now: u64,
}

impl<K, S> Clone for Ctx<'_, K, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, S> Copy for Ctx<'_, K, S> {}

impl<K, S> Ctx<'_, K, S> {
    /// The same, as of now: no earlier than it was.
    pub(crate) fn anew(&self) -> Self {
        Self { now: self.clock.now().max(self.now), ..*self }
    }

    /// For how long the lapsed lease in a word can be taken over by its own holder only, in ticks; 0 if by
    /// anybody.
    pub(crate) fn takeover_waits(&self, page: &Page<K>, word: Word) -> u64 {
        self.gaps.takeover_waits(page.clock_tick(word.tick()), self.now)
    }

    /// What is told of the end of the lease in a word: before the exchange that ends it.
    pub(crate) fn report(
        &self,
        page: &Page<K>,
        index: usize,
        word: Word,
        cause: EndCause,
    ) -> Option<Ended<K>>
    where
        K: Clone,
    {
        self.events.report(page, index, word, cause, self.now, self.pinned)
    }

    pub(crate) fn epochs(&self) -> Epochs {
        let Limits { reach, term_max, .. } = *self.limits;
        Epochs { now: self.now, reach, term_max }
    }
}

/// Where a resource is, and the word that was found there.
pub(crate) struct Found<'g, K> {
    pub(crate) page: &'g Page<K>,
    pub(crate) index: usize,
    pub(crate) word: Word,
}

/// Why there is no slot for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// `capacity_max` resources are known.
    Full,
    /// Too many keys with one hash.
    Crowded,
    /// The incarnations are used up.
    Exhausted,
}

/// How an attempt to insert into a page ended.
enum Attempt<'g, K> {
    Found(Found<'g, K>),
    Frozen,
    PageFull,
    /// The page's base is too old for a word of the present tick.
    OutOfRange,
    No(NoSlot),
}

pub(crate) struct Shard<K> {
    pub(crate) directory: Directory<K>,
    pub(crate) arena: Arc<Arena<K>>,
    pub(crate) filings: Arc<Filings<K>>,
    /// The last incarnation that was given away.
    incarnations: AtomicU64,
    pages: AtomicU64,
    pub(crate) waits: Box<CachePadded<Waits<K>>>,
}

impl<K> Shard<K> {
    /// A shard with `1 << depth` pages.
    pub(crate) fn new(
        number: usize,
        depth: u32,
        epochs: Epochs,
        stride: Stride,
        filings: &Arc<Filings<K>>,
        stripes: &Striped,
        pinned: &Guard,
    ) -> Self {
        let arena = Arc::new(Arena::new(stride));
        let pages = 1_usize << depth;
        let fresh = (0..pages).map(|i| {
            let prefix = (i as u64) << 1 << (63 - depth);
            let page = arena.take(epochs, Place::new(number, prefix, depth), stripes, pinned);
            page.page().open(filings);
            page.into_page().as_ptr()
        });
        Self {
            directory: Directory::new(fresh),
            arena: arena.clone(),
            filings: filings.clone(),
            incarnations: AtomicU64::new(0),
            pages: AtomicU64::new(pages as u64),
            waits: Box::default(),
        }
    }

    pub(crate) fn add_pages(&self, more: u64) {
        // Relaxed: it sizes the limit below, no more.
        self.pages.fetch_add(more, Ordering::Relaxed);
    }

    /// How deep a page may lie.
    pub(crate) fn depth_limit(&self) -> u32 {
        // Relaxed: a limit that is a little late does no harm.
        let pages = self.pages.load(Ordering::Relaxed);
        (pages.ilog2() + DEPTH_SLACK).min(DEPTH_MAX)
    }

    /// The next incarnation: larger than that of every key that was announced before the call (invariant
    /// P9).
    fn incarnation(&self) -> Option<u64> {
        // Relaxed: a key announced before was seen through its page's `insert` word, whose Release and
        // Acquire order that key's draw before this one; and a counter's draws follow its order.
        let last = self.incarnations.load(Ordering::Relaxed);
        if last >= INCARNATION_MAX {
            return None;
        }
        let next = self.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        // Threads that drew at once at the very end: an error, not a wrap; the counter is 64 bits.
        (next <= INCARNATION_MAX).then_some(next)
    }

    #[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
    pub(crate) fn set_incarnations(&self, last: u64) {
        // Relaxed: the test has only one thread.
        self.incarnations.store(last, Ordering::Relaxed);
    }

    /// The page of a hash, which may have been replaced.
    #[inline]
    pub(crate) fn page<'g>(&self, hash: Hash, limits: &Limits, pinned: &'g Guard) -> &'g Page<K> {
        self.directory.page(hash.below_shard(limits.shard_bits), pinned)
    }

    /// The slot with this identity, in a page that is not being replaced. `None`: it is no more.
    #[cold]
    pub(crate) fn find_identity<'g, S>(
        &self,
        hash: Hash,
        identity: u64,
        ctx: &Ctx<'g, K, S>,
    ) -> Option<Found<'g, K>>
    where
        K: std::hash::Hash + Clone + 'static,
        S: BuildHasher,
    {
        loop {
            let page = self.page(hash, ctx.limits, ctx.pinned);
            match page.search_identity(hash, identity) {
                Some((index, word)) if !word.is_frozen() => {
                    return Some(Found { page, index, word });
                }
                None if !page.insertion().is_frozen() => return None,
                _ => self.settle(page, ctx, false),
            }
        }
    }
}

impl<K> Shard<K>
where
    K: std::hash::Hash + Eq + Clone + 'static,
{
    /// The slot of a key, in a page that is not being replaced. `None`: it has none.
    pub(crate) fn find<'g, Q, S>(
        &self,
        hash: Hash,
        key: &Q,
        ctx: &Ctx<'g, K, S>,
    ) -> Option<Found<'g, K>>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
        S: BuildHasher,
    {
        loop {
            let page = self.page(hash, ctx.limits, ctx.pinned);
            match page.search(hash, key, ctx.pinned) {
                Some((index, word)) if !word.is_frozen() => {
                    return Some(Found { page, index, word });
                }
                None if !page.insertion().is_frozen() => return None,
                _ => self.settle(page, ctx, false),
            }
        }
    }

    /// The slot of a key, which is put into one if it has none.
    #[cold]
    pub(crate) fn find_or_insert<'g, Q, S>(
        &self,
        hash: Hash,
        key: &Q,
        ctx: &Ctx<'g, K, S>,
    ) -> Result<Found<'g, K>, NoSlot>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
        S: BuildHasher,
    {
        loop {
            let page = self.page(hash, ctx.limits, ctx.pinned);
            match self.insert_into(page, hash, key, ctx) {
                Attempt::Found(found) => return Ok(found),
                Attempt::No(why) => return Err(why),
                Attempt::Frozen | Attempt::OutOfRange => self.settle(page, ctx, false),
                Attempt::PageFull if self.can_replace(page, ctx) => self.settle(page, ctx, false),
                Attempt::PageFull => return Err(NoSlot::Crowded),
            }
        }
    }

    /// Sees to it that a new resource is looked at when it has been idle for long.
    fn file_idle<S>(&self, page: &Page<K>, ctx: &Ctx<'_, K, S>) {
        let tick = page.time(ctx.now) + 2 * ctx.limits.retention + 1;
        if page.due.is_after(tick) {
            self.filings.file(page, tick);
        }
    }

    /// The five steps of an insertion; see `docs/protocol.md`.
    fn insert_into<'g, Q, S>(
        &self,
        page: &'g Page<K>,
        hash: Hash,
        key: &Q,
        ctx: &Ctx<'g, K, S>,
    ) -> Attempt<'g, K>
    where
        K: Borrow<Q>,
        Q: Eq + ToOwned<Owned = K> + ?Sized,
        S: BuildHasher,
    {
        let mut claim: Option<Claim<'_, K>> = None;
        loop {
            let seen = page.insertion();
            if seen.is_frozen() {
                return Attempt::Frozen;
            }
            if let Some((index, word)) = page.search(hash, key, ctx.pinned) {
                if word.is_frozen() {
                    return Attempt::Frozen;
                }
                return Attempt::Found(Found { page, index, word });
            }
            if page.time(ctx.now) > TICK_MAX - TICK_SLACK {
                return Attempt::OutOfRange;
            }
            // Drawn anew at each try, after `seen` was read: so it is larger than that of any earlier
            // life of this key, which was announced before `seen`.
            let Some(incarnation) = self.incarnation() else {
                return Attempt::No(NoSlot::Exhausted);
            };
            let identity = hash.identity(incarnation);
            // After the search, by which a slot of this key that was buried was found buried.
            let waited = self.waits.has_orphans();
            let claimed = match claim.take() {
                Some(claimed) => claimed.again(identity, waited),
                None => {
                    let Some(reserved) = ctx.room.reserve() else {
                        return Attempt::No(NoSlot::Full);
                    };
                    let owned = key.to_owned();
                    match Claim::new(page, (hash, waited), identity, owned, reserved, ctx) {
                        Some(claimed) => claimed,
                        None => return Attempt::PageFull,
                    }
                }
            };
            if page.announce(seen, claimed.index) {
                let index = claimed.announced();
                self.file_idle(page, ctx);
                return Attempt::Found(Found { page, index, word: page.slot(index).word() });
            }
            claim = Some(claimed);
        }
    }
}

impl<K> Drop for Shard<K> {
    fn drop(&mut self) {
        // SAFETY: a shard goes with its table: no operation is under way or will come.
        unsafe { self.arena.drop_all_keys() };
    }
}

/// A claimed slot with a key in it. Dropped, it gives back the slot.
struct Claim<'g, K> {
    page: &'g Page<K>,
    index: usize,
    reserved: Reservation<'g>,
}

impl<'g, K: 'static> Claim<'g, K> {
    fn new<S>(
        page: &'g Page<K>,
        (hash, waited): (Hash, bool),
        identity: u64,
        key: K,
        reserved: Reservation<'g>,
        ctx: &Ctx<'g, K, S>,
    ) -> Option<Self> {
        let index = page.claim(hash, page.time(ctx.now), waited)?;
        // SAFETY: just claimed, and a free slot has no key.
        unsafe { page.slot(index).write_key(identity, key) };
        Some(Self { page, index, reserved })
    }

    /// The same slot and key for another try.
    fn again(self, identity: u64, waited: bool) -> Self {
        let slot = self.page.slot(self.index);
        slot.write_identity(identity);
        if waited {
            slot.claim_as_waited();
        }
        self
    }

    fn announced(self) -> usize {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe { core::ptr::read(&raw const this.reserved) }.keep();
        this.index
    }
}

impl<K> Drop for Claim<'_, K> {
    fn drop(&mut self) {
        let slot = self.page.slot(self.index);
        // SAFETY: claimed and not announced, so the key is this claim's; it is not used again.
        let key = unsafe { slot.take_key() };
        slot.unclaim();
        // Last, as it may panic.
        drop(key);
    }
}
