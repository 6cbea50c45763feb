//! From a hash to its page: extendible hashing (Fagin, Nievergelt, Pippenger and Strong, 1979) over
//! an array of page pointers that is only a hint.
//!
//! An entry moves forward along the successors of its page and never back (invariant P11). A page may be
//! given back once no entry leads to it; [`Directory::advance`] makes sure of that. To grow, the entries are
//! marked as moved, one by one, which stops them; then they are copied to an array of twice the size.
//! The arrays stay until the directory goes (all the old ones together are smaller than the last), so
//! that a look-up may begin before it is pinned.

use core::ptr;

use crate::expiry::due::Filings;
use crate::hash::Hash;
use crate::page::Page;
use crate::place::Place;
use crate::prefetch::prefetch;
use crate::sync::atomic::{AtomicPtr, Ordering};
use crate::sync::epoch::Guard;

/// Directories of more than 2^32 entries are refused long before: see `Shard::depth_limit`.
pub(crate) const DEPTH_MAX: u32 = 32;

struct Table<K> {
    depth: u32,
    entries: Box<[AtomicPtr<Page<K>>]>,
    /// The one before, of half the size.
    previous: *mut Table<K>,
}

impl<K> Table<K> {
    #[inline(always)]
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

/// Where a hash's page stands in the directory, and which it was.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a, K> {
    entry: &'a AtomicPtr<Page<K>>,
    seen: *mut Page<K>,
}

impl<K> Entry<'_, K> {
    /// Asks for the page's header and the two lines in which a hash is first looked for, so that they are
    /// on their way while the caller reads the clock and is pinned.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: Hash) {
        let page = unmarked(self.seen);
        prefetch(page);
        let home = page.wrapping_byte_add(Page::<K>::offset_of(hash.home()));
        prefetch(home);
        prefetch(home.wrapping_byte_add(64));
    }

    /// Asks for the page's header, and for the line of a slot.
    pub(crate) fn prefetch_slot(&self, index: Option<usize>) {
        let page = unmarked(self.seen);
        prefetch(page);
        if let Some(index) = index {
            prefetch(page.wrapping_byte_add(Page::<K>::offset_of(index)));
        }
    }

    /// The page that the entry led to, without a pin: its memory is mapped as long as the table lives,
    /// but it may be in another life.
    #[inline(always)]
    pub(crate) fn peek(&self) -> &Page<K> {
        // SAFETY: entries are never null, and pages live as long as the table, which `self` borrows.
        unsafe { &*unmarked(self.seen) }
    }

    /// The page, if the entry still leads to it. As the entry is not marked, its table is the newest,
    /// and a page that an entry of that leads to is not given back under the caller's pin.
    #[inline(always)]
    pub(crate) fn page<'g>(&self, _pinned: &'g Guard) -> Option<&'g Page<K>> {
        // Acquire: as in `Directory::page`.
        let found = self.entry.load(Ordering::Acquire);
        // Equality, so that what follows need not wait for this load.
        if found != self.seen || is_moved(self.seen) {
            return None;
        }
        // SAFETY: see above; entries are never null.
        Some(unsafe { &*self.seen })
    }
}

pub(crate) struct Directory<K> {
    table: AtomicPtr<Table<K>>,
}

// SAFETY: the tables are shared by atomics, as the pages are.
unsafe impl<K: Send + Sync> Send for Directory<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for Directory<K> {}

impl<K> Directory<K> {
    /// A directory of `pages.len()` pages, a power of two, in the order of their prefixes.
    pub(crate) fn new(pages: impl ExactSizeIterator<Item = *mut Page<K>>) -> Self {
        let depth = pages.len().ilog2();
        let entries = pages.map(AtomicPtr::new).collect();
        let table = Box::into_raw(Box::new(Table { depth, entries, previous: ptr::null_mut() }));
        Self { table: AtomicPtr::new(table) }
    }

    #[inline(always)]
    fn table(&self) -> &Table<K> {
        // Acquire: pairs with the Release of `double`.
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: tables are freed when the directory is dropped.
        unsafe { &*table }
    }

