//! Making the lapse of a lease happen: somebody is told, and memory is used again.
//!
//! Whether a lease is live is decided by its word and the clock, at every operation. Nothing here can change
//! that: a sweep that is late, or that nobody does, delays an event or the reuse of memory, and never makes
//! two holders.
//!
//! - [`due`]: when a page must be looked at, and how the sweeper is told
//! - [`alarm`]: waking a sweeper that sleeps too long
//! - [`agenda`]: what the sweeper knows of the pages
//! - [`sweep`], [`visit`]: the sweep, and its visit to one page
//! - [`driver`]: the thread that sweeps, for those who have none
//! - [`gap`]: clocks that jump

use core::error::Error;
use core::fmt;
use core::time::Duration;

mod agenda;
pub(crate) mod alarm;
pub(crate) mod driver;
pub(crate) mod due;
pub(crate) mod gap;
pub(crate) mod sweep;
mod visit;

pub use driver::Sweeper;
pub use gap::{ClockGap, GapPolicy};

/// What a sweep did, and when to come back.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let swept = table.sweep(100)?;
/// assert_eq!(swept.lapsed, 0);
/// clock.advance(swept.next_in.unwrap()); // As long as this loop may sleep.
/// assert_eq!(table.sweep(100)?.lapsed, 1);
/// assert!(lease.check().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "it says when to sweep again"]
#[non_exhaustive]
pub struct Swept {
    /// Pages visited: what the budget bounds.
    pub pages: usize,
    /// Leases that this sweep found lapsed, and ended.
    pub lapsed: u64,
    /// Pages that were replaced, to leave behind resources that had been idle for longer than the
    /// retention.
    pub replaced: u64,
    /// Ends brought about by other threads that the listener was told of.
    pub told: u64,
    /// Panics of the listener, or of a key's code. The panic hook has reported them; everything else was
    /// done.
    pub panics: u64,
    /// Whether the budget was used up: there is more to do now.
    pub more: bool,
    /// How long until there is something to do, as far as is known now; `None` if nothing is due at all. A
    /// lease that is granted meanwhile may be due earlier; and ends that other threads bring about wait for the
    /// next sweep to be told to the listener.
    pub next_in: Option<Duration>,
    /// Whether this sweep found that the clock had jumped.
    pub clock_gap: Option<ClockGap>,
    pub(crate) next_tick: Option<u64>,
    /// Pages that were filed.
    pub(crate) filed: usize,
}

/// Another thread is sweeping the table.
///
/// # Example
///
/// ```
/// use leasehold::{LeaseTable, Sweeping};
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// match table.sweep(100) {
///     Ok(swept) => assert_eq!(swept.pages, 0),
///     Err(Sweeping) => {} // Its sweep will do.
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweeping;

impl fmt::Display for Sweeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another thread is sweeping the table: leave it to that, or try again later")
    }
}

impl Error for Sweeping {}
