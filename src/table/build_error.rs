//! Why a table cannot be made.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use super::builder::SHARDS_MAX;

/// Settings that make no table.
///
/// # Example
///
/// ```
/// use leasehold::{BuildError, LeaseTable};
///
/// let error = LeaseTable::<u64>::builder().shards(3).build().unwrap_err();
/// assert_eq!(error, BuildError::Shards { shards: 3 });
/// assert!(error.to_string().contains("power of two"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// `shards` is 0, not a power of two, or above 4096.
    Shards {
        /// The setting.
        shards: usize,
    },
    /// `capacity` is above 2^36.
    CapacityTooLarge {
        /// The setting.
        capacity: usize,
        /// The largest.
        max: usize,
    },
    /// `capacity` is above `capacity_max`.
    CapacityAboveMax {
        /// The setting.
        capacity: usize,
        /// The other setting.
        capacity_max: usize,
    },
    /// `capacity_max` is 0: the table could grant nothing.
    CapacityMaxZero,
    /// `term_max` is shorter than a tick of the clock: the table could grant nothing.
    TermMaxZero,
    /// `term_max` is more than a lease's word can hold with this clock.
    TermMaxTooLong {
        /// The setting.
        requested: Duration,
        /// The longest: 2^41 ticks.
        max: Duration,
    },
    /// `retention` is more than a lease's word can hold with this clock.
    RetentionTooLong {
        /// The setting.
        requested: Duration,
        /// The longest: 2^39 ticks.
        max: Duration,
    },
    /// There is a listener, but `events` has no cause: it would never be called.
    ListenerWithoutEvents,
    /// The sweeper's thread could not be started.
    SweeperThread {
        /// What the system said.
        kind: std::io::ErrorKind,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards { shards } => {
                write!(f, "shards is {shards}: use a power of two from 1 to {SHARDS_MAX}")
            }
            Self::CapacityTooLarge { capacity, max } => {
                write!(f, "capacity is {capacity}: use at most {max}, and let the table grow")
            }
            Self::CapacityAboveMax { capacity, capacity_max } => write!(
                f,
                "capacity is {capacity} but capacity_max is {capacity_max}: raise the one or lower \
                 the other"
            ),
            Self::CapacityMaxZero => {
                f.write_str("capacity_max is 0, so that nothing could be granted: use at least 1")
            }
            Self::TermMaxZero => f.write_str(
                "term_max is shorter than a tick of the clock, so that nothing could be granted: \
                 use a longer one",
            ),
            Self::TermMaxTooLong { requested, max } => {
                write!(f, "term_max is {requested:?}: use at most {max:?} with this clock")
            }
            Self::ListenerWithoutEvents => f.write_str(
                "there is a listener, but no events to tell it of: give `events` some causes, or leave \
                 it out",
            ),
            Self::SweeperThread { kind } => write!(
                f,
                "the sweeper's thread could not be started ({kind}): free resources, or sweep by hand"
            ),
            Self::RetentionTooLong { requested, max } => {
                write!(f, "retention is {requested:?}: use at most {max:?} with this clock")
            }
        }
    }
}

impl Error for BuildError {}
