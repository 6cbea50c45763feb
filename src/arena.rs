//! Page memory: allocated in chunks, mapped until the table goes, used again and again.
//!
//! A page that was replaced comes back through [`Arena::retire`], a grace period later: no thread
//! that could read its keys is left. Handles that still point to it need no grace: they find, in the
//! words of its next life, that theirs is over. That rests on no word's value coming back (invariant
//! P2), so a page's next life starts at a page time above every tick it ever had; a page that has used
//! up its range of ticks rests until the clock itself has gone through a whole range.

use core::ptr::{self, NonNull};
use std::alloc;

use crate::granted::Stride;
use crate::page::Page;
use crate::place::Place;
use crate::stats::Striped;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::epoch::{self, Guard};
use crate::sync::std_arc::Arc;
use crate::word::{TICK_BITS, TICK_MAX, TICK_SLACK};

/// Chunks grow up to this many pages: a large table calls the allocator less often.
const CHUNK_PAGES_MAX: usize = 8;

/// Ticks at the end of a page's range that are not counted on: twice the step in which `top` is raised.
const MARGIN: u64 = 1 << 21;

/// How far back a page may be made to reach for deadlines that are long past.
const REACH_MAX: u64 = 1 << (TICK_BITS - 3);

/// When a page's life begins, and how far back its words must reach.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epochs {
    /// The clock.
    pub(crate) now: u64,
    /// How many ticks before `now` the page's time begins.
    pub(crate) reach: u64,
    /// The longest term, in ticks.
    pub(crate) term_max: u64,
}

impl Epochs {
    /// Epochs whose range holds a deadline that passed longer ago than the retention: of a lease that waits
    /// for its own holder, after the clock jumped. One that passed still longer ago is moved up.
    pub(crate) fn reaching_back(self, earliest: u64) -> Self {
        let back = self.now.saturating_sub(earliest).min(REACH_MAX).next_multiple_of(4);
        Self { reach: self.reach.max(back), ..self }
    }

    /// Epochs whose range holds a deadline that may be further ahead than the longest term, as the
    /// clock stepped back since its grant. Only where a whole range is too short for that does the
    /// page's time begin later, and then other leases that it takes over end early.
    pub(crate) fn reaching(self, latest: u64) -> Self {
        let longest = TICK_MAX - self.reach - MARGIN - 2 * TICK_SLACK;
        let term_max = latest.saturating_sub(self.now).clamp(self.term_max, longest);
        let now = self.now.max(latest.saturating_sub(term_max));
        Self { now, term_max, ..self }
    }

    /// The highest floor from which a whole life is possible.
    fn floor_max(self) -> u64 {
        TICK_MAX - self.term_max - self.reach - MARGIN
    }
}

/// A run of pages.
struct Chunk<K> {
    next: *mut Chunk<K>,
    first: NonNull<Page<K>>,
    pages: usize,
    stride: Stride,
    /// How many were handed out, or more.
    used: AtomicU64,
}

