//! How leases end, told to whoever asked: one listener, and any number of subscriptions.
//!
//! A table tells nothing unless it is built to ([`Builder::events`](crate::Builder::events)). Then each
//! lease's end is told once, by whoever brought it about: the sweep, the next grantee, the holder, a
//! revocation.

use core::fmt;
use core::ops::BitOr;
use core::time::Duration;

use crate::id::{HolderId, Token};
use crate::word;

pub(crate) mod hub;
mod subscription;

pub use subscription::{RecvError, SubscribeError, Subscription};

/// How a lease ended.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, EndCause};
///
/// let unplanned = Causes::of(EndCause::Lapsed) | EndCause::Revoked;
/// assert!(unplanned.contains(EndCause::Revoked) && !unplanned.contains(EndCause::Released));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndCause {
    /// Its holder released it.
    Released,
    /// Its term passed. The sweep found out, or whoever was granted the resource next, or whoever replaced
    /// its page.
    Lapsed,
    /// It was revoked at once. One that was revoked with a grace ends by a release, or by a lapse.
    Revoked,
    /// Its own holder was granted the resource anew.
    Superseded,
}

impl EndCause {
    pub(crate) fn of(cause: word::Cause) -> Self {
        match cause {
            word::Cause::Released => Self::Released,
            word::Cause::Lapsed => Self::Lapsed,
            word::Cause::Revoked => Self::Revoked,
            word::Cause::Superseded => Self::Superseded,
        }
    }
}

/// A set of [`EndCause`]s: which ends a table tells of.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, EndCause};
///
/// assert!(Causes::ALL.contains(EndCause::Superseded));
/// assert!(!Causes::NONE.contains(EndCause::Lapsed));
/// assert_eq!(Causes::NONE | EndCause::Lapsed, Causes::of(EndCause::Lapsed));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Causes(u8);

impl Causes {
    /// No cause.
    pub const NONE: Self = Self(0);
    /// Every cause.
    pub const ALL: Self = Self(0b1111);

    const fn bit(cause: EndCause) -> u8 {
        1 << cause as u8
    }

    /// The one cause.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, EndCause};
    ///
    /// assert!(Causes::of(EndCause::Lapsed).contains(EndCause::Lapsed));
    /// ```
    #[must_use]
    pub const fn of(cause: EndCause) -> Self {
        Self(Self::bit(cause))
    }

    /// All of them but one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, EndCause};
    ///
    /// let unplanned = Causes::ALL.without(EndCause::Released);
    /// assert!(!unplanned.contains(EndCause::Released) && unplanned.contains(EndCause::Lapsed));
    /// ```
    #[must_use]
    pub const fn without(self, cause: EndCause) -> Self {
        Self(self.0 & !Self::bit(cause))
    }

    /// Whether a cause is among them.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Causes, EndCause};
    ///
    /// assert!(!Causes::of(EndCause::Lapsed).contains(EndCause::Released));
    /// ```
    #[inline]
    #[must_use]
    pub const fn contains(self, cause: EndCause) -> bool {
        self.0 & Self::bit(cause) != 0
    }
}

impl BitOr for Causes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr<EndCause> for Causes {
    type Output = Self;

    fn bitor(self, cause: EndCause) -> Self {
        Self(self.0 | Self::bit(cause))
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use EndCause::{Lapsed, Released, Revoked, Superseded};
        let all = [Released, Lapsed, Revoked, Superseded];
        f.debug_set().entries(all.into_iter().filter(|cause| self.contains(*cause))).finish()
    }
}

/// A lease that ended.
///
/// # Example
///
/// ```
/// use leasehold::{Causes, EndCause, HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table = LeaseTable::<u64>::builder().events(Causes::ALL).build()?;
/// let mut ends = table.subscribe(100)?;
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let token = lease.token();
/// lease.release()?;
/// let ended = ends.try_recv().unwrap();
/// assert_eq!((ended.key, ended.token, ended.cause), (1, token, EndCause::Released));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ended<K> {
    /// The resource.
    pub key: K,
    /// Who held it; `None` if its winner was suspended before it could tell.
    pub holder: Option<HolderId>,
    /// The lease's fencing token.
    pub token: Token,
    /// Why it ended.
    pub cause: EndCause,
    /// For how long it was held, from its grant until its end: a release, a revocation, the deadline. Zero
    /// if its winner was suspended before it could tell.
    pub held_for: Duration,
    /// How long after the deadline its lapse was found; zero for the other causes.
    pub late: Duration,
}
