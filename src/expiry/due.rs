//! When the sweeper must next look at a page, and the way in which it is told.
//!
//! ```text
//!  63                      1 0
//! ┌─────────────────────────┬───────┐
//! │ tick of the page        │ filed │
//! └─────────────────────────┴───────┘
//! ```
//!
//! A page's *due* tick is never later than the first thing to be done there: a lease that lapses, a
//! resource that has been idle for long. A grant whose deadline comes before it lowers it and *files* the
//! page: it puts it on a stack that the sweeper takes over as a whole. A page is on the stack at most once.
//! That makes filing free for a grant that is not the first to lapse in its page, and it keeps the stack
//! no longer than the table has pages, even if nobody ever sweeps.

use core::ptr::{self, NonNull};

use crate::expiry::alarm::Alarm;
use crate::page::Page;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::seq_cst;
use crate::sync::std_arc::Arc;

/// Beyond every tick: there is nothing to be done.
pub(crate) const NEVER: u64 = u64::MAX >> 1;

const FILED: u64 = 1;

const fn pack(tick: u64) -> u64 {
    tick << 1
}

/// See the module's documentation.
pub(crate) struct Due(AtomicU64);

impl Due {
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins a life in which there is nothing to be done yet. The page may still be on the stack.
    pub(crate) fn begin(&self) {
        // Release: whoever takes the page off the stack and finds this finds its place of this life, too.
        self.0.fetch_or(pack(NEVER), Ordering::Release);
    }

    /// Whether the page is due after `tick`, so that it must be filed anew. Asked after the exchange by
    /// which a lease got that deadline.
    #[inline(always)]
    pub(crate) fn is_after(&self, tick: u64) -> bool {
        seq_cst();
        // SeqCst, as the exchange before it: either this finds what `visit` stored, or that visit finds
        // the exchanged word (invariant P12).
        pack(tick) | FILED < self.0.load(Ordering::SeqCst)
    }

    /// Makes it no later than `tick`.
    fn lower(&self, tick: u64, file: bool) -> Lowered {
        let filed = if file { FILED } else { 0 };
        // Relaxed: the exchange checks it.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen >> 1 <= tick {
                return Lowered::No;
            }
            let next = pack(tick) | seen & FILED | filed;
            // SeqCst: a later look at the alarm comes after it (see `Alarm`); Release, so that whoever
            // takes the page off the stack finds what is due. Relaxed on failure: as for the load.
            match self.0.compare_exchange(seen, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) if seen & FILED == 0 => return Lowered::First,
                Ok(_) => return Lowered::Again,
                Err(found) => seen = found,
            }
        }
    }

    /// Makes it no later than `tick`, for whoever files the page by itself: who fills a draft, and the
    /// sweeper.
    pub(crate) fn lower_quietly(&self, tick: u64) {
        self.lower(tick, false);
    }

    /// Begins a visit: whatever is due from here on is noted anew. The words are looked at after it.
    pub(crate) fn visit(&self) {
        // SeqCst: whoever then finds it raised, and whoever is seen by this visit, are all there are; see
        // `is_after`.
        self.0.fetch_or(pack(NEVER), Ordering::SeqCst);
        seq_cst();
    }

    /// Marks the page as filed; `true` for whoever was first.
    fn file_once(&self) -> bool {
        // SeqCst: as in `lower`.
        self.0.fetch_or(FILED, Ordering::SeqCst) & FILED == 0
    }

    /// What is due, of a page that was taken off the stack; it may be filed again at once.
    fn unfile(&self) -> u64 {
        // AcqRel: Acquire pairs with `lower` and `begin`; Release, so that whoever files it again does so
        // after its link was read.
        self.0.fetch_and(!FILED, Ordering::AcqRel) >> 1
    }

    /// The tick; [`NEVER`] if nothing is due.
    pub(crate) fn tick(&self) -> u64 {
        // SeqCst: looked at after a page was put on the stack and before the alarm; see `Filings::file`.
        self.0.load(Ordering::SeqCst) >> 1
    }
}

enum Lowered {
    No,
    /// The caller puts the page on the stack.
    First,
    /// It is on the stack, or about to be.
    Again,
}

