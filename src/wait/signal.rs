//! How a waiter is told that it may look again: a parked thread, or a task.

use core::task::Waker;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::thread::Thread;

/// Wakes a waiter when it is dropped, under no lock: also if what comes in between panics.
#[must_use = "dropped under a lock, it would run code of the user's there"]
pub(crate) struct Wake(Option<Signal>);

impl Wake {
    pub(crate) fn up(signal: Signal) -> Self {
        Self(Some(signal))
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        if let Some(signal) = self.0.take() {
            signal.wake();
        }
    }
}

pub(crate) enum Signal {
    Thread(Thread),
    Task(Waker),
}

impl Signal {
    fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            // A waker that panics harms nobody but its own task. The panic hook has reported it.
            Self::Task(waker) => {
                let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                // What it panicked with may panic again, when it is dropped.
                woken.unwrap_or_else(core::mem::forget);
            }
        }
    }

    pub(crate) fn will_wake(&self, other: &Waker) -> bool {
        matches!(self, Self::Task(waker) if waker.will_wake(other))
    }
}
