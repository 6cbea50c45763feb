//! The table: leases by key.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use crate::clock::{Clock, QuantaClock};
use crate::error::{AcquireError, Lost, NotHeld, RenewError};
use crate::grant::Grant;
use crate::id::{HolderId, Token};
use crate::lease::{Lease, OwnedLease};
use crate::resource::Resource;
use crate::sync::std_arc::Arc;

pub(crate) mod attempt;
mod build_error;
mod builder;
mod by_value;
mod expiry;
pub(crate) mod handle;
mod hasher;
mod iter;
#[cfg(any(leasehold_loom, leasehold_shuttle))]
mod modelled;
pub(crate) mod shared;
mod view;
mod waiting;
mod weak;
mod whole;

pub use build_error::BuildError;
pub use builder::Builder;
pub use hasher::{DefaultHashBuilder, DefaultHasher};
pub use iter::Iter;
pub use weak::WeakLeaseTable;

use self::shared::Core;

/// What a key must be able to do: every type that can is one.
///
/// A key is cloned when it is first put into the table, and when its page is replaced: cheap clones
/// (integers, `Arc<str>`) make growth cheap.
///
/// # Example
///
/// ```
/// fn assert_key<K: leasehold::Key>() {}
///
/// assert_key::<u64>();
/// assert_key::<std::path::PathBuf>();
/// assert_key::<(u32, String)>();
/// ```
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Key for K {}

/// A live lease, as one look at the table found it.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let info = table.inspect(&1).unwrap();
/// assert_eq!((info.holder, info.token), (Some(lease.holder()), lease.token()));
/// assert!(!info.closing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// Who holds it; `None` for the moment between winning a grant and telling who won it.
    pub holder: Option<HolderId>,
    /// Its fencing token.
    pub token: Token,
    /// How long it is still valid, rounded down.
    pub remaining: Duration,
    /// Whether it was revoked with a grace.
    pub closing: bool,
}

/// How a lease is revoked. Either way its holder may not know yet, and may act on: what it protects
/// must check tokens.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, Revoke};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let closing = table.revoke(&1, Revoke::After(Duration::from_secs(1)))?;
/// assert!(closing.closing && lease.check().is_ok());
/// table.revoke(&1, Revoke::Now)?;
/// assert!(lease.check().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoke {
    /// The lease is over; the next acquirer is granted.
    Now,
    /// The holder may finish within this time and release, but not renew; it can see that it is
    /// closing, and how long it has. No longer than its deadline.
    After(Duration),
}

/// A lock-free table of leases: who holds which resource, until when, with which fencing token.
///
/// This is a handle: cloning it is cheap, and the table goes with the last handle, [`OwnedLease`] and
/// [`Resource`].
///
/// # What is not promised
///
/// That a holder which was paused knows that its lease is over: nothing can stop it from acting late,
/// but what the lease protects can refuse a late token; see [`Fenced`](crate::Fenced). A turn to who only
/// asks: `try_acquire` does not wait, and does not come before those who [do](crate::docs::waiting).
///
/// # Example
///
/// ```
/// use leasehold::{AcquireError, HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<String> = LeaseTable::new();
/// let (me, you) = (HolderId::mint(), HolderId::mint());
/// let term = Duration::from_secs(30);
///
/// let lease = table.try_acquire("report.pdf", me, term)?;
/// match table.try_acquire("report.pdf", you, term) {
///     Err(AcquireError::Held(held)) => assert_eq!(held.token, lease.token()),
///     other => panic!("{other:?}"),
/// }
/// lease.release()?;
/// assert!(table.try_acquire("report.pdf", you, term).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LeaseTable<K, S = DefaultHashBuilder, C = QuantaClock> {
    core: Arc<Core<K, S, C>>,
}

impl<K, S, C> Clone for LeaseTable<K, S, C> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<K: Key> LeaseTable<K> {
    /// A table with the default settings.
    ///
    /// # Panics
    ///
    /// Only if a clock was made whose ticks are longer than a term can be: the default one's are not.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// assert!(table.is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the default settings are valid")
    }

    /// Settings, all with defaults.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table = LeaseTable::<String>::builder().capacity(10_000).build()?;
    /// assert!(table.is_empty());
    /// # Ok::<(), leasehold::BuildError>(())
    /// ```
    pub fn builder() -> Builder<K> {
        Builder::new()
    }
}

impl<K: Key> Default for LeaseTable<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Key, S: BuildHasher, C: Clock> LeaseTable<K, S, C> {
    pub(crate) fn core(&self) -> &Arc<Core<K, S, C>> {
        &self.core
    }

