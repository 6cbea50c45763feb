//! A page: a header line and an open-addressed array of slots. The unit of insertion, growth and
//! memory.
//!
//! Within one life of a page a slot goes `Free → Claimed → Vacant ⇄ leased`, and never gets another
//! key: what is no longer wanted is left behind when the page is replaced. The time of a page's words
//! counts from its `base`, and starts at its `floor`: above every tick of its earlier lives, so that
//! no word's value ever comes back (invariant P2). Invariants are numbered in `docs/protocol.md`.

use core::borrow::Borrow;
use core::ptr;

use crate::expiry::due::{Due, Filings};
use crate::hash::Hash;
use crate::insert::Insert;
use crate::place::Place;
use crate::slot::Slot;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::Guard;
use crate::word::{TICK_MAX, Word};

/// Slots of a page: with a `u64` key and the header they fill 2 KiB. Tiny in models and in the stress
/// build, so that pages are replaced all the time.
pub(crate) const SLOTS: usize = if cfg!(any(leasehold_loom, leasehold_shuttle)) {
    2
} else if cfg!(leasehold_tiny) {
    6
} else {
    62
};
/// Marks, in `floor`, a page that is being filled and may yet be thrown away. It makes the page's time
/// later than any tick, so that whoever finds a copy of a lease there lets go of it (invariant P7).
const DRAFT: u64 = 1 << 62;
/// `top` is raised in steps of this many ticks, so that a grant seldom writes to the header.
const TOP_STEP: u64 = 1 << 20;

const _: () = assert!(SLOTS.is_multiple_of(2) && SLOTS < 64, "slot indices fit the six low bits");

/// The header fills a cache line, and pages are aligned to one.
#[repr(C, align(64))]
pub(crate) struct Page<K> {
    insert: AtomicU64,
    base: AtomicU64,
    floor: AtomicU64,
    /// No word of any life had a tick above it, but for how a lease ended. Raised before the word is
    /// (invariant P10).
    top: AtomicU64,
    /// What comes after the page, once it was replaced. While it is in the arena's stack of pages that may
    /// be used again: the next one there.
    successor: AtomicPtr<Successors<K>>,
    /// The hashes it is for: [`Place::bits`].
    place: AtomicU64,
    /// When the sweeper must next look at it.
    pub(crate) due: Due,
    /// The next page in the stack of those that are to be filed with the sweeper.
    pub(crate) filed: AtomicPtr<Page<K>>,
    slots: [Slot<K>; SLOTS],
}

/// What comes after a page: one page of the same hashes, or one for each half.
pub(crate) struct Successors<K> {
    pub(crate) low: *const Page<K>,
    pub(crate) high: *const Page<K>,
}

impl<K> Page<K> {
    /// A page of no life yet: all zero.
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn new() -> Self {
        Self {
            insert: AtomicU64::new(0),
            base: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            top: AtomicU64::new(0),
            successor: AtomicPtr::new(ptr::null_mut()),
            place: AtomicU64::new(0),
            due: Due::new(),
            filed: AtomicPtr::new(ptr::null_mut()),
            slots: core::array::from_fn(|_| Slot::new()),
        }
    }

    #[inline]
    pub(crate) fn slot(&self, index: usize) -> &Slot<K> {
        &self.slots[index]
    }

