//! A clock that jumps: a machine that was suspended, a process that was stopped.
//!
//! A table that is swept looks at each lease soon after its deadline. Whoever finds something that has been
//! due for far longer knows that nobody could look, and so that the holders could not act either. Their leases
//! are over all the same, as others may have acted on that; but who may take over can be chosen.

use core::time::Duration;

use crate::sync::std_atomic::{AtomicBool, AtomicU64, Ordering};

/// What a table does when its clock has jumped.
///
/// # Example
///
/// ```
/// use leasehold::{AcquireError, ClockGap, GapPolicy, HolderId, LeaseTable, ManualClock};
/// use std::time::Duration;
///
/// let secs = Duration::from_secs;
/// let clock = ManualClock::new();
/// let table = LeaseTable::<u64>::builder()
///     .clock(clock.clone())
///     .clock_gap(secs(1), GapPolicy::Grace(secs(5)))
///     .build()?;
/// let (me, you) = (HolderId::mint(), HolderId::mint());
/// let lease = table.try_acquire(&1, me, secs(10))?;
/// table.sweep(100)?;
///
/// clock.advance(secs(3600)); // The machine was suspended.
/// assert!(lease.check().is_err()); // That lease is over, all the same.
/// let refused = table.try_acquire(&1, you, secs(10)).unwrap_err();
/// assert!(matches!(refused, AcquireError::Held(held) if held.retry_after > secs(4)));
/// assert!(table.try_acquire(&1, me, secs(10)).is_ok()); // Who held it may take it up again.
/// assert!(table.clock_gap().unwrap().overdue > secs(3500));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapPolicy {
    /// Leases whose deadlines passed meanwhile lapse all at once, and anybody may take over.
    #[default]
    Lapse,
    /// For this long after the jump was seen, a lease that lapsed can be taken over only by its own holder,
    /// which is granted anew. So a pause of the whole process does not rotate every owner at once.
    ///
    /// Nothing else changes: a lease whose deadline is past is over, and its holder is told so.
    Grace(Duration),
}

/// A jump of the clock that was seen.
///
/// # Example
///
/// See [`GapPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockGap {
    /// For how long something had been due when it was seen: about as long as the jump.
    pub overdue: Duration,
    /// How many jumps were seen so far, this one included.
    pub count: u64,
}

pub(crate) struct GapWatch {
    /// For how many ticks something may be overdue.
    threshold: u64,
    /// For how many ticks takeovers wait; 0 if they do not.
    grace: u64,
    /// The tick at which the last jump was seen, 0 before. What was due before it is no news.
    seen: AtomicU64,
    /// Whether the table was ever swept to the end: before, everything is overdue.
    swept: AtomicBool,
    /// By how much it was overdue.
    overdue: AtomicU64,
    count: AtomicU64,
}

impl GapWatch {
    pub(crate) fn new(threshold: u64, grace: u64) -> Self {
        let [seen, overdue, count] = [0; 3].map(AtomicU64::new);
        Self { threshold, grace, seen, swept: AtomicBool::new(false), overdue, count }
    }

    /// Everything that was due was looked at, as of now: whatever is overdue later is so since.
    pub(crate) fn has_swept(&self) {
        // Relaxed, both: it orders nothing. Read first, so that the line is not written each time.
        if !self.swept.load(Ordering::Relaxed) {
            self.swept.store(true, Ordering::Relaxed);
        }
    }

    /// Somebody sweeps: a jump that was undone is forgotten.
    pub(crate) fn sweeps(&self, now: u64) {
        // Relaxed, all: as in `look`. From here on the next jump is news.
        let seen = self.seen.load(Ordering::Relaxed);
        if self.is_undone(seen, now) {
            let _ = self.seen.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether the clock stepped back behind the jump that was seen. Threads may have read it somewhat
    /// earlier, but a jump is longer than the threshold.
    fn is_undone(&self, seen: u64, now: u64) -> bool {
        now.saturating_add(self.threshold) < seen
    }

    /// The tick at which the grace after a jump is over. One later than it lasts, as a takeover is at a deadline.
    fn grace_end(&self, seen: u64) -> u64 {
        seen.saturating_add(self.grace).saturating_add(1)
    }

    /// Something was due at a tick, and nobody has looked at it until now: that may show a jump which nobody
    /// has seen yet.
    pub(crate) fn look(&self, due: u64, now: u64) {
        // Relaxed, all: the ticks say all there is to know.
        let seen = self.seen.load(Ordering::Relaxed);
        // What lapsed in a grace has waited for its end.
        let waited = seen > 0 && due > seen && self.grace > 0;
        let due = if waited { due.max(self.grace_end(seen)) } else { due };
        // Relaxed, all: as above.
        let expected = now <= due.saturating_add(self.threshold)
            || due <= seen
            || !self.swept.load(Ordering::Relaxed);
        if expected || due <= self.seen.fetch_max(now, Ordering::Relaxed) {
            return;
        }
        // Relaxed, both: as above.
        self.overdue.store(now - due, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// For how many ticks from `now` a lease that lapsed at `deadline` can be taken over by its own holder
    /// only; 0 if by anybody.
    #[inline]
    pub(crate) fn takeover_waits(&self, deadline: u64, now: u64) -> u64 {
        if self.grace == 0 {
            return 0;
        }
        self.look(deadline, now);
        // Relaxed: as in `look`.
        let seen = self.seen.load(Ordering::Relaxed);
        if seen == 0 || self.is_undone(seen, now) {
            return 0;
        }
        self.grace_end(seen).saturating_sub(now)
    }

    /// By how many ticks something was overdue at the last jump, and how many jumps there were.
    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        // Relaxed, both: figures for people.
        let count = self.count.load(Ordering::Relaxed);
        (count > 0).then(|| (self.overdue.load(Ordering::Relaxed), count))
    }
}
