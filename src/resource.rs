//! A resource that was looked up.

use core::fmt;
use core::hash::BuildHasher;
use core::time::Duration;
use std::time::Instant;

use crate::at::AtomicAt;
use crate::clock::{Clock, QuantaClock};
use crate::error::{AcquireError, NotHeld};
use crate::hash::Hash;
use crate::id::HolderId;
use crate::lease::{Lease, OwnedLease};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::std_arc::Arc;
use crate::table::shared::Core;
use crate::table::{DefaultHashBuilder, Key, LeaseInfo, Revoke};
use crate::wait::{Acquire, AcquireOwned, WaitError, Waiter, after};

/// A resource of a table, looked up once: acquiring it hashes and compares nothing.
///
/// It holds a share of the table, and nothing of the resource: an idle one may be forgotten to make
/// room, and is then created anew by the next acquisition. It is `Sync`: share it, or clone it.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<String> = LeaseTable::new();
/// let printer = table.resource("printer")?;
/// let me = HolderId::mint();
/// for _page in 0..3 {
///     let lease = printer.try_acquire(me, Duration::from_secs(1))?;
///     assert!(lease.check().is_ok());
/// }
/// # Ok::<(), leasehold::AcquireError>(())
/// ```
pub struct Resource<K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: Arc<Core<K, S, C>>,
    key: K,
    place: Spot<K>,
}

/// Where the resource's slot was, and which identity it had there. The two are read one by one: a slot
/// in which an identity is found that this resource ever had is its slot.
pub(crate) struct Spot<K> {
    pub(crate) hash: Hash,
    pub(crate) at: AtomicAt<K>,
    pub(crate) identity: AtomicU64,
}

impl<K: Key, S: BuildHasher, C: Clock> Resource<K, S, C> {
    pub(crate) fn new(core: Arc<Core<K, S, C>>, key: K) -> Result<Self, AcquireError> {
        let place = core.spot(&key)?;
        Ok(Self { core, key, place })
    }