    /// As [`slot`](Self::slot), for an index that comes from an `At`.
    ///
    /// # Safety
    ///
    /// It is below [`SLOTS`].
    #[inline(always)]
    pub(crate) unsafe fn slot_at(&self, index: usize) -> &Slot<K> {
        debug_assert!(index < SLOTS);
        // SAFETY: by the contract.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// Where in a page a slot is, in bytes.
    #[inline(always)]
    pub(crate) const fn offset_of(index: usize) -> usize {
        core::mem::offset_of!(Self, slots) + index * size_of::<Slot<K>>()
    }

    pub(crate) fn slots(&self) -> &[Slot<K>] {
        &self.slots
    }

    // ---- time ----------------------------------------------------------------------------------

    /// The page's time at a tick of the clock. Never below the floor, whatever the clock does; beyond
    /// every tick while the page is a draft.
    #[inline]
    pub(crate) fn time(&self, now: u64) -> u64 {
        // Acquire, both: a stale handle re-reads the word after them (invariant P4).
        let base = self.base.load(Ordering::Acquire);
        let floor = self.floor.load(Ordering::Acquire);
        // A clock that stepped back behind the floor is held there.
        let ahead = now.wrapping_sub(base).cast_signed();
        ahead.max(floor.cast_signed()).cast_unsigned()
    }

    /// The time of a draft, for whoever fills it.
    pub(crate) fn draft_time(&self, now: u64) -> u64 {
        // Relaxed, both: the page is private.
        let floor = self.floor.load(Ordering::Relaxed) & !DRAFT;
        let ahead = now.wrapping_sub(self.base.load(Ordering::Relaxed)).cast_signed();
        ahead.max(floor.cast_signed()).cast_unsigned()
    }

    /// Whether the page was published. Looked at after the word.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // Acquire: a re-read of the word comes after it.
        self.floor.load(Ordering::Acquire) & DRAFT == 0
    }

    /// Makes a draft a page: by whoever leads others to it, once it is published. Under the pin by
    /// which it was found, so that it is not yet another life's draft.
    ///
    /// Filed before it is opened, and so by somebody, whoever is suspended.
    pub(crate) fn open(&self, filings: &Filings<K>) {
        // Relaxed: the exchange below decides.
        if self.floor.load(Ordering::Relaxed) & DRAFT != 0 {
            filings.file_draft(self);
            // Release: a handle that finds it open finds what the draft was filled with.
            self.floor.fetch_and(!DRAFT, Ordering::Release);
        }
    }

    /// The clock's tick at a tick of the page.
    #[inline]
    pub(crate) fn clock_tick(&self, tick: u64) -> u64 {
        // Acquire: as in `time`, though only pages that cannot begin another life are asked.
        self.base.load(Ordering::Acquire).wrapping_add(tick)
    }

    /// `tick`, but within this life of the page, and no later than `latest`; `None` for a draft. Looked at
    /// after the word, and before an exchange on it.
    #[inline(always)]
    pub(crate) fn clamp(&self, tick: u64, latest: u64) -> Option<u64> {
        // Acquire: whoever finds another life's floor finds that its words were stored, too.
        let floor = self.floor.load(Ordering::Acquire);
        (floor & DRAFT == 0).then(|| tick.max(floor).min(latest))
    }

    /// Makes `top` no less than `tick`, before a word takes that tick.
    #[inline]
    pub(crate) fn raise_top(&self, tick: u64) {
        // Relaxed, both: whoever gives the page its next life reads `top` after it read, with
        // Acquire, the frozen words that were stored after this.
        if tick > self.top.load(Ordering::Relaxed) {
            self.top.fetch_max((tick | (TOP_STEP - 1)).min(TICK_MAX), Ordering::Relaxed);
        }
    }

    pub(crate) fn top(&self) -> u64 {
        // Relaxed: the words that were stored after it was raised are seen before; see `raise_top`.
        self.top.load(Ordering::Relaxed)
    }

    /// Begins a life without keys, as a draft; the page is private, though stale handles still look.
    pub(crate) fn begin(&self, base: u64, floor: u64, place: Place) {
        // Release: a stale handle that reads one of these finds, in the word it reads next, that the
        // page's last life is over (invariant P4).
        self.base.store(base, Ordering::Release);
        self.floor.store(floor | DRAFT, Ordering::Release);
        // Relaxed, all: published by the Release of a successor or a directory entry.
        self.top.fetch_max(floor + crate::word::TICK_SLACK, Ordering::Relaxed);
        self.insert.store(0, Ordering::Relaxed);
        self.place.store(place.bits(), Ordering::Relaxed);
        self.successor.store(ptr::null_mut(), Ordering::Relaxed);
        self.due.begin();
        for slot in &self.slots {
            slot.reset(floor);
        }
    }

