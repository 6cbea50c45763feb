//! The cell of a slot's key.
//!
//! A key is read under a pin, which keeps its page from another life: but a pin is a locked
//! instruction and a dozen others, as much as a grant. A 64-bit integer, the commonest key, is
//! therefore written and may be *peeked at* as an atomic: without a pin the answer may be of another
//! life of the page, but it is a key, and the caller finds out by the slot's word.

use core::any::TypeId;
use core::mem::MaybeUninit;

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU64, Ordering};

#[repr(transparent)]
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) struct KeyCell<K>(UnsafeCell<MaybeUninit<K>>);

/// Loom's atomics are not made of plain memory: the integer is kept beside the cell.
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) struct KeyCell<K>(UnsafeCell<MaybeUninit<K>>, AtomicU64);

impl<K> KeyCell<K> {
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    pub(crate) fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()), AtomicU64::new(0))
    }

    /// # Safety
    ///
    /// Nobody else uses the cell, but for peeking; and no key is in it.
    pub(crate) unsafe fn write(&self, key: K)
    where
        K: 'static,
    {
        if let Some(bits) = to_integer(&key) {
            // Release: whoever peeks at it, after a word of the page's last life, does not find that
            // word again at its second look (invariant P4).
            self.with_integer(|integer| integer.store(bits, Ordering::Release));
            if !cfg!(any(leasehold_loom, leasehold_shuttle)) {
                return;
            }
        }
        // SAFETY: by the contract; this is not an integer that anybody peeks at.
        self.0.with_mut(|cell| unsafe { (*cell).write(key) });
    }

    /// # Safety
    ///
    /// Nobody else uses the cell, but for peeking; a key is in it, and is not used again.
    pub(crate) unsafe fn take(&self) -> K {
        // SAFETY: by the contract the key is initialised, and nobody writes it.
        self.0.with_mut(|cell| unsafe { (*cell).assume_init_read() })
    }

    /// # Safety
    ///
    /// A key is in the cell, and nobody writes it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn with<R>(&self, read: impl FnOnce(&K) -> R) -> R {
        // SAFETY: by the contract.
        self.0.with(|cell| read(unsafe { (*cell).assume_init_ref() }))
    }

    /// Whether keys of this type can be peeked at.
    #[inline(always)]
    pub(crate) fn can_peek() -> bool
    where
        K: 'static,
    {
        is_integer::<K>()
    }

    /// A key that is, or was, or will be in the cell.
    ///
    /// # Safety
    ///
    /// [`can_peek`](Self::can_peek), and the memory was initialised, if only as zeroes.
    #[inline(always)]
    pub(crate) unsafe fn peek(&self) -> K {
        // Acquire: the second look at the word, which tells whether it counts, comes after it.
        let bits = self.with_integer(|integer| integer.load(Ordering::Acquire));
        // SAFETY: `K` is a 64-bit integer, by the contract.
        unsafe { core::mem::transmute_copy::<u64, K>(&bits) }
    }

    #[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
    #[inline(always)]
    fn with_integer<R>(&self, f: impl FnOnce(&AtomicU64) -> R) -> R {
        // SAFETY: only for a `K` that has the size and alignment of a `u64`; all accesses that may
        // meet another are atomic.
        self.0.with_mut(|cell| f(unsafe { AtomicU64::from_ptr(cell.cast()) }))
    }

    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    fn with_integer<R>(&self, f: impl FnOnce(&AtomicU64) -> R) -> R {
        f(&self.1)
    }
}

/// Known when the code is compiled, though not to the language: the optimiser folds it.
#[inline(always)]
fn is_integer<K: 'static>() -> bool {
    let integers = [TypeId::of::<u64>(), TypeId::of::<i64>()];
    let words = [TypeId::of::<usize>(), TypeId::of::<isize>()];
    let is = |of: [TypeId; 2]| of.contains(&TypeId::of::<K>());
    align_of::<K>() == align_of::<u64>()
        && (is(integers) || size_of::<usize>() == size_of::<u64>() && is(words))
}

#[inline(always)]
fn to_integer<K: 'static>(key: &K) -> Option<u64> {
    // SAFETY: `K` is a 64-bit integer.
    is_integer::<K>().then(|| unsafe { core::mem::transmute_copy::<K, u64>(key) })
}