impl<K> Chunk<K> {
    /// A chunk of pages that have had no life yet.
    fn new(pages: usize, stride: Stride) -> NonNull<Self> {
        let layout = stride.layout::<K>(pages);
        // Zeroed, which is what `Page::new` makes: so memory that nobody has touched stays untouched
        // until its page is used.
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc::alloc_zeroed(layout) }.cast::<Page<K>>();
        let Some(first) = NonNull::new(raw) else { alloc::handle_alloc_error(layout) };
        // For what lies behind the pages: see `granted`.
        first.expose_provenance();
        // Loom's atomics are more than their values.
        #[cfg(any(leasehold_loom, leasehold_shuttle))]
        for page in Self::run(first, pages, stride) {
            // SAFETY: just allocated, with room and alignment for that many pages.
            unsafe { page.write(Page::new()) };
        }
        let used = AtomicU64::new(0);
        let chunk = Self { next: ptr::null_mut(), first, pages, stride, used };
        NonNull::from(Box::leak(Box::new(chunk)))
    }

    /// Frees a chunk, and the memory of its pages.
    ///
    /// # Safety
    ///
    /// Nobody uses the chunk or any of its pages.
    unsafe fn free(chunk: NonNull<Self>) {
        // SAFETY: it was leaked from a box in `new`, and by the contract is not used again.
        let chunk = unsafe { Box::from_raw(chunk.as_ptr()) };
        // SAFETY: allocated with this layout in `new`.
        unsafe {
            alloc::dealloc(chunk.first.as_ptr().cast(), chunk.stride.layout::<K>(chunk.pages));
        };
    }

    /// A page that nobody has used.
    fn fresh(&self) -> Option<NonNull<Page<K>>> {
        // Relaxed: only the count matters; a page that was never used has no history.
        let index = self.used.fetch_add(1, Ordering::Relaxed) as usize;
        // SAFETY: below the number of pages in the run.
        (index < self.pages).then(|| unsafe { self.stride.nth(self.first, index) })
    }

    /// The pages that were handed out.
    fn iter(&self) -> impl Iterator<Item = NonNull<Page<K>>> + use<K> {
        // Relaxed: the chunk's last user has everything before.
        let used = (self.used.load(Ordering::Relaxed) as usize).min(self.pages);
        Self::run(self.first, used, self.stride)
    }

    fn run(
        first: NonNull<Page<K>>,
        pages: usize,
        stride: Stride,
    ) -> impl Iterator<Item = NonNull<Page<K>>> {
        // SAFETY: the run was allocated for that many pages.
        (0..pages).map(move |i| unsafe { stride.nth(first, i) })
    }
}

/// The pages of a shard. Shared with the deferred calls that bring pages back, which may outlive the
/// table; they run no code of the user's.
pub(crate) struct Arena<K> {
    stride: Stride,
    /// A stack of pages that may begin another life. Popped under a pin, and a page is pushed only
    /// after a grace period: so a page that is seen at the top, with its link, cannot come back there
    /// in between (no ABA).
    ready: AtomicPtr<Page<K>>,
    /// All chunks, for the end.
    chunks: AtomicPtr<Chunk<K>>,
    /// Pages that used up their range of ticks, and the tick at which they may begin a new one.
    /// Only ever tried, never waited for.
    resting: Mutex<Vec<(u64, NonNull<Page<K>>)>>,
    bytes: AtomicU64,
}

// SAFETY: the arena hands out pages by protocols that are themselves `Sync`; keys are dropped only by
// the table, whose `K` is `Send + Sync`.
unsafe impl<K: Send> Send for Arena<K> {}
// SAFETY: as above.
unsafe impl<K: Send> Sync for Arena<K> {}

impl<K> Arena<K> {
    pub(crate) fn new(stride: Stride) -> Self {
        Self {
            stride,
            ready: AtomicPtr::new(ptr::null_mut()),
            chunks: AtomicPtr::new(ptr::null_mut()),
            resting: Mutex::new(Vec::new()),
            bytes: AtomicU64::new(0),
        }
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a figure for people.
        self.bytes.load(Ordering::Relaxed)
    }

    /// A private page for `place`, with no key in it.
    ///
    /// # Panics
    ///
    /// If a key that was left behind panics when it is dropped; the page is kept for another try.
    pub(crate) fn take(
        self: &Arc<Self>,
        epochs: Epochs,
        place: Place,
        stripes: &Striped,
        pinned: &Guard,
    ) -> Blank<K> {
        loop {
            let page = self
                .pop_unannounced(stripes, pinned)
                .or_else(|| self.rested(epochs.now))
                .unwrap_or_else(|| self.allocate());
            let blank = Blank { arena: self.clone(), page };
            // SAFETY: the page came from the stack, or never had a life: it is private, a grace period
            // has passed since it was not, and nobody granted on it without a pin.
            let page = unsafe {
                let page = blank.page.as_ref();
                page.drop_keys();
                page
            };
            // A vacant word's tick loses its two lowest bits: floors are multiples of four.
            let floor = (page.top() + TICK_SLACK).next_multiple_of(4);
            if floor <= epochs.floor_max() {
                let base = epochs.now.wrapping_sub(floor + epochs.reach);
                page.begin(base, floor, place);
                return blank;
            }
            self.rest(blank, epochs.now);
        }
    }