    /// Lets the next life start from tick 0, after the page rested for a whole range of ticks.
    pub(crate) fn restart(&self) {
        // Relaxed: the page is private.
        self.top.store(0, Ordering::Relaxed);
    }

    pub(crate) fn place(&self) -> Place {
        // Relaxed: written before the page was published, and constant from then on.
        Place::from_bits(self.place.load(Ordering::Relaxed))
    }

    // ---- search --------------------------------------------------------------------------------

    /// The slots in the order in which a hash is searched: from its home line on.
    #[inline(always)]
    fn probe(&self, hash: Hash) -> impl Iterator<Item = (usize, &Slot<K>)> {
        let home = hash.home();
        let mut next = home;
        let mut left = SLOTS;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let index = next;
            next = if index + 1 == SLOTS { 0 } else { index + 1 };
            Some((index, &self.slots[index]))
        })
    }

    /// Where the living resource of `key` is, with the word found there.
    ///
    /// A miss means that it was not there at some time during the search. Dead slots do not count.
    #[inline(always)]
    pub(crate) fn search<Q>(&self, hash: Hash, key: &Q, _pinned: &Guard) -> Option<(usize, Word)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        // SAFETY: `search_by` asks of published slots, and the caller is pinned.
        self.search_by(hash, |slot| unsafe { slot.with_key(|k| k.borrow() == key) })
    }

    /// As [`search`](Self::search), without a pin, for keys that can be peeked at. A hit counts only if
    /// the word is then found unchanged.
    #[inline(always)]
    pub(crate) fn peek<Q>(&self, hash: Hash, key: &Q) -> Option<(usize, Word)>
    where
        K: Borrow<Q> + 'static,
        Q: Eq + ?Sized,
    {
        // SAFETY: it is called only if keys can be peeked at.
        self.search_by(hash, |slot| unsafe { slot.peek_key() }.borrow() == key)
    }

    #[inline(always)]
    fn search_by(&self, hash: Hash, is_it: impl Fn(&Slot<K>) -> bool) -> Option<(usize, Word)> {
        for (index, slot) in self.probe(hash) {
            let identity = slot.identity();
            if hash.is_tag_of(identity) {
                let word = slot.word();
                if word.is_published() && !word.is_dead() && is_it(slot) {
                    return Some((index, word));
                }
            }
            if identity == 0 && slot.word().is_never() {
                return None;
            }
        }
        None
    }

    /// Where the slot of an identity is, dead or alive.
    pub(crate) fn search_identity(&self, hash: Hash, identity: u64) -> Option<(usize, Word)> {
        for (index, slot) in self.probe(hash) {
            let found = slot.identity();
            if found == identity {
                let word = slot.word();
                if word.is_published() {
                    return Some((index, word));
                }
            }
            if found == 0 && slot.word().is_never() {
                return None;
            }
        }
        None
    }

    /// The slot for a copy, in a private page that has room.
    pub(crate) fn first_never(&self, hash: Hash) -> (usize, &Slot<K>) {
        self.probe(hash)
            .find(|(_, slot)| slot.word().is_never())
            .expect("a page has room for its predecessor's keys")
    }

    // ---- insertion -----------------------------------------------------------------------------

    /// The state of insertion, with nothing announced: step 1.
    pub(crate) fn insertion(&self) -> Insert {
        loop {
            // Acquire: pairs with the Release of each announcement, so that the search that follows
            // finds what was inserted before.
            let insert = Insert(self.insert.load(Ordering::Acquire));
            match insert.announced() {
                Some(slot) => self.publish(insert, slot),
                None => return insert,
            }
        }
    }

    /// Claims the first free slot in the order of the hash's search; `None` if the page is full.
    pub(crate) fn claim(&self, hash: Hash, now: u64, waited: bool) -> Option<usize> {
        self.raise_top(now + crate::word::TICK_SLACK);
        self.probe(hash).find(|(_, slot)| slot.claim(now, waited)).map(|(index, _)| index)
    }

    /// Announces a claimed slot: here its insertion takes effect, if no other came since `seen`
    /// (invariant P5).
    pub(crate) fn announce(&self, seen: Insert, slot: usize) -> bool {
        let announced = seen.announce(slot);
        // AcqRel: Release hands over the key and the identity; Acquire, so that what was announced
        // before comes first for those who search after this one. Relaxed on failure: it is loaded
        // again.
        let done = self
            .insert
            .compare_exchange(seen.0, announced.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if done {
            self.publish(announced, slot);
        }
        done
    }

    /// Publishes what is announced. Any thread may do it.
    fn publish(&self, announced: Insert, slot: usize) {
        self.slots[slot].publish();
        // Release: whoever finds it cleared finds the slot published. Relaxed on failure: another
        // cleared it.
        let cleared = announced.clear();
        let _ = self.insert.compare_exchange(
            announced.0,
            cleared.0,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    // ---- replacement ---------------------------------------------------------------------------

    /// Freezes insertion and every word: the contents can no longer change (invariant P6). Any thread may
    /// do it.
    pub(crate) fn freeze(&self) {
        loop {
            let insert = self.insertion();
            if insert.is_frozen() {
                break;
            }
            // AcqRel: whoever finds it frozen goes to the successor; and what was inserted before is
            // seen by the copy. Relaxed on failure: it is loaded again.
            let frozen = insert.freeze().0;
            let done =
                self.insert.compare_exchange(insert.0, frozen, Ordering::AcqRel, Ordering::Relaxed);
            if done.is_ok() {
                break;
            }
        }
        for slot in &self.slots {
            slot.freeze();
        }
    }

    pub(crate) fn successors(&self, _pinned: &Guard) -> Option<&Successors<K>> {
        // Acquire: pairs with the Release in `succeed`: the successors' contents are seen.
        let successors = self.successor.load(Ordering::Acquire);
        // SAFETY: it is freed only when the page begins another life, which the pin keeps off.
        unsafe { successors.as_ref() }
    }

    /// Publishes the successors, unless somebody was first: then they come back.
    pub(crate) fn succeed(&self, successors: Box<Successors<K>>) -> Result<(), Box<Successors<K>>> {
        let raw = Box::into_raw(successors);
        // AcqRel: Release hands over the successors' contents, and the frozen words that the copy was
        // made from. Relaxed on failure: the winner's are loaded when they are needed.
        self.successor
            .compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
            // SAFETY: `raw` came from `Box::into_raw` and was not published.
            .map_err(|_| unsafe { Box::from_raw(raw) })
    }

    /// Frees the list of successors, at the end of a page's life; its memory is the link of the arena's stack
    /// from then on.
    ///
    /// # Safety
    ///
    /// No pin is left from when the page was reachable, and it is not in the stack.
    pub(crate) unsafe fn drop_successors(&self) {
        // Acquire: whoever published them is done.
        let raw = self.successor.swap(ptr::null_mut(), Ordering::Acquire);
        if !raw.is_null() {
            // SAFETY: it came from `Box::into_raw` in `succeed`, and by the contract nobody uses it.
            drop(unsafe { Box::from_raw(raw) });
        }
    }

    /// The next page in the arena's stack.
    pub(crate) fn next_ready(&self) -> *mut Self {
        // Relaxed: ordered by the load that found this page at the top, if it still is there.
        self.successor.load(Ordering::Relaxed).cast()
    }

    pub(crate) fn set_next_ready(&self, next: *mut Self) {
        // Relaxed: the exchange that puts this page at the top releases it.
        self.successor.store(next.cast(), Ordering::Relaxed);
    }

    /// Drops the keys of a life that is over. If one panics, the rest stay for another try.
    ///
    /// # Safety
    ///
    /// The page is private, and no pin is left from when it was not.
    pub(crate) unsafe fn drop_keys(&self) {
        if !core::mem::needs_drop::<K>() {
            return;
        }
        for slot in &self.slots {
            let word = slot.word();
            if word.is_published() {
                slot.forget_key(word);
                // SAFETY: published, so there is a key; the page is private; just marked as gone.
                drop(unsafe { slot.take_key() });
            }
        }
    }
}