    /// Where the entry of a hash lies, to ask for it.
    pub(crate) fn place_of(&self, below_shard: u64) -> *const AtomicPtr<Page<K>> {
        let table = self.table();
        &raw const table.entries[table.index(below_shard)]
    }

    /// The entry of a hash: a look-up's first half, which needs no pin.
    #[inline(always)]
    pub(crate) fn entry(&self, below_shard: u64) -> Entry<'_, K> {
        let table = self.table();
        let entry = &table.entries[table.index(below_shard)];
        // Acquire: pairs with the Release by which the entry was moved: the page's memory is seen
        // initialised by whoever peeks.
        Entry { entry, seen: entry.load(Ordering::Acquire) }
    }

    /// The page of a hash, as far as the directory knows: it may have been replaced.
    #[inline]
    pub(crate) fn page<'g>(&self, below_shard: u64, _pinned: &'g Guard) -> &'g Page<K> {
        let table = self.table();
        // Acquire: pairs with the Release by which the entry was moved: the page's contents are seen.
        let entry = table.entries[table.index(below_shard)].load(Ordering::Acquire);
        // SAFETY: entries are never null. The caller was pinned before it read which table is the
        // newest, and an entry of that leads only to pages that are not given back: not before a grace
        // period after the last entry let go of them.
        unsafe { &*unmarked(entry) }
    }

    pub(crate) fn bytes(&self) -> usize {
        let newest = self.table();
        // And all the old ones, which are halves of halves.
        size_of_val(&*newest.entries) * 2
    }

    /// Moves every entry of a place on to pages that have no successors. When it returns, no entry
    /// leads to a page of that place which had some before; and none will again.
    pub(crate) fn advance(&self, place: Place, filings: &Filings<K>, pinned: &Guard) {
        loop {
            let table = self.table();
            let first = table.index(place.prefix);
            let count = 1_usize << table.depth.saturating_sub(place.depth);
            let mut covered = first..first + count;
            if covered.all(|index| Self::advance_entry(table, index, filings, pinned)) {
                return;
            }
            self.double(table);
        }
    }

    /// `false` if the table has moved to a larger one, or must.
    fn advance_entry(table: &Table<K>, index: usize, filings: &Filings<K>, pinned: &Guard) -> bool {
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
            let next = if ptr::eq(successors.low, successors.high) {
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
            unsafe { &*next }.open(filings);
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
    fn double(&self, old: &Table<K>) {
        assert!(old.depth < DEPTH_MAX, "the depth limit refuses keys before");
        let mut entries = Vec::with_capacity(old.entries.len() * 2);
        for entry in &old.entries {
            let page = unmarked(Self::stop(entry));
            entries.extend([AtomicPtr::new(page), AtomicPtr::new(page)]);
        }
        let previous = ptr::from_ref(old).cast_mut();
        let entries = entries.into_boxed_slice();
        let table = Box::new(Table { depth: old.depth + 1, entries, previous });
        let new = Box::into_raw(table);
        // AcqRel: Release publishes the new table. Relaxed on failure: another's is loaded when it is
        // needed.
        let done = self.table.compare_exchange(previous, new, Ordering::AcqRel, Ordering::Relaxed);
        if done.is_err() {
            // SAFETY: it came from `Box::into_raw` above and was not published.
            drop(unsafe { Box::from_raw(new) });
        }
    }

    /// Marks an entry as moved, and returns what it leads to for ever.
    fn stop(entry: &AtomicPtr<Page<K>>) -> *mut Page<K> {
        // Acquire: as in `page`: if the entry is marked already, the page is handed on from here.
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
        // Relaxed: the directory goes, with everything of all threads before it.
        let mut table = self.table.load(Ordering::Relaxed);
        while !table.is_null() {
            // SAFETY: it came from `Box::into_raw`, and nobody else is left.
            table = unsafe { Box::from_raw(table) }.previous;
        }
    }
}