/// The stack of pages that are to be filed with the sweeper, and the alarm that wakes it.
pub(crate) struct Filings<K> {
    top: AtomicPtr<Page<K>>,
    alarm: Arc<Alarm>,
}

impl<K> Filings<K> {
    pub(crate) fn new(alarm: Arc<Alarm>) -> Self {
        Self { top: AtomicPtr::new(ptr::null_mut()), alarm }
    }

    pub(crate) fn alarm(&self) -> &Arc<Alarm> {
        &self.alarm
    }

    /// Makes sure that the sweeper looks at a page by `tick`, a tick of the page. The page cannot begin
    /// another life meanwhile.
    #[cold]
    #[inline(never)]
    pub(crate) fn file(&self, page: &Page<K>, tick: u64) {
        match page.due.lower(tick, true) {
            Lowered::No => {}
            Lowered::First => {
                self.push(page);
                // Others may have lowered it since, who left it to this thread to look at the alarm.
                self.alarm.ring_before(page.clock_tick(page.due.tick()));
            }
            Lowered::Again => self.alarm.ring_before(page.clock_tick(tick)),
        }
    }

    /// Files a draft that is about to be opened; whoever comes first.
    pub(crate) fn file_draft(&self, page: &Page<K>) {
        let tick = page.due.tick();
        if tick != NEVER && page.due.file_once() {
            self.push(page);
            self.alarm.ring_before(page.clock_tick(page.due.tick()));
        }
    }

    fn push(&self, page: &Page<K>) {
        // Relaxed: the exchange checks it.
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            // Relaxed: the exchange below releases it.
            page.filed.store(top, Ordering::Relaxed);
            let new = ptr::from_ref(page).cast_mut();
            // SeqCst: the alarm is looked at after it (see `Alarm`); Release: whoever takes the stack finds
            // the link. Relaxed on failure: as for the load.
            match self.top.compare_exchange_weak(top, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => top = found,
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        // SeqCst: the sweeper looks after it said until when it sleeps; see `Alarm`.
        self.top.load(Ordering::SeqCst).is_null()
    }

    /// How many pages are on the stack, counted up to `at_most`, while nobody files or takes.
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn count(&self, at_most: usize) -> usize {
        // Acquire: pairs with `push`.
        let mut next = self.top.load(Ordering::Acquire);
        for count in 0..at_most {
            // SAFETY: page memory stays mapped as long as the table.
            let Some(page) = (unsafe { next.as_ref() }) else { return count };
            // Relaxed: nobody changes it.
            next = page.filed.load(Ordering::Relaxed);
        }
        at_most
    }

    /// Takes the whole stack.
    pub(crate) fn take(&self) -> Filed<K> {
        // Acquire: pairs with `push`. No ABA: nothing is taken from the middle.
        Filed(self.top.swap(ptr::null_mut(), Ordering::Acquire))
    }
}

/// Pages that were taken off the stack.
pub(crate) struct Filed<K>(*mut Page<K>);

// SAFETY: it leads to pages, which are shared by atomics.
unsafe impl<K: Send + Sync> Send for Filed<K> {}

impl<K> Filed<K> {
    /// The next page, which may be in another life than when it was filed, and the tick of the clock at which
    /// something is due there.
    ///
    /// # Safety
    ///
    /// The pages' table is still there.
    pub(crate) unsafe fn next<'a>(&mut self, now: u64) -> Option<(&'a Page<K>, Option<u64>)> {
        let page = NonNull::new(self.0)?;
        // SAFETY: page memory stays mapped as long as the table.
        let page = unsafe { page.as_ref() };
        // Relaxed: ordered by the Acquire of `take`. Read before the page may be filed again.
        self.0 = page.filed.load(Ordering::Relaxed);
        let base = page.clock_tick(0);
        let tick = page.due.unfile();
        let due = match page.clock_tick(0) {
            _ if tick == NEVER => None,
            same if same == base => Some(base.wrapping_add(tick)),
            // Another life began meanwhile, and it is not known whose tick it is.
            _ => Some(now),
        };
        Some((page, due))
    }
}
