//! Where a slot is: a page and an index in one pointer.

use core::ptr::NonNull;

use crate::page::{Page, SLOTS};
use crate::slot::Slot;
use crate::sync::atomic::{AtomicPtr, Ordering};

/// Pages are aligned to 64 bytes.
const INDEX: usize = 63;

const _: () = assert!(SLOTS <= INDEX);

/// A slot of a page. The page's memory stays mapped as long as its table lives, but may begin another
/// life: what is found there says whether it did.
pub(crate) struct At<K>(NonNull<Page<K>>);

impl<K> Clone for At<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for At<K> {}

// SAFETY: a place only leads to a page, which is shared by atomics and by the protocol of its keys;
// those are `Send + Sync`.
unsafe impl<K: Send + Sync> Send for At<K> {}
// SAFETY: as above.
unsafe impl<K: Send + Sync> Sync for At<K> {}

impl<K> At<K> {
    #[inline(always)]
    pub(crate) fn new(page: &Page<K>, index: usize) -> Self {
        debug_assert!(index < SLOTS);
        Self(NonNull::from(page).map_addr(|addr| addr | index))
    }

    pub(crate) fn index(self) -> usize {
        self.0.addr().get() & INDEX
    }

    /// The page and the slot.
    ///
    /// # Safety
    ///
    /// The table that the place is of outlives the result.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(self) -> (&'a Page<K>, &'a Slot<K>) {
        let index = self.0.addr().get() & INDEX;
        let page = self.0.as_ptr().map_addr(|addr| addr & !INDEX);
        // SAFETY: it was made from a reference; by the contract the page's memory is still mapped. And it was
        // made of an index of a slot.
        unsafe {
            let page = &*page;
            (page, page.slot_at(index))
        }
    }
}

/// One that moves.
pub(crate) struct AtomicAt<K>(AtomicPtr<Page<K>>);

impl<K> AtomicAt<K> {
    pub(crate) fn new(at: At<K>) -> Self {
        Self(AtomicPtr::new(at.0.as_ptr()))
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> At<K> {
        // Acquire: pairs with the Release of `store`: the page's memory is seen initialised.
        let at = self.0.load(Ordering::Acquire);
        // SAFETY: only ever stored from an `At`.
        At(unsafe { NonNull::new_unchecked(at) })
    }

    pub(crate) fn store(&self, at: At<K>) {
        // Release: pairs with the Acquire of `load`, which hands the page's memory on.
        self.0.store(at.0.as_ptr(), Ordering::Release);
    }
}