    /// Gives a page back that is reachable no more, once everybody who reached it is gone.
    pub(crate) fn retire(self: &Arc<Self>, page: NonNull<Page<K>>, pinned: &Guard) {
        let arena = self.clone();
        let back = move || arena.push(page);
        // SAFETY: the call owns a share of the arena, whose pages live as long as it does, and needs
        // nothing else. It touches no key. If it never runs, the page is used no more; the arena
        // frees its memory all the same once nobody can run the call.
        unsafe { epoch::defer(pinned, back) }
    }

    /// Puts a page on the stack, a grace period after it was reachable.
    fn push(&self, page: NonNull<Page<K>>) {
        // SAFETY: pages live as long as the arena; this one comes here by `retire` only.
        unsafe { page.as_ref().drop_successors() };
        // Relaxed: the exchange checks it.
        let mut top = self.ready.load(Ordering::Relaxed);
        loop {
            // SAFETY: pages live as long as the arena.
            unsafe { page.as_ref() }.set_next_ready(top);
            // Release: the popper finds the link, and all that the page's last users did. Relaxed on
            // failure: as for the load.
            match self.ready.compare_exchange_weak(
                top,
                page.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    /// A page on which no thread is granting. One that is held up there goes round once more.
    fn pop_unannounced(
        self: &Arc<Self>,
        stripes: &Striped,
        pinned: &Guard,
    ) -> Option<NonNull<Page<K>>> {
        loop {
            let page = self.pop(pinned)?;
            if !stripes.is_announced(page) {
                return Some(page);
            }
            self.retire(page, pinned);
        }
    }

    fn pop(&self, _pinned: &Guard) -> Option<NonNull<Page<K>>> {
        // Acquire: pairs with the Release of the push.
        let mut top = self.ready.load(Ordering::Acquire);
        loop {
            let page = NonNull::new(top)?;
            // SAFETY: pages live as long as the arena.
            let page_ref = unsafe { page.as_ref() };
            // If the page was popped meanwhile, this is anything, and the exchange fails.
            let next = page_ref.next_ready();
            // Acquire, both: as for the load. Pushes are read-modify-writes, so their release
            // sequences go on over this exchange.
            match self.ready.compare_exchange_weak(top, next, Ordering::Acquire, Ordering::Acquire)
            {
                Ok(_) => {
                    page_ref.set_next_ready(ptr::null_mut());
                    return Some(page);
                }
                Err(found) => top = found,
            }
        }
    }

    /// A page whose rest is over begins from tick 0 again: the one place where the proof leans on a
    /// bound, that no thread stays within one operation for a whole range of ticks.
    fn rested(&self, now: u64) -> Option<NonNull<Page<K>>> {
        let mut resting = self.resting.try_lock()?;
        let index = resting.iter().position(|(until, _)| *until <= now)?;
        let (_, page) = resting.swap_remove(index);
        // SAFETY: pages live as long as the arena, and this one is private.
        unsafe { page.as_ref() }.restart();
        Some(page)
    }

    fn rest(self: &Arc<Self>, blank: Blank<K>, now: u64) {
        match self.resting.try_lock() {
            Some(mut resting) => resting.push((now.saturating_add(TICK_MAX), blank.into_page())),
            // Somebody is at it: drop the page's blank, which brings it back to the stack.
            None => drop(blank),
        }
    }

    /// A page that was never used.
    fn allocate(&self) -> NonNull<Page<K>> {
        loop {
            // Acquire: pairs with the Release of `link`.
            let newest = self.chunks.load(Ordering::Acquire);
            // SAFETY: chunks live as long as the arena.
            let chunk = unsafe { newest.as_ref() };
            if let Some(page) = chunk.and_then(Chunk::fresh) {
                return page;
            }
            let last = chunk.map_or(0, |chunk| chunk.pages);
            self.link(newest, (last * 2).clamp(1, CHUNK_PAGES_MAX));
        }
    }

    /// Puts a chunk before the newest, unless somebody was first: then theirs has pages.
    fn link(&self, newest: *mut Chunk<K>, pages: usize) {
        let chunk = Chunk::new(pages, self.stride);
        // SAFETY: the chunk is private until the exchange.
        unsafe { (*chunk.as_ptr()).next = newest };
        // Release: pairs with `allocate`; it carries on what earlier links released, as exchanges do.
        // Relaxed on failure: the newest is loaded again.
        let linked = self.chunks.compare_exchange(
            newest,
            chunk.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        if linked.is_ok() {
            // Relaxed: a figure for people.
            let size = self.stride.layout::<K>(pages).size();
            self.bytes.fetch_add(size as u64, Ordering::Relaxed);
        } else {
            // SAFETY: it was not linked, so nobody else has it.
            unsafe { Chunk::free(chunk) };
        }
    }

    fn for_each_chunk(&self, mut f: impl FnMut(NonNull<Chunk<K>>)) {
        // Acquire: pairs with `link`.
        let mut at = self.chunks.load(Ordering::Acquire);
        while let Some(chunk) = NonNull::new(at) {
            // SAFETY: chunks live as long as the arena; read before `f`, which may free it.
            at = unsafe { chunk.as_ref() }.next;
            f(chunk);
        }
    }

    /// Drops every key that is left, when the table goes; also the rest of them if one panics.
    ///
    /// # Safety
    ///
    /// No operation of the table is under way or will come.
    pub(crate) unsafe fn drop_all_keys(&self) {
        struct Rest<'a, K>(&'a Arena<K>);
        impl<K> Drop for Rest<'_, K> {
            fn drop(&mut self) {
                // SAFETY: as the caller promised. A key is marked as gone before it is dropped.
                unsafe { self.0.drop_all_keys() };
            }
        }
        let rest = Rest(self);
        self.for_each_chunk(|chunk| {
            // SAFETY: chunks live as long as the arena.
            for page in unsafe { chunk.as_ref() }.iter() {
                // SAFETY: by the contract nobody uses any page: all are private.
                unsafe { page.as_ref().drop_keys() };
            }
        });
        core::mem::forget(rest);
    }
}

impl<K> Drop for Arena<K> {
    fn drop(&mut self) {
        // Relaxed: the last share of the arena goes, with everything of all threads before it.
        let mut ready = self.ready.load(Ordering::Relaxed);
        while let Some(page) = NonNull::new(ready) {
            // SAFETY: pages live as long as the arena.
            let page = unsafe { page.as_ref() };
            // What it has there is a link, not successors.
            ready = page.next_ready();
            page.set_next_ready(ptr::null_mut());
        }
        self.for_each_chunk(|chunk| {
            // SAFETY: chunks live as long as the arena.
            for page in unsafe { chunk.as_ref() }.iter() {
                // SAFETY: the last share of the arena goes: nobody uses any page.
                unsafe { page.as_ref().drop_successors() };
            }
            // SAFETY: as above.
            unsafe { Chunk::free(chunk) };
        });
    }
}

/// A private page. Dropped, it goes back with what is in it.
pub(crate) struct Blank<K> {
    arena: Arc<Arena<K>>,
    page: NonNull<Page<K>>,
}

impl<K> Blank<K> {
    pub(crate) fn page(&self) -> &Page<K> {
        // SAFETY: pages live as long as the arena.
        unsafe { self.page.as_ref() }
    }

    pub(crate) fn into_page(self) -> NonNull<Page<K>> {
        let page = self.page;
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        drop(unsafe { ptr::read(&raw const this.arena) });
        page
    }
}

impl<K> Drop for Blank<K> {
    fn drop(&mut self) {
        // By way of a grace period, though nobody saw it: the stack relies on it.
        self.arena.retire(self.page, &epoch::pin());
    }
}
