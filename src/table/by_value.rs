//! Operations that go from one form of a lease to another, and those of a resolved resource.

use core::hash::BuildHasher;
use core::time::Duration;

use super::Key;
use super::handle::Handle;
use super::shared::{Core, Place, Want, Won};
use crate::at::{At, AtomicAt};
use crate::clock::Clock;
use crate::error::{AcquireError, Lost};
use crate::grant::Grant;
use crate::hash::Hash;
use crate::id::HolderId;
use crate::pinned::{self, Pinned};
use crate::resource::Spot;
use crate::shard::Found;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::word::State;

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    pub(crate) fn grant_of(&self, handle: &Handle<K>) -> Grant {
        Grant::new(self.id, handle.name())
    }

    pub(crate) fn handle_of(&self, grant: Grant) -> Result<Handle<K>, Lost> {
        if grant.table() != self.id {
            return Err(Lost::ForeignTable);
        }
        let name = grant.name();
        let pinned = pinned::pin();
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            self.check_slow(name, None)?;
            let found = self.shard(name.hash).find_identity(name.hash, name.identity(), &ctx);
            let Found { page, index, word } = found.ok_or(Lost::Gone)?;
            // The lease may have ended since the check: a handle must not take up what came after it.
            let is_live = matches!(word.state(), State::Held | State::Closing);
            if is_live && word.stamp() == name.stamp() {
                // No later than the deadline, though the clock may have stepped back since (invariant P10).
                let won = Won { granted: word.unwaited(), since: page.time(now).min(word.tick()) };
                return Ok(Handle::new(At::new(page, index), name, won));
            }
        }
    }

    pub(crate) fn key_of(&self, handle: &Handle<K>) -> Option<K> {
        let name = handle.name();
        let pinned = pinned::pin();
        let ctx = self.ctx(self.clock.now(), &pinned);
        let found = self.shard(name.hash).find_identity(name.hash, name.identity(), &ctx)?;
        // SAFETY: it was found published, under the pin.
        Some(unsafe { found.page.slot(found.index).with_key(K::clone) })
    }

    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        self.rate.duration_floor(ticks)
    }

    pub(crate) fn spot(&self, key: &K) -> Result<Spot<K>, AcquireError> {
        let hash = Hash::of(&self.hasher, key);
        let pinned = pinned::pin();
        let ctx = self.ctx(self.clock.now(), &pinned);
        let found = self.find_or_insert(hash, key, &ctx)?;
        let identity = AtomicU64::new(found.page.slot(found.index).identity());
        let at = AtomicAt::new(At::new(found.page, found.index));
        Ok(Spot { hash, at, identity })
    }

    /// Grants a resolved resource; see [`acquire`](Self::acquire) for the form.
    #[inline(always)]
    pub(crate) fn acquire_at(
        &self,
        key: &K,
        spot: &Spot<K>,
        holder: HolderId,
        term: Duration,
    ) -> Result<Handle<K>, AcquireError> {
        let want = Want { holder, ticks: self.term_ticks(term)?, now: self.clock.now() };
        let at = spot.at.load();
        // SAFETY: a resource holds a share of the table that made it.
        let (page, slot) = unsafe { at.get() };
        let place = Place { page, slot, index: at.index() };
        let word = slot.word();
        // Relaxed: only compared; see `Spot`.
        if slot.identity() == spot.identity.load(Ordering::Relaxed) {
            if word.state() == State::Vacant {
                if let Some(handle) = self.grant_peeked(place, word, spot.hash, want) {
                    return Ok(handle);
                }
            } else if let Some(held) = self.refuse_peeked(place, word, want) {
                return Err(AcquireError::Held(held));
            }
        }
        self.acquire_at_pinned(key, spot, holder, want.ticks, want.now)
    }

    /// Goes on from a resource that is not simply vacant or held, under a pin.
    #[inline(never)]
    fn acquire_at_pinned(
        &self,
        key: &K,
        spot: &Spot<K>,
        holder: HolderId,
        ticks: u64,
        now: u64,
    ) -> Result<Handle<K>, AcquireError> {
        let want = Want { holder, ticks, now };
        let pinned = pinned::pin();
        let at = spot.at.load();
        // SAFETY: a resource holds a share of the table that made it.
        let (page, slot) = unsafe { at.get() };
        let word = slot.word();
        // Relaxed: only compared; see `Spot`. If the word was the same before and after the page was
        // found open, the page was in use in between; and it stays the same page under this pin.
        let is_here = word.is_published()
            && !word.is_frozen()
            && !word.is_dead()
            && slot.identity() == spot.identity.load(Ordering::Relaxed)
            && page.is_open()
            && slot.is_still(word);
        if is_here {
            let found = Found { page, index: at.index(), word };
            return self.acquire_found(&found, spot.hash, key, want, &pinned);
        }
        self.acquire_anew(key, spot, want, &pinned)
    }

    /// Looks a resource up again that is no longer where it was.
    #[cold]
    #[inline(never)]
    fn acquire_anew(
        &self,
        key: &K,
        spot: &Spot<K>,
        mut want: Want,
        pinned: &Pinned,
    ) -> Result<Handle<K>, AcquireError> {
        let ctx = self.ctx(want.now, pinned);
        let found = self.find_or_insert(spot.hash, key, &ctx)?;
        spot.at.store(At::new(found.page, found.index));
        // Relaxed: only compared, and read one by one; see `Spot`.
        spot.identity.store(found.page.slot(found.index).identity(), Ordering::Relaxed);
        // The term counts from the grant, not from before a page was replaced or a key was cloned.
        want.now = self.clock.now();
        self.acquire_found(&found, spot.hash, key, want, pinned)
    }
}
