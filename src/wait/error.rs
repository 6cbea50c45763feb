//! Why waiting for a lease came to nothing.

use core::error::Error;
use core::fmt;

use crate::error::{AcquireError, Held};

/// Why an acquisition that waits was not granted. Nothing is held, and nobody waits any more.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, WaitError};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let (me, you, term) = (HolderId::mint(), HolderId::mint(), Duration::from_secs(60));
/// let lease = table.acquire(&1, me, term)?;
/// match table.acquire_for(&1, you, term, Duration::from_millis(1)) {
///     Err(WaitError::TimedOut(held)) => assert_eq!(held.token, lease.token()),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), WaitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The time-out passed, and the resource was still held, or others waited for it: by whom, as the last look
    /// found it.
    TimedOut(Held),
    /// The table was [closed](crate::LeaseTable::close), or has gone.
    Closed,
    /// It was no matter of waiting: a bad term, or no room. Never [`AcquireError::Held`] or
    /// [`AcquireError::Closed`].
    Refused(AcquireError),
}

impl From<AcquireError> for WaitError {
    fn from(error: AcquireError) -> Self {
        match error {
            AcquireError::Held(held) => Self::TimedOut(held),
            AcquireError::Closed => Self::Closed,
            other => Self::Refused(other),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(held) => write!(f, "timed out: {held}"),
            Self::Closed => AcquireError::Closed.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl Error for WaitError {}
