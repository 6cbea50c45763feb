//! Walking through a table, page by page.

use core::hash::BuildHasher;

use super::shared::Core;
use super::{Key, LeaseInfo};
use crate::clock::Clock;
use crate::page::Page;
use crate::pinned::{self, Pinned};
use crate::shard::{Found, Shard};
use crate::slot::Slot;
use crate::sync::std_arc::Arc;
use crate::word::Word;

impl<K> Shard<K> {
    /// The pages from a left-aligned prefix on, each once, as the directory has them when it gets
    /// there.
    pub(crate) fn pages_from<'g>(
        &'g self,
        prefix: u64,
        pinned: &'g Pinned,
    ) -> impl Iterator<Item = &'g Page<K>> {
        let mut next = Some(prefix);
        core::iter::from_fn(move || {
            let page = self.directory.page(next?, pinned);
            next = page.place().after();
            Some(page)
        })
    }
}

/// The leases that are live, each as it was at one moment; made by
/// [`LeaseTable::iter`](super::LeaseTable::iter).
///
/// A lease that is live all the while is returned exactly once; one that begins or ends meanwhile may
/// or may not be. Nothing is locked: whoever iterates holds up nobody.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let (me, term) = (HolderId::mint(), Duration::from_secs(5));
/// let leases: Vec<_> = (0..3).map(|key| table.try_acquire(&key, me, term)).collect();
/// let mut keys: Vec<u64> = table.iter().map(|(key, _)| key).collect();
/// keys.sort();
/// assert_eq!(keys, [0, 1, 2]);
/// # drop(leases);
/// ```
#[must_use = "iterators are lazy"]
pub struct Iter<K, S, C> {
    core: Arc<Core<K, S, C>>,
    shard: usize,
    /// Where to go on in the shard; `None` after its last page.
    prefix: Option<u64>,
    /// The leases of the page before there.
    found: std::vec::IntoIter<(K, LeaseInfo)>,
}

impl<K: Key, S: BuildHasher, C: Clock> Iter<K, S, C> {
    pub(super) fn new(core: Arc<Core<K, S, C>>) -> Self {
        Self { core, shard: 0, prefix: Some(0), found: Vec::new().into_iter() }
    }

    fn next_page(&mut self) -> Option<()> {
        let shard = self.core.shards.get(self.shard)?;
        let Some(prefix) = self.prefix else {
            self.shard += 1;
            self.prefix = Some(0);
            return Some(());
        };
        let pinned = pinned::pin();
        let page = shard.directory.page(prefix, &pinned);
        match self.core.page_leases(page, &pinned) {
            Some(found) => {
                self.found = found.into_iter();
                self.prefix = page.place().after();
            }
            // Being replaced: see to that, and come back to its successors.
            None => shard.settle(page, &self.core.ctx(self.core.clock.now(), &pinned), false),
        }
        Some(())
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Iterator for Iter<K, S, C> {
    type Item = (K, LeaseInfo);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(found) = self.found.next() {
                return Some(found);
            }
            self.next_page()?;
        }
    }
}

impl<K, S, C> core::fmt::Debug for Iter<K, S, C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Iter").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// The live leases of a page; `None` if it is being replaced.
    fn page_leases(&self, page: &Page<K>, _pinned: &Pinned) -> Option<Vec<(K, LeaseInfo)>> {
        let now = self.clock.now();
        let mut leases = Vec::new();
        for (index, slot) in page.slots().iter().enumerate() {
            let word = slot.word();
            if word.is_frozen() {
                return None;
            }
            if let Some(info) = self.info(&Found { page, index, word }, now) {
                // SAFETY: a leased slot is published, and the caller is pinned.
                let key = unsafe { slot.with_key(K::clone) };
                leases.push((key, info));
            }
        }
        Some(leases)
    }

    /// How many slots have a word for which `which` holds, given it and its page's time.
    pub(super) fn count(&self, which: impl Fn(Word, u64) -> bool) -> usize {
        let pinned = pinned::pin();
        let now = self.clock.now();
        let of_page = |page: &Page<K>| {
            let time = page.time(now);
            page.slots().iter().map(Slot::word).filter(|word| which(*word, time)).count()
        };
        self.shards.iter().flat_map(|shard| shard.pages_from(0, &pinned)).map(of_page).sum()
    }
}