    /// The resource's key.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// assert_eq!(printer.key(), "printer");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key(&self) -> &K {
        &self.key
    }

    /// As [`LeaseTable::try_acquire`](crate::LeaseTable::try_acquire).
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
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// let lease = printer.try_acquire(HolderId::mint(), Duration::from_secs(1))?;
    /// assert_eq!(table.inspect("printer").unwrap().token, lease.token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // Always: returned through memory, a lease costs as much as a compare-exchange more.
    #[inline(always)]
    pub fn try_acquire(
        &self,
        holder: HolderId,
        term: Duration,
    ) -> Result<Lease<'_, K, S, C>, AcquireError> {
        let handle = self.core.acquire_at(&self.key, &self.place, holder, term)?;
        Ok(Lease::new(&self.core, handle))
    }

    /// As [`LeaseTable::try_acquire_owned`](crate::LeaseTable::try_acquire_owned).
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
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// let lease = printer.try_acquire_owned(HolderId::mint(), Duration::from_secs(1))?;
    /// drop((printer, table));
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_acquire_owned(
        &self,
        holder: HolderId,
        term: Duration,
    ) -> Result<OwnedLease<K, S, C>, AcquireError> {
        let handle = self.core.acquire_at(&self.key, &self.place, holder, term)?;
        Ok(OwnedLease::new(self.core.clone(), handle))
    }

    /// As [`LeaseTable::acquire`](crate::LeaseTable::acquire).
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
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// let lease = printer.acquire(HolderId::mint(), Duration::from_secs(1))?;
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn acquire(&self, holder: HolderId, term: Duration) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        S: Send + Sync + 'static,
    {
        self.acquire_by(holder, term, None)
    }

    /// As [`LeaseTable::acquire_for`](crate::LeaseTable::acquire_for).
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
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let (printer, term) = (table.resource("printer")?, Duration::from_secs(60));
    /// let _lease = printer.acquire(HolderId::mint(), term)?;
    /// assert!(printer.acquire_for(HolderId::mint(), term, Duration::from_millis(1)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_for(
        &self,
        holder: HolderId,
        term: Duration,
        timeout: Duration,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        S: Send + Sync + 'static,
    {
        self.acquire_by(holder, term, after(timeout))
    }

    /// As [`LeaseTable::acquire_until`](crate::LeaseTable::acquire_until).
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
    /// use std::time::{Duration, Instant};
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let (printer, term) = (table.resource("printer")?, Duration::from_secs(60));
    /// assert!(printer.acquire_until(HolderId::mint(), term, Instant::now()).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_until(
        &self,
        holder: HolderId,
        term: Duration,
        until: Instant,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        S: Send + Sync + 'static,
    {
        self.acquire_by(holder, term, Some(until))
    }

    #[inline]
    fn acquire_by(
        &self,
        holder: HolderId,
        term: Duration,
        until: Option<Instant>,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        S: Send + Sync + 'static,
    {
        let handle = match self.core.acquire_at(&self.key, &self.place, holder, term) {
            Err(AcquireError::Held(_)) => {
                self.core.acquire_waiting(&self.key, holder, term, until)?
            }
            done => done?,
        };
        Ok(Lease::new(&self.core, handle))
    }

    /// As [`LeaseTable::acquire_async`](crate::LeaseTable::acquire_async).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let lease = printer.acquire_async(HolderId::mint(), Duration::from_secs(1)).await?;
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), leasehold::WaitError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_async(&self, holder: HolderId, term: Duration) -> Acquire<'_, K, S, C> {
        Acquire::new(&self.core, (self.key.clone(), self.place.hash), holder, term)
    }

    /// As [`LeaseTable::acquire_owned_async`](crate::LeaseTable::acquire_owned_async).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// As there.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let lease = printer.acquire_owned_async(HolderId::mint(), Duration::from_secs(1)).await?;
    /// drop((printer, table)); // The lease keeps it.
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), leasehold::WaitError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_owned_async(&self, holder: HolderId, term: Duration) -> AcquireOwned<K, S, C> {
        AcquireOwned::new(&self.core, (self.key.clone(), self.place.hash), holder, term)
    }

    /// As [`LeaseTable::waiters`](crate::LeaseTable::waiters).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// assert!(table.resource("printer")?.waiters().is_empty());
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    #[must_use]
    pub fn waiters(&self) -> Vec<Waiter> {
        self.core.waiters(&self.key)
    }

    /// As [`LeaseTable::inspect`](crate::LeaseTable::inspect).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// assert!(printer.inspect().is_none());
    /// let lease = printer.try_acquire(HolderId::mint(), Duration::from_secs(1))?;
    /// assert_eq!(printer.inspect().unwrap().token, lease.token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inspect(&self) -> Option<LeaseInfo> {
        self.core.inspect(&self.key)
    }

    /// As [`LeaseTable::revoke`](crate::LeaseTable::revoke).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, Revoke};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<String> = LeaseTable::new();
    /// let printer = table.resource("printer")?;
    /// let lease = printer.try_acquire(HolderId::mint(), Duration::from_secs(1))?;
    /// printer.revoke(Revoke::Now)?;
    /// assert!(lease.check().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn revoke(&self, how: Revoke) -> Result<LeaseInfo, NotHeld> {
        self.core.revoke(&self.key, how)
    }
}

impl<K: Key, S: BuildHasher, C: Clock> Clone for Resource<K, S, C> {
    fn clone(&self) -> Self {
        let Spot { hash, at, identity } = &self.place;
        // Relaxed: only compared; see `Spot`.
        let identity = AtomicU64::new(identity.load(Ordering::Relaxed));
        let place = Spot { hash: *hash, at: AtomicAt::new(at.load()), identity };
        Self { core: self.core.clone(), key: self.key.clone(), place }
    }
}

impl<K: Key + fmt::Debug, S: BuildHasher, C: Clock> fmt::Debug for Resource<K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("key", &self.key)
            .field("lease", &self.inspect())
            .finish_non_exhaustive()
    }
}
