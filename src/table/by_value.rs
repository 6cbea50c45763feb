//! Operations that go from one form of a lease to another, and those of a resolved resource.

use core::hash::BuildHasher;
use core::time::Duration;

use super::Key;
use super::shared::{Core, Want};
use super::handle::Handle;
use crate::at::At;
use crate::clock::Clock;
use crate::error::{AcquireError, Lost};
use crate::grant::Grant;
use crate::hash::Hash;
use crate::id::HolderId;
use crate::resource::Spot;
use crate::shard::Found;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::epoch::{self, Guard};

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    pub(crate) fn grant_of(&self, handle: &Handle<K>) -> Grant {
        Grant::new(self.id, handle.name(), handle.holder())
    }

    pub(crate) fn handle_of(&self, grant: Grant) -> Result<Handle<K>, Lost> {
        if grant.table() != self.id {
            return Err(Lost::ForeignTable);
        }
        let name = grant.name();
        let pinned = epoch::pin();
        let now = self.clock.now();
        let ctx = self.ctx(now, &pinned);
        let found = self.shard(name.hash).find_identity(name.hash, name.identity(), &ctx);
        let Found { page, index, .. } = found.ok_or(Lost::Gone)?;
        let at = At::new(page, index);
        self.check_slow(name, Some(&at))?;
        Ok(Handle { at, name, holder: grant.holder(), granted_at: now })
    }

    pub(crate) fn key_of(&self, handle: &Handle<K>) -> Option<K> {
        let name = handle.name();
        let pinned = epoch::pin();
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
        let pinned = epoch::pin();
        let ctx = self.ctx(self.clock.now(), &pinned);
        let found = self.find_or_insert(hash, key, &ctx)?;
        let identity = AtomicU64::new(found.page.slot(found.index).identity());
        Ok(Spot { hash, at: At::new(found.page, found.index), identity })
    }

    /// Grants a resolved resource; see [`acquire`](Self::acquire) for the form.
    #[inline(always)]
    pub(crate) fn acquire_at<'a, L>(
        &'a self,
        key: &K,
        spot: &Spot<K>,
        holder: HolderId,
        term: Duration,
        guard: impl FnOnce(&'a Self, Handle<K>) -> L + Copy,
    ) -> Result<L, AcquireError> {
        let ticks = self.term_ticks(term)?;
        let pinned = epoch::pin();
        let want = Want { holder, ticks, now: self.clock.now() };
        let (page, index) = spot.at.get();
        // SAFETY: a resource is used with the table that made it; its pages live as long as it does.
        let page = unsafe { page.as_ref() };
        let slot = page.slot(index);
        let word = slot.word();
        // Relaxed: only compared; see `Spot`. If the word was the same before and after the page was
        // found open, the page was in use in between; and it stays the same page under this pin.
        let is_here = word.is_published()
            && !word.is_frozen()
            && slot.identity() == spot.identity.load(Ordering::Relaxed)
            && page.is_open()
            && slot.is_still(word);
        if is_here {
            let found = Found { page, index, word };
            if let Some(handle) = self.grant_vacant(&found, spot.hash, want, &pinned) {
                return Ok(guard(self, handle));
            }
            if !word.is_dead() {
                return self.acquire_found(&found, spot.hash, key, want, &pinned, guard);
            }
        }
        self.acquire_anew(key, spot, want, &pinned, guard)
    }

    /// Looks a resource up again that is no longer where it was.
    #[cold]
    #[inline(never)]
    fn acquire_anew<'a, L>(
        &'a self,
        key: &K,
        spot: &Spot<K>,
        want: Want,
        pinned: &Guard,
        guard: impl FnOnce(&'a Self, Handle<K>) -> L,
    ) -> Result<L, AcquireError> {
        let ctx = self.ctx(want.now, pinned);
        let found = self.find_or_insert(spot.hash, key, &ctx)?;
        spot.at.set(&found);
        // Relaxed: as above.
        spot.identity.store(found.page.slot(found.index).identity(), Ordering::Relaxed);
        self.acquire_found(&found, spot.hash, key, want, pinned, guard)
    }
}