    /// Grants `key` to `holder` for `term`, if nobody holds it.
    ///
    /// A holder that asks for what it holds is granted anew, with a larger token, and its earlier
    /// handle is lost; unless it is being revoked, or others wait for it, in which case it is refused like
    /// anybody. A lease whose deadline is past is taken over, or, if others wait, passed on to them. It reads the
    /// clock once, and never blocks, but for the shard's wait lock if others wait.
    ///
    /// The key may be given in a borrowed form, such as `&str` for `String`; it is made into an owned
    /// one if the resource is new.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: held, a bad term, or no room. The table is as it was, with one exception: once
    /// in 2^17 grants of a resource it moves to another slot, and a holder that asks for what it holds at
    /// that very moment gives it up first; if it is then refused, its earlier handle says that it lost.
    ///
    /// # Panics
    ///
    /// If the key's `Hash`, `Eq` or `Clone` does, or the `Drop` of one that was left behind; the table
    /// goes on.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let (me, term) = (HolderId::mint(), Duration::from_secs(5));
    /// let first = table.try_acquire("job", me, term)?;
    /// let second = table.try_acquire("job", me, term)?; // Asked again: granted anew.
    /// assert!(second.token() > first.token());
    /// assert!(first.check().is_err() && second.check().is_ok());
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    // Always: returned through memory, a lease costs as much as a compare-exchange more.
    #[inline(always)]
    pub fn try_acquire<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> Result<Lease<'_, K, S, C>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let handle = self.core.acquire(key, holder, term)?;
        Ok(Lease::new(&self.core, handle))
    }

    /// As [`try_acquire`](Self::try_acquire), for a lease that may outlive this handle of the table.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// As there.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire_owned(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// drop(table); // The lease keeps it.
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    pub fn try_acquire_owned<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> Result<OwnedLease<K, S, C>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let handle = self.core.acquire(key, holder, term)?;
        Ok(OwnedLease::new(self.core.clone(), handle))
    }

    /// Looks a resource up once, for those who use the same ones again and again: acquiring through a
    /// [`Resource`] hashes and compares nothing. The resource is created if it is new.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Full`], [`Crowded`](AcquireError::Crowded) or
    /// [`Exhausted`](AcquireError::Exhausted).
    ///
    /// # Panics
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// assert_eq!(printer.key(), "printer");
    /// assert_eq!((table.resources(), table.len()), (1, 0));
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    pub fn resource<Q>(&self, key: &Q) -> Result<Resource<K, S, C>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        Resource::new(self.core.clone(), key.to_owned())
    }

    /// The live lease of a resource; `None` if nobody holds one that is valid now.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// assert_eq!(table.inspect(&1).unwrap().holder, Some(lease.holder()));
    /// drop(lease);
    /// assert!(table.inspect(&1).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inspect<Q>(&self, key: &Q) -> Option<LeaseInfo>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.core.inspect(key)
    }

    /// Ends a lease from outside, at once or with a grace. A second graceful revocation can shorten the
    /// first one's grace, never lengthen it.
    ///
    /// Returns the lease. At once: as it was when it was ended, so that `remaining` is what was cut off.
    /// With a grace: as it is now, closing, with what its holder has left.
    ///
    /// # Errors
    ///
    /// [`NotHeld`] if nobody holds a live lease on the resource.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, RenewError, Revoke, Status};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(60))?;
    /// let closing = table.revoke(&1, Revoke::After(Duration::from_secs(5)))?;
    /// assert!(closing.closing && closing.remaining <= Duration::from_secs(5));
    /// assert!(matches!(lease.status(), Status::Closing { .. }));
    /// assert!(matches!(lease.renew(Duration::from_secs(60)), Err(RenewError::Closing { .. })));
    /// lease.release()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn revoke<Q>(&self, key: &Q, how: Revoke) -> Result<LeaseInfo, NotHeld>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.core.revoke(key, how)
    }

    /// As [`Lease::renew`], for a grant by value.
    ///
    /// # Errors
    ///
    /// As there; [`Lost::ForeignTable`] if another table granted it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let grant = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?.into_grant();
    /// table.renew(grant, Duration::from_secs(10))?;
    /// assert!(table.inspect(&1).unwrap().remaining > Duration::from_secs(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn renew(&self, grant: Grant, term: Duration) -> Result<(), RenewError> {
        self.expect_own(grant)?;
        let ticks = self.core.renewal_ticks(term)?;
        self.core.renew_slow(grant.name(), ticks, None)
    }

    /// As [`Lease::release`], for a grant by value.
    ///
    /// # Errors
    ///
    /// As there; [`Lost::ForeignTable`] if another table granted it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, Lost};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let grant = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?.into_grant();
    /// table.release(grant)?;
    /// assert_eq!(table.release(grant), Err(Lost::Released));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&self, grant: Grant) -> Result<(), Lost> {
        self.expect_own(grant)?;
        self.core.release_slow(grant.name(), None)
    }

    /// As [`Lease::check`], for a grant by value.
    ///
    /// # Errors
    ///
    /// As there; [`Lost::ForeignTable`] if another table granted it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, Lost};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let grant = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?.into_grant();
    /// assert_eq!(table.check(grant), Ok(grant.token()));
    /// let other: LeaseTable<u64> = LeaseTable::new();
    /// assert_eq!(other.check(grant), Err(Lost::ForeignTable));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, grant: Grant) -> Result<Token, Lost> {
        self.expect_own(grant)?;
        self.core.check_slow(grant.name(), None).map(|_| grant.token())
    }

    fn expect_own(&self, grant: Grant) -> Result<(), Lost> {
        if grant.table() == self.core.id { Ok(()) } else { Err(Lost::ForeignTable) }
    }
}

impl<K: Key, S: BuildHasher, C: Clock> IntoIterator for &LeaseTable<K, S, C> {
    type Item = (K, LeaseInfo);
    type IntoIter = Iter<K, S, C>;

    fn into_iter(self) -> Iter<K, S, C> {
        self.iter()
    }
}

impl<K, S, C> fmt::Debug for LeaseTable<K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseTable")
            .field("id", &self.core.id)
            .field("shards", &self.core.shards.len())
            .field("stats", &self.core.stats.snapshot())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests;
