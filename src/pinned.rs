//! A pin, and those who are to be woken when it is over.

use core::cell::RefCell;
use core::ops::Deref;

use crate::sync::epoch::{self, Guard};
use crate::wait::Wake;

/// Keeps pages from another life, as long as an operation looks at them. Whoever it granted what they waited for is
/// woken after that: a waker is the user's code, and may be slow.
pub(crate) struct Pinned {
    // Dropped first.
    guard: Guard,
    wakes: RefCell<Vec<Wake>>,
}

pub(crate) fn pin() -> Pinned {
    Pinned { guard: epoch::pin(), wakes: RefCell::new(Vec::new()) }
}

impl Pinned {
    pub(crate) fn wake_later(&self, wake: Wake) {
        self.wakes.borrow_mut().push(wake);
    }
}

impl Deref for Pinned {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
