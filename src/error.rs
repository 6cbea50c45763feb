//! What can go wrong, as data, with a sentence that says what to do.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use crate::id::{HolderId, Token};

/// Why a lease was not granted. The table did not change.
///
/// # Example
///
/// ```
/// use leasehold::{AcquireError, HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let nothing = table.try_acquire(&1, HolderId::mint(), Duration::ZERO);
/// assert_eq!(nothing.unwrap_err(), AcquireError::TermZero);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// Somebody holds the resource.
    Held(Held),
    /// A term of zero, or of less than one tick of the table's clock, would be over at once.
    TermZero,
    /// The term is longer than the table grants, be it by a nanosecond.
    TermTooLong {
        /// What was asked for.
        requested: Duration,
        /// The longest term: the builder's `term_max`.
        max: Duration,
    },
    /// The table knows `capacity_max` resources, and somebody holds each of them.
    Full {
        /// The builder's setting.
        capacity_max: usize,
    },
    /// Too many resources whose keys have the same hash: the hasher does not tell them apart.
    Crowded,
    /// 2^46 resources were created in one shard: fencing tokens cannot grow any further.
    Exhausted,
    /// The table was [closed](crate::LeaseTable::close).
    Closed,
    /// There would be nobody to pass leases on when they lapse: the thread that sweeps the table, which the
    /// first wait starts, could not be. Only what waits says so.
    SweeperThread {
        /// What the system said.
        kind: std::io::ErrorKind,
    },
}

/// Who holds the resource that was asked for.
///
/// # Example
///
/// ```
/// use leasehold::{AcquireError, HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let (me, you, term) = (HolderId::mint(), HolderId::mint(), Duration::from_secs(5));
/// let _lease = table.try_acquire(&1, me, term)?;
/// let Err(AcquireError::Held(held)) = table.try_acquire(&1, you, term) else { panic!() };
/// assert_eq!(held.holder, Some(me));
/// assert!(held.retry_after <= term + Duration::from_millis(1));
/// # Ok::<(), AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// The holder; `None` for the moment between winning a grant and telling who won it.
    pub holder: Option<HolderId>,
    /// The holder's token.
    pub token: Token,
    /// After this time the lease can be taken over, unless it is renewed; it may be released before. Those who
    /// wait are first.
    pub retry_after: Duration,
    /// How many wait for the resource. As long as anybody does, nobody is granted it by just asking.
    pub waiters: usize,
}

/// Why a lease was not renewed.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, RenewError};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// assert!(matches!(lease.renew(Duration::MAX), Err(RenewError::TermTooLong { .. })));
/// assert!(lease.check().is_ok()); // As it was.
/// # Ok::<(), leasehold::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RenewError {
    /// A term of zero, or of less than one tick of the table's clock.
    TermZero,
    /// The term is longer than the table grants. The lease is as it was.
    TermTooLong {
        /// What was asked for.
        requested: Duration,
        /// The longest term: the builder's `term_max`.
        max: Duration,
    },
    /// The lease is being revoked: it can be released, not renewed.
    Closing {
        /// How long it is still valid.
        remaining: Duration,
    },
    /// The lease is over.
    Lost(Lost),
}

/// Why a lease is no longer its holder's.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, Lost, Revoke};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// table.revoke(&1, Revoke::Now)?;
/// assert_eq!(lease.check(), Err(Lost::Revoked));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// Its term passed.
    Expired,
    /// It was revoked.
    Revoked,
    /// It was released by another handle of the same grant.
    Released,
    /// The resource was granted anew since: to somebody else after this lease was over, or to the same
    /// holder, which ended it.
    Taken {
        /// Who got it, if that is known.
        holder: Option<HolderId>,
        /// The token of the newest grant, if that is known.
        token: Option<Token>,
    },
    /// The lease ended so long ago that the table has forgotten the resource.
    Gone,
    /// The grant is another table's.
    ForeignTable,
}

/// Nobody holds the resource.
///
/// # Example
///
/// ```
/// use leasehold::{LeaseTable, NotHeld, Revoke};
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// assert_eq!(table.revoke(&1, Revoke::Now), Err(NotHeld));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(held) => held.fmt(f),
            Self::TermZero => f.write_str(TERM_ZERO),
            Self::TermTooLong { requested, max } => term_too_long(f, *requested, *max),
            Self::Full { capacity_max } => write!(
                f,
                "all {capacity_max} resources that the table may know are held: release some, or \
                 build it with a larger capacity_max"
            ),
            Self::Crowded => f.write_str(
                "too many keys have the same hash: use a hasher that tells the keys apart",
            ),
            Self::Exhausted => f.write_str(
                "the table's fencing tokens are used up after 2^46 resources in one shard: build \
                 a new table",
            ),
            Self::Closed => f.write_str("the table was closed: nothing is granted any more"),
            Self::SweeperThread { kind } => write!(
                f,
                "the thread that passes leases on could not be started ({kind}): free threads, or \
                 build the table with sweep_by_hand"
            ),
        }
    }
}

const TERM_ZERO: &str =
    "the term is shorter than one tick of the table's clock: ask for a longer one";

fn term_too_long(f: &mut fmt::Formatter<'_>, requested: Duration, max: Duration) -> fmt::Result {
    write!(
        f,
        "a term of {requested:?} is longer than the table's term_max of {max:?}: ask for a shorter \
         one and renew it"
    )
}

fn somebody(holder: Option<HolderId>) -> impl fmt::Display {
    struct Somebody(Option<HolderId>);
    impl fmt::Display for Somebody {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self.0 {
                Some(holder) => write!(f, "holder {holder}"),
                None => f.write_str("a holder not told yet"),
            }
        }
    }
    Somebody(holder)
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, token, retry_after, waiters } = *self;
        let holder = somebody(holder);
        write!(f, "the resource is held by {holder} with token {token}")?;
        match waiters {
            0 => write!(f, ": retry after {retry_after:?}"),
            1 => f.write_str(", and another one waits for it: wait, too"),
            _ => write!(f, ", and {waiters} others wait for it: wait, too"),
        }
    }
}

impl fmt::Display for RenewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TermZero => f.write_str(TERM_ZERO),
            Self::TermTooLong { requested, max } => term_too_long(f, *requested, *max),
            Self::Closing { remaining } => {
                write!(f, "the lease is being revoked: finish and release it within {remaining:?}")
            }
            Self::Lost(lost) => lost.fmt(f),
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("the lease's term has passed: stop, and acquire it anew"),
            Self::Revoked => f.write_str("the lease was revoked: stop"),
            Self::Released => f.write_str("the lease was released through another handle: stop"),
            Self::Taken { holder, token: Some(token) } => {
                write!(f, "the resource went to {} with token {token}: stop", somebody(*holder))
            }
            Self::Taken { holder, token: None } => {
                write!(f, "the resource went to {}: stop", somebody(*holder))
            }
            Self::Gone => f.write_str("the lease ended long ago: stop, and acquire it anew"),
            Self::ForeignTable => {
                f.write_str("the grant is another table's: use the table that granted it")
            }
        }
    }
}

impl fmt::Display for NotHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody holds a live lease on the resource")
    }
}

impl Error for AcquireError {}
impl Error for Held {}
impl Error for RenewError {}
impl Error for Lost {}
impl Error for NotHeld {}

impl From<Lost> for RenewError {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}
