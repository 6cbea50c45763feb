//! A slot: the word, who holds it, which resource it is, and the key. Every compare-exchange on a
//! word is here, one function a transition.

use crate::id::{HolderId, Token};
use crate::key_cell::KeyCell;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::word::{self, State, Word};

/// 24 bytes and the key. Two slots of a `u64` table share a cache line.
#[repr(C)]
pub(crate) struct Slot<K> {
    word: AtomicU64,
    /// `[stamp | holder]` of the newest grant whose winner was told of; see [`Slot::tell`].
    holder: AtomicU64,
    /// `[tag | incarnation]`: unchanged from publication until the page's next life.
    identity: AtomicU64,
    key: KeyCell<K>,
}

impl<K> Slot<K> {
    /// A slot of a page's first life: all zero.
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::never(0).bits()),
            holder: AtomicU64::new(0),
            identity: AtomicU64::new(0),
            key: KeyCell::new(),
        }
    }

    #[inline]
    pub(crate) fn word(&self) -> Word {
        // Acquire: pairs with the Release of every transition, so that a published key, and what the
        // last holder wrote before it released, are seen; and keeps the loads of identity and base
        // that follow behind it (invariant P4).
        Word::from_bits(self.word.load(Ordering::Acquire))
    }

    /// The word, for the sweeper: after it raised the page's due tick.
    #[inline]
    pub(crate) fn word_for_visit(&self) -> Word {
        // SeqCst: either this finds what a grant stored, or the grant finds the raised tick (invariant
        // P12). As for `word` beyond that.
        Word::from_bits(self.word.load(Ordering::SeqCst))
    }

    /// Whether the word is still `seen`, after Acquire loads of what belongs to it.
    #[inline]
    pub(crate) fn is_still(&self, seen: Word) -> bool {
        // Relaxed: the Acquire loads in between keep it behind them, and no value comes back.
        self.word.load(Ordering::Relaxed) == seen.bits()
    }

    #[inline]
    pub(crate) fn identity(&self) -> u64 {
        // Acquire: keeps the re-read of the word (`is_still`) behind it.
        self.identity.load(Ordering::Acquire)
    }

    /// One transition of the lease (invariant P1); what is there instead when somebody was first.
    #[inline]
    pub(crate) fn transition(&self, from: Word, to: Word) -> Result<(), Word> {
        debug_assert_ne!(from, to);
        // SeqCst: a look at the page's due tick comes after it (invariant P12). Release hands what this
        // thread did (wrote a key, worked under the lease, raised the page's top) to whoever finds the
        // new word; Acquire takes over what the last holder did. Acquire on failure: the word found is
        // decided upon like a loaded one.
        self.word
            .compare_exchange(from.bits(), to.bits(), Ordering::SeqCst, Ordering::Acquire)
            .map(drop)
            .map_err(Word::from_bits)
    }

    /// Claims a free slot for a key, as one that somebody may wait for or not. The caller alone may then use
    /// the identity and the key.
    pub(crate) fn claim(&self, now: u64, waited: bool) -> bool {
        let mut seen = self.word();
        while let Some(claimed) = seen.claim(now) {
            let claimed = if waited { claimed.waited() } else { claimed };
            match self.transition(seen, claimed) {
                Ok(()) => {
                    // Nobody holds it, and that is told. Release: as in `reset`.
                    self.holder.store(word::holder_bits(claimed.stamp(), 0), Ordering::Release);
                    return true;
                }
                Err(found) => seen = found,
            }
        }
        false
    }

    /// Gives back a slot that the caller claimed and did not announce.
    pub(crate) fn unclaim(&self) {
        let mut seen = self.word();
        // Only a freeze can come in between.
        while let Err(found) = self.transition(seen, seen.unclaim()) {
            seen = found;
        }
    }

    /// Marks a slot that the caller claimed as one that somebody may wait for.
    pub(crate) fn claim_as_waited(&self) {
        let seen = self.word();
        if !seen.is_waited() {
            // Only a freeze can come in between; then it is given back.
            let _ = self.transition(seen, seen.waited());
        }
    }

    /// Makes an announced slot a resource; whoever comes first.
    pub(crate) fn publish(&self) {
        let seen = self.word();
        if seen.state() == State::Claimed {
            debug_assert!(!seen.is_frozen(), "frozen before what was announced was published");
            // A failure means that another did it: an announced slot is published once a life.
            let _ = self.transition(seen, seen.publish());
        }
    }

    /// Freezes the word: from here on its lease goes on in a successor page.
    pub(crate) fn freeze(&self) -> Word {
        let mut seen = self.word();
        while !seen.is_frozen() {
            match self.transition(seen, seen.frozen()) {
                Ok(()) => return seen.frozen(),
                Err(found) => seen = found,
            }
        }
        seen
    }

    /// Tells who won the grant of `stamp`; only its winner may, and while the page cannot begin another
    /// life. `false` if the page is being replaced: then the copy may have missed it.
    ///
    /// A plain store, because there is no other writer: the next grant is made only if this one was
    /// told ([`is_told`](Self::is_told)), and a slot whose last winner is not done telling is buried
    /// (invariant P8).
    #[inline]
    #[must_use]
    pub(crate) fn tell(&self, stamp: u64, holder: HolderId) -> bool {
        // Release: a reader that finds this holder finds the grant too.
        self.holder.store(word::holder_bits(stamp, holder.get()), Ordering::Release);
        // Relaxed: a freeze that is missed here by the width of a store buffer costs only that the
        // holder is unknown until it next renews or checks.
        !Word::from_bits(self.word.load(Ordering::Relaxed)).is_frozen()
    }

    /// Tells in a copy what its original was told too late. Any handle of the lease may.
    pub(crate) fn tell_copy(&self, stamp: u64, holder: HolderId) {
        let told = word::holder_bits(stamp, holder.get());
        // Release: as in `tell`. Relaxed on failure: somebody told it, or the lease is over.
        let _ = self.holder.compare_exchange(
            Self::untold(stamp),
            told,
            Ordering::Release,
            Ordering::Relaxed,
        );
    }

    const fn untold(stamp: u64) -> u64 {
        word::holder_bits(stamp - 1, 0)
    }

    /// Whether the winner of the word's stamp has told, so that there is no writer left.
    #[inline]
    pub(crate) fn is_told(&self, word: Word) -> bool {
        // Acquire: pairs with the Release of `tell`: the next winner's store comes after it.
        word::holder_parts(self.holder.load(Ordering::Acquire)).0 == word.stamp()
    }

    /// Who holds the lease of `stamp`, if its winner has told yet.
    #[inline]
    pub(crate) fn holder_of(&self, stamp: u64) -> Option<HolderId> {
        // Acquire: pairs with the Release of `tell`.
        let (of, holder) = word::holder_parts(self.holder.load(Ordering::Acquire));
        if of == stamp { HolderId::from_bits(holder) } else { None }
    }

    /// Writes identity and key into a claimed slot.
    ///
    /// # Safety
    ///
    /// The caller has the slot's claim, or its page is private; and no key is in it.
    pub(crate) unsafe fn write_key(&self, identity: u64, key: K)
    where
        K: 'static,
    {
        // Release: pairs with `identity`'s Acquire. A search that meets the identity early finds the
        // word unpublished, or compares the key.
        self.identity.store(identity, Ordering::Release);
        // SAFETY: by the contract nobody else reads or writes the key now.
        unsafe { self.key.write(key) };
    }

    /// Changes the identity of a claimed slot.
    pub(crate) fn write_identity(&self, identity: u64) {
        // Release: as in `write_key`, which wrote the one that it replaces.
        self.identity.store(identity, Ordering::Release);
    }

    /// Takes the key out again.
    ///
    /// # Safety
    ///
    /// The caller has the slot's claim, or its page is private; a key is in it, and is not used again.
    pub(crate) unsafe fn take_key(&self) -> K {
        // SAFETY: by the contract the key is initialised, and nobody else reads or writes it.
        unsafe { self.key.take() }
    }

    /// Reads the key.
    ///
    /// # Safety
    ///
    /// The slot was found published, and the caller is pinned since before that.
    #[inline]
    pub(crate) unsafe fn with_key<R>(&self, read: impl FnOnce(&K) -> R) -> R {
        // SAFETY: a published key is not written until its page's next life, which the pin keeps off.
        unsafe { self.key.with(read) }
    }

    /// Whether keys of this type can be peeked at without a pin.
    #[inline(always)]
    pub(crate) fn can_peek() -> bool
    where
        K: 'static,
    {
        KeyCell::<K>::can_peek()
    }

    /// Reads a key without a pin: it counts only if the word, seen before, is then found unchanged.
    ///
    /// # Safety
    ///
    /// [`can_peek`](Self::can_peek).
    #[inline(always)]
    pub(crate) unsafe fn peek_key(&self) -> K {
        // SAFETY: by the contract; pages are allocated as zeroes.
        unsafe { self.key.peek() }
    }

    /// Begins a slot's next life, without a key. The page is private; stale handles still look.
    pub(crate) fn reset(&self, tick: u64) {
        // Release, both: whoever reads one of them without a pin, after a word of the last life, does not
        // find that word again at its second look (invariant P4).
        self.holder.store(0, Ordering::Release);
        self.identity.store(0, Ordering::Release);
        // Release: a stale handle that reads this word reads the identity after it, and finds another.
        self.word.store(Word::never(tick).bits(), Ordering::Release);
    }

    /// Marks the key as gone, before it is dropped.
    pub(crate) fn forget_key(&self, seen: Word) {
        // Release: harmless to readers; the page is private.
        self.word.store(
            Word::new(seen.tick(), seen.stamp(), State::Free).frozen().bits(),
            Ordering::Release,
        );
    }

    /// What a frozen slot hands on, for a page in which its tick is `tick`.
    pub(crate) fn copied(&self, tick: u64) -> Copied {
        let word = self.word().thawed();
        // Acquire: as in `holder_of`.
        let (of, holder) = word::holder_parts(self.holder.load(Ordering::Acquire));
        let told = (of == word.stamp()).then_some(holder);
        Copied { word: word.at_tick(tick), told, identity: self.identity() }
    }

    /// Puts a copy of a resource into a private page.
    ///
    /// # Safety
    ///
    /// The page is private and the slot has no key.
    pub(crate) unsafe fn restore(&self, copy: Copied, key: K)
    where
        K: 'static,
    {
        let stamp = copy.word.stamp();
        let holder = match copy.told {
            Some(holder) => word::holder_bits(stamp, holder),
            None => Self::untold(stamp),
        };
        // SAFETY: by this function's own contract.
        unsafe { self.write_key(copy.identity, key) };
        // Release: as in `reset`.
        self.holder.store(holder, Ordering::Release);
        // Release: as in `reset`; and the page is published by a Release of its own.
        self.word.store(copy.word.bits(), Ordering::Release);
    }
}

/// What of a resource goes on in another page, beside the key.
#[derive(Clone, Copy)]
pub(crate) struct Copied {
    /// With its tick of the new page, not frozen.
    pub(crate) word: Word,
    /// The holder's bits, 0 for nobody; `None` if the winner of the stamp has not told.
    pub(crate) told: Option<u64>,
    pub(crate) identity: u64,
}

/// The token of the grant of `stamp` in the slot of that identity.
#[inline]
pub(crate) fn token(identity: u64, stamp: u64) -> Token {
    let bits = word::token_bits(word::identity_incarnation(identity), stamp);
    Token::new(bits).expect("incarnations start at 1")
}
