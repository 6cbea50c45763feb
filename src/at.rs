//! Where a slot was when somebody last looked: a page and an index in one atomic pointer. A hint: the
//! identity found there tells whether it is still true.

use core::ptr::NonNull;

use crate::page::{Page, SLOTS};
use crate::shard::Found;
use crate::sync::atomic::{AtomicPtr, Ordering};

pub(crate) struct At<K>(AtomicPtr<Page<K>>);

/// Pages are aligned to 64 bytes.
const INDEX: usize = 63;

const _: () = assert!(SLOTS <= INDEX);

impl<K> At<K> {
    pub(crate) fn new(page: &Page<K>, index: usize) -> Self {
        Self(AtomicPtr::new(Self::pack(page, index)))
    }

    fn pack(page: &Page<K>, index: usize) -> *mut Page<K> {
        core::ptr::from_ref(page).cast_mut().map_addr(|addr| addr | index)
    }

    #[inline]
    pub(crate) fn get(&self) -> (NonNull<Page<K>>, usize) {
        // Acquire: pairs with the Release of `set`: the page's memory is seen initialised.
        let packed = self.0.load(Ordering::Acquire);
        let page = packed.map_addr(|addr| addr & !INDEX);
        (NonNull::new(page).expect("made from a reference"), packed.addr() & INDEX)
    }

    pub(crate) fn set(&self, found: &Found<'_, K>) {
        // Release: see `get`.
        self.0.store(Self::pack(found.page, found.index), Ordering::Release);
    }
}

impl<K> Clone for At<K> {
    fn clone(&self) -> Self {
        // Acquire: as in `get`.
        Self(AtomicPtr::new(self.0.load(Ordering::Acquire)))
    }
}
