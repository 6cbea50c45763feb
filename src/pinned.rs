//! A pin, and those who are to be woken when it is over.

use core::cell::{Cell, RefCell};
use core::ops::Deref;

use crate::sync::epoch::{self, Guard};
use crate::wait::Wake;

/// Keeps pages from another life, as long as an operation looks at them. Whoever it granted what they waited for is
/// woken after that: a waker is the user's code, and may be slow.
pub(crate) struct Pinned {
    // Dropped first.
    guard: Guard,
    /// Seldom more than one.
    wake: Cell<Option<Wake>>,
    wakes: RefCell<Vec<Wake>>,
}

#[inline]
pub(crate) fn pin() -> Pinned {
    Pinned { guard: epoch::pin(), wake: Cell::new(None), wakes: RefCell::new(Vec::new()) }
}

impl Pinned {
    pub(crate) fn wake_later(&self, wake: Wake) {
        if let Some(other) = self.wake.replace(Some(wake)) {
            self.wakes.borrow_mut().push(other);
        }
    }
}

impl Deref for Pinned {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
