//! How many resources a table knows, where `capacity_max` bounds them. An unbounded table counts
//! nothing.

use crate::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Room {
    max: u64,
    known: AtomicU64,
}

impl Room {
    pub(crate) fn new(capacity_max: Option<usize>) -> Self {
        let max = capacity_max.map_or(u64::MAX, |max| max as u64);
        Self { max, known: AtomicU64::new(0) }
    }

    fn is_bounded(&self) -> bool {
        self.max != u64::MAX
    }

    /// Room for one more, if there is any; given back when dropped, unless it is kept.
    pub(crate) fn reserve(&self) -> Option<Reservation<'_>> {
        if self.is_bounded() {
            // Relaxed, both: only the sum counts. It never goes beyond the bound, not even for a moment
            // in which another would find it full.
            let more = |known: u64| (known < self.max).then_some(known + 1);
            self.known.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        }
        Some(Reservation { room: self, slots: 1 })
    }

    /// As many resources fewer are known.
    pub(crate) fn release(&self, slots: u64) {
        if self.is_bounded() && slots > 0 {
            // Relaxed: only the sum counts, as in `reserve`.
            self.known.fetch_sub(slots, Ordering::Relaxed);
        }
    }
}

pub(crate) struct Reservation<'a> {
    room: &'a Room,
    slots: u64,
}

impl Reservation<'_> {
    pub(crate) fn keep(mut self) {
        self.slots = 0;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.room.release(self.slots);
    }
}
