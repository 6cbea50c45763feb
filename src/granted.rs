//! When each lease was granted: kept behind the pages of a table that tells of ends, and of no other.

use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr::{self, NonNull};

use crate::page::{Page, SLOTS};
use crate::sync::std_atomic::{AtomicU64, Ordering};

/// Of a lease whose winner told who it is only after its page was replaced. A clock may start at 0, but not
/// at its end.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// A page, and for each of its slots the tick of the clock at which its last lease was granted.
#[repr(C)]
struct Timed<K> {
    page: Page<K>,
    granted: [AtomicU64; SLOTS],
}

/// How the pages of an arena lie in memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stride {
    Plain,
    Timed,
}

impl Stride {
    /// The layout of a run of pages.
    pub(crate) fn layout<K>(self, pages: usize) -> Layout {
        let array = match self {
            Self::Plain => Layout::array::<Page<K>>(pages),
            Self::Timed => Layout::array::<Timed<K>>(pages),
        };
        // Aligned like the memory's own pages, so that one of ours, of half the size with a `u64` key,
        // lies in one of those: a look-up then misses one translation, not two.
        let aligned = array.and_then(|array| array.align_to(4096));
        aligned.expect("a chunk is a few pages")
    }

    /// The page of that number in a run.
    ///
    /// # Safety
    ///
    /// The run was allocated by this stride's layout, for more pages than that.
    pub(crate) unsafe fn nth<K>(self, first: NonNull<Page<K>>, index: usize) -> NonNull<Page<K>> {
        let size = match self {
            Self::Plain => size_of::<Page<K>>(),
            Self::Timed => size_of::<Timed<K>>(),
        };
        // SAFETY: by the contract it is within the run.
        unsafe { first.byte_add(index * size) }
    }
}

/// When the lease in a slot was granted.
///
/// # Safety
///
/// The page's arena is of [`Stride::Timed`], its memory's provenance was exposed, and it is still there.
unsafe fn granted<K>(page: &Page<K>, index: usize) -> &AtomicU64 {
    let offset = offset_of!(Timed<K>, granted) + index * size_of::<AtomicU64>();
    let at = ptr::from_ref(page).addr() + offset;
    // SAFETY: by the contract it lies behind the page; all zero is an atomic.
    unsafe { &*ptr::with_exposed_provenance(at) }
}

/// Notes when a lease was granted; before its winner tells who it is.
///
/// # Safety
///
/// As for [`granted`]. Only the winner of the grant may, while the page cannot begin another life.
#[inline]
pub(crate) unsafe fn note<K>(page: &Page<K>, index: usize, now: u64) {
    // SAFETY: by the contract. Relaxed: the store that tells who won releases it.
    unsafe { granted(page, index) }.store(now, Ordering::Relaxed);
}

/// When the lease whose winner has told was granted.
///
/// # Safety
///
/// As for [`granted`].
pub(crate) unsafe fn of<K>(page: &Page<K>, index: usize) -> u64 {
    // SAFETY: by the contract. Relaxed: whoever found that the winner told acquired it.
    unsafe { granted(page, index) }.load(Ordering::Relaxed)
}

/// Takes over when a lease was granted into the copy of its page.
///
/// # Safety
///
/// As for [`granted`], of both pages; the new one is private.
pub(crate) unsafe fn copy<K>(old: &Page<K>, at: usize, told: bool, new: &Page<K>, to: usize) {
    // SAFETY: by the contract.
    unsafe { note(new, to, if told { of(old, at) } else { UNKNOWN }) };
}
