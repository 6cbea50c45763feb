//! From a hash to its page: extendible hashing (Fagin, Nievergelt, Pippenger and Strong, 1979) over
//! an array of page pointers that is only a hint.
//!
//! An entry moves forward along the successors of its page and never back. A page may be given back
//! once no entry leads to it; [`Directory::advance`] makes sure of that. To grow, the entries are
//! marked as moved, one by one, which stops them; then they are copied to an array of twice the size.

use crate::page::{Page, Place};
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::{self, Guard};

/// Directories of more than 2^32 entries are refused long before: see `Shard::depth_limit`.
pub(crate) const DEPTH_MAX: u32 = 32;

struct Table<K> {
    depth: u32,
    entries: Box<[AtomicPtr<Page<K>>]>,
}

impl<K> Table<K> {
    #[inline]
    fn index(&self, below_shard: u64) -> usize {
        // In two steps: a table of depth 0 has one entry.
        (below_shard >> 1 >> (63 - self.depth)) as usize
    }
}

/// The entries' mark: this one has moved to a larger directory. Pages are aligned, so the bit is free.
const MOVED: usize = 1;

fn is_moved<K>(entry: *mut Page<K>) -> bool {
    entry.addr() & MOVED != 0
}

#[inline]
fn unmarked<K>(entry: *mut Page<K>) -> *mut Page<K> {
    entry.map_addr(|addr| addr & !MOVED)
}

pub(crate) struct Directory<K> {
    table: AtomicPtr<Table<K>>,
}

impl<K> Directory<K> {
    /// A directory of `pages.len()` pages, a power of two, in the order of their prefixes.
    pub(crate) fn new(pages: impl ExactSizeIterator<Item = *mut Page<K>>) -> Self {
        let depth = pages.len().ilog2();
        let entries = pages.map(AtomicPtr::new).collect();
        let table = Box::into_raw(Box::new(Table { depth, entries }));
        Self { table: AtomicPtr::new(table) }
    }

    #[inline]
    fn table<'g>(&self, _pinned: &'g Guard) -> &'g Table<K> {
        // Acquire: pairs with the Release of `double`.
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: a table is freed a grace period after it was unlinked, and the caller is pinned.
        unsafe { &*table }
    }

    /// The page of a hash, as far as the directory knows: it may have been replaced.
    #[inline]
    pub(crate) fn page<'g>(&self, below_shard: u64, pinned: &'g Guard) -> &'g Page<K> {
        let table = self.table(pinned);
        // Acquire: pairs with the Release by which the entry was moved: the page's contents are seen.
        let entry = table.entries[table.index(below_shard)].load(Ordering::Acquire);
        // SAFETY: entries are never null; a page is given back a grace period after no entry led to
        // it, and the caller is pinned.
        unsafe { &*unmarked(entry) }
    }

    pub(crate) fn bytes(&self, pinned: &Guard) -> usize {
        let table = self.table(pinned);
        size_of::<Table<K>>() + size_of_val(&*table.entries)
    }

    /// Moves every entry of a place on to pages that have no successors. When it returns, no entry
    /// leads to a page of that place which had some before; and none will again.
    pub(crate) fn advance(&self, place: Place, pinned: &Guard) {
        loop {
            let table = self.table(pinned);
            let first = table.index(place.prefix);
            let count = 1_usize << table.depth.saturating_sub(place.depth);
            let mut covered = first..first + count;
            if covered.all(|index| Self::advance_entry(table, index, pinned)) {
                return;
            }
            self.double(table, pinned);
        }
    }

    /// `false` if the table has moved to a larger one, or must.
    fn advance_entry(table: &Table<K>, index: usize, pinned: &Guard) -> bool {
        let entry = &table.entries[index];
        // Acquire: as in `page`.
        let mut found = entry.load(Ordering::Acquire);
        loop {
            if is_moved(found) {
                return false;
            }
            // SAFETY: as in `page`.
            let page = unsafe { &*found };
            let Some(successors) = page.successors(pinned) else { return true };
            let next = if core::ptr::eq(successors.low, successors.high) {
                successors.low
            } else if table.depth == page.place().depth {
                return false;
            } else {
                // The entry's own prefix says which half it is for.
                let prefix = (index as u64) << 1 << (63 - table.depth);
                let high = prefix & page.place().half_bit() != 0;
                if high { successors.high } else { successors.low }
            };
            // SAFETY: a successor of a page that the caller is pinned on.
            unsafe { &*next }.open();
            // AcqRel: Release hands over the successor's contents, with the Acquire of `successors`.
            // Acquire on failure: the entry found is followed like a loaded one.
            match entry.compare_exchange(
                found,
                next.cast_mut(),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => found = next.cast_mut(),
                Err(other) => found = other,
            }
        }
    }

    /// Replaces a table by one of twice the size. Any thread may do it; none waits for another.
    fn double(&self, old: &Table<K>, pinned: &Guard) {
        assert!(old.depth < DEPTH_MAX, "the depth limit refuses keys before");
        let mut entries = Vec::with_capacity(old.entries.len() * 2);
        for entry in &old.entries {
            let page = unmarked(Self::stop(entry));
            entries.extend([AtomicPtr::new(page), AtomicPtr::new(page)]);
        }
        let table = Table { depth: old.depth + 1, entries: entries.into_boxed_slice() };
        let new = Box::into_raw(Box::new(table));
        let old = core::ptr::from_ref(old).cast_mut();
        // AcqRel: Release publishes the new table. Relaxed on failure: another's is loaded when it is
        // needed.
        if self.table.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // SAFETY: unlinked just now, and by one thread; it is plain memory of the heap. If the
            // call never runs, it leaks.
            unsafe { epoch::defer(pinned, move || drop(Box::from_raw(old))) };
        } else {
            // SAFETY: it came from `Box::into_raw` above and was not published.
            drop(unsafe { Box::from_raw(new) });
        }
    }

    /// Marks an entry as moved, and returns what it leads to for ever.
    fn stop(entry: &AtomicPtr<Page<K>>) -> *mut Page<K> {
        let mut found = entry.load(Ordering::Acquire);
        while !is_moved(found) {
            let marked = found.map_addr(|addr| addr | MOVED);
            // AcqRel: Acquire, so that the page's contents are handed on with the new table; Release,
            // so that whoever finds the mark finds the entry's history. Acquire on failure: the same.
            match entry.compare_exchange(found, marked, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return marked,
                Err(other) => found = other,
            }
        }
        found
    }
}

impl<K> Drop for Directory<K> {
    fn drop(&mut self) {
        // Relaxed: the table goes, with everything of all threads before it.
        let table = self.table.load(Ordering::Relaxed);
        // SAFETY: it came from `Box::into_raw`, and nobody else is left.
        drop(unsafe { Box::from_raw(table) });
    }
}
