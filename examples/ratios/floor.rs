//! The least that a lease in one word could cost.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::{Clock, QuantaClock};

/// One clock read and two 64-bit compare-exchanges on one word, again and again.
#[derive(Default)]
pub(crate) struct Floor {
    clock: QuantaClock,
    word: AtomicU64,
    value: u64,
}

impl Floor {
    /// "Grants" and "releases". What the first compare-exchange stores depends on the clock, as a
    /// deadline does, so none of it is for nothing. The word's value is known and not even loaded.
    #[inline]
    pub(crate) fn pass(&mut self) {
        let granted = self.value + 1 + (self.clock.now() & 1);
        self.exchange(self.value, granted);
        self.exchange(granted, granted + 1);
        self.value = granted + 1;
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) {
        // The orders that a grant and a release need, though nobody else looks here.
        let exchange = self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        black_box(exchange).expect("a word that nobody else changes");
    }
}
