//! Acquiring that waits, by key.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;
use std::time::Instant;

use super::{Key, LeaseTable};
use crate::clock::Clock;
use crate::error::AcquireError;
use crate::id::HolderId;
use crate::lease::Lease;
use crate::wait::{
    Acquire, AcquireAll, AcquireOwned, Deadlock, Pursuit, WaitError, Waiter, Waiting, after,
};

impl<K: Key, S, C> LeaseTable<K, S, C>
where
    S: BuildHasher + Send + Sync + 'static,
    C: Clock,
{
    /// Grants `key` to `holder` for `term`; waits, parking the thread, as long as somebody else holds it.
    ///
    /// First come, first served: whoever ends the lease grants it to who has waited for longest, be it a thread
    /// or a [task](Self::acquire_async), and nobody comes before those who wait. The term counts from that grant.
    /// If it is over before this thread runs again, the thread waits anew, at the end of the queue: a term must
    /// be longer than the pauses that happen.
    ///
    /// A holder that waits for what it holds itself waits until that lease ends.
    ///
    /// # Errors
    ///
    /// [`WaitError`]: the table was closed, a bad term, or no room.
    ///
    /// # Panics
    ///
    /// As [`try_acquire`](Self::try_acquire). Then nobody waits any more.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let term = Duration::from_secs(5);
    /// let first = table.acquire(&1, HolderId::mint(), term)?;
    /// std::thread::scope(|scope| {
    ///     let second = scope.spawn(|| table.acquire(&1, HolderId::mint(), term).map(|it| it.token()));
    ///     let token = first.token();
    ///     first.release().unwrap();
    ///     assert!(second.join().unwrap()? > token);
    ///     Ok::<(), leasehold::WaitError>(())
    /// })?;
    /// # Ok::<(), leasehold::WaitError>(())
    /// ```
    #[inline]
    pub fn acquire<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.acquire_by(key, holder, term, None)
    }

    /// As [`acquire`](Self::acquire), for as long as `timeout` at most.
    ///
    /// The time-out is by the system's monotonic clock, whatever the table's does. A lease that is granted at its
    /// very end is returned. With zero it asks once, and does not wait; one that is too long to be told is none.
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`], and as there.
    ///
    /// # Panics
    ///
    /// As there.
    ///
    /// # Example
    ///
    /// See [`WaitError`].
    pub fn acquire_for<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
        timeout: Duration,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.acquire_by(key, holder, term, after(timeout))
    }

    /// As [`acquire_for`](Self::acquire_for), until an instant.
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
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let (term, soon) = (Duration::from_secs(5), Instant::now() + Duration::from_millis(1));
    /// let both = [1, 2].map(|key| table.acquire_until(&key, HolderId::mint(), term, soon));
    /// assert!(both.iter().all(Result::is_ok));
    /// ```
    pub fn acquire_until<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
        until: Instant,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.acquire_by(key, holder, term, Some(until))
    }

    #[inline]
    fn acquire_by<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
        until: Option<Instant>,
    ) -> Result<Lease<'_, K, S, C>, WaitError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let handle = match self.core().acquire(key, holder, term) {
            Err(AcquireError::Held(_)) => self.core().acquire_waiting(key, holder, term, until)?,
            done => done?,
        };
        Ok(Lease::new(self.core(), handle))
    }

    /// Grants `key` to `holder` for `term`, without blocking the thread: the future waits as
    /// [`acquire`](Self::acquire) does, in the same queue. It asks when it is first polled.
    ///
    /// It needs no runtime: it is woken by whoever ends the lease. A lease that lapses is ended by the table's
    /// sweeper, which the first wait starts.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it leaves the queue. A lease that it was granted and did not return yet is passed on. If it is
    /// kept, but polled no more, what it is granted lapses, and is passed on then.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let lease = table.acquire_async(&1, HolderId::mint(), Duration::from_secs(5)).await?;
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), leasehold::WaitError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_async<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> Acquire<'_, K, S, C>
    where
        K: Borrow<Q>,
        Q: Hash + ToOwned<Owned = K> + ?Sized,
    {
        Acquire::new(self.core(), self.hashed(key), holder, term)
    }

    /// As [`acquire_async`](Self::acquire_async), for a lease that may outlive this handle of the table. The
    /// future does not keep the table: if that goes, it returns [`WaitError::Closed`].
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
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let lease = table.acquire_owned_async(&1, HolderId::mint(), Duration::from_secs(5)).await?;
    /// drop(table); // The lease keeps it.
    /// assert!(lease.check().is_ok());
    /// # Ok::<(), leasehold::WaitError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_owned_async<Q>(
        &self,
        key: &Q,
        holder: HolderId,
        term: Duration,
    ) -> AcquireOwned<K, S, C>
    where
        K: Borrow<Q>,
        Q: Hash + ToOwned<Owned = K> + ?Sized,
    {
        AcquireOwned::new(self.core(), self.hashed(key), holder, term)
    }

    fn hashed<Q>(&self, key: &Q) -> (K, crate::hash::Hash)
    where
        Q: Hash + ToOwned<Owned = K> + ?Sized,
    {
        (key.to_owned(), crate::hash::Hash::of(&self.core().hasher, key))
    }

    /// Grants several resources to `holder`, all or none of them; waits as long as others hold some. One that is
    /// named twice is one. The leases come in the order in which their keys were first named, and each is for
    /// a whole `term` when this returns.
    ///
    /// Whatever the order in which callers name them, no two of these acquisitions wait for each other for ever.
    /// They are acquired one after the other, in an order that is the same for all, and what is held already is
    /// renewed at a third of its term until the last one is. If some of it is lost on the way, all is given back,
    /// and it begins again.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). Then none of them is held.
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
    /// let leases = table.acquire_all(["from", "to"], HolderId::mint(), Duration::from_secs(5))?;
    /// assert_eq!((leases.len(), table.len()), (2, 2));
    /// drop(leases);
    /// assert!(table.is_empty());
    /// # Ok::<(), leasehold::WaitError>(())
    /// ```
    pub fn acquire_all<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        holder: HolderId,
        term: Duration,
    ) -> Result<Vec<Lease<'_, K, S, C>>, WaitError>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + ?Sized + 'q,
    {
        self.pursue(keys, holder, term).wait(None)
    }

    /// As [`acquire_all`](Self::acquire_all), for as long as `timeout` at most; see
    /// [`acquire_for`](Self::acquire_for).
    ///
    /// # Errors
    ///
    /// [`WaitError::TimedOut`], which tells of the one that was waited for last; and as there.
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
    /// let (me, you, term) = (HolderId::mint(), HolderId::mint(), Duration::from_secs(5));
    /// let _one = table.acquire(&1, me, term)?;
    /// assert!(table.acquire_all_for(&[1, 2], you, term, Duration::from_millis(1)).is_err());
    /// assert!(table.inspect(&2).is_none()); // Nothing is held.
    /// # Ok::<(), leasehold::WaitError>(())
    /// ```
    pub fn acquire_all_for<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        holder: HolderId,
        term: Duration,
        timeout: Duration,
    ) -> Result<Vec<Lease<'_, K, S, C>>, WaitError>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + ?Sized + 'q,
    {
        self.pursue(keys, holder, term).wait(after(timeout))
    }

    /// As [`acquire_all`](Self::acquire_all), without blocking the thread.
    ///
    /// What is held already is renewed only if the future is polled; it asks the table's sweeper to be woken for
    /// that.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it gives back what it holds, and leaves the queue.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// let term = Duration::from_secs(5);
    /// let leases = table.acquire_all_async(&[1, 2, 1], HolderId::mint(), term).await?;
    /// assert_eq!(leases.len(), 2);
    /// # Ok::<(), leasehold::WaitError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_all_async<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        holder: HolderId,
        term: Duration,
    ) -> AcquireAll<'_, K, S, C>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + ?Sized + 'q,
    {
        AcquireAll::new(self.pursue(keys, holder, term))
    }

    fn pursue<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        holder: HolderId,
        term: Duration,
    ) -> Pursuit<'_, K, S, C>
    where
        Q: ToOwned<Owned = K> + ?Sized + 'q,
    {
        Pursuit::new(self.core(), keys.into_iter().map(Q::to_owned), holder, term)
    }
}

impl<K: Key, S: BuildHasher, C: Clock> LeaseTable<K, S, C> {
    /// Who waits for a resource, the next one first; as of one moment.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let (me, you, term) = (HolderId::mint(), HolderId::mint(), Duration::from_secs(5));
    /// let lease = table.try_acquire(&1, me, term)?;
    /// let mut next = pin!(table.acquire_async(&1, you, term));
    /// assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    /// let waiters = table.waiters(&1);
    /// assert_eq!((waiters.len(), waiters[0].holder), (1, you));
    /// assert!(waiters[0].term <= term);
    /// # drop(lease);
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    #[must_use]
    pub fn waiters<Q>(&self, key: &Q) -> Vec<Waiter>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.core().waiters(key)
    }

    /// Every resource that somebody waits for. Each is as of one moment, but not all as of the same.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// assert!(table.waiting().is_empty());
    /// ```
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting<K>> {
        self.core().waiting()
    }

    /// Holders that wait for each other, by what they hold and wait for as of one moment: each cycle was there
    /// when this was called. It is over at the latest when one of the leases in it lapses; whether it
    /// is a deadlock depends on whether their holders do nothing else than wait.
    ///
    /// There may be more cycles than are reported, but each holder that is in one is in a reported one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, Revoke};
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let (me, you, term) = (HolderId::mint(), HolderId::mint(), Duration::from_secs(5));
    /// let (_one, _two) = (table.try_acquire(&1, me, term)?, table.try_acquire(&2, you, term)?);
    /// let mut cx = Context::from_waker(Waker::noop());
    /// let mut mine = pin!(table.acquire_async(&2, me, term));
    /// let mut yours = pin!(table.acquire_async(&1, you, term));
    /// assert!(mine.as_mut().poll(&mut cx).is_pending() && yours.as_mut().poll(&mut cx).is_pending());
    ///
    /// let deadlocks = table.deadlocks();
    /// assert_eq!((deadlocks.len(), deadlocks[0].links.len()), (1, 2));
    /// table.revoke(&deadlocks[0].links[0].key, Revoke::Now)?;
    /// assert!(table.deadlocks().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deadlocks(&self) -> Vec<Deadlock<K>> {
        self.core().deadlocks()
    }

    /// Grants nothing from now on. Those who wait get [`WaitError::Closed`], and so does whoever asks later.
    /// Leases that are held go on: they can be renewed and released, and lapse as ever.
    ///
    /// A grant that is being made meanwhile may come before or after it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{AcquireError, HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let (me, term) = (HolderId::mint(), Duration::from_secs(5));
    /// let lease = table.try_acquire(&1, me, term)?;
    /// table.close();
    /// assert_eq!(table.try_acquire(&2, me, term).unwrap_err(), AcquireError::Closed);
    /// assert_eq!(lease.release(), Ok(()));
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    pub fn close(&self) {
        self.core().close();
    }

    /// Whether the table was [closed](Self::close).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// assert!(!table.is_closed());
    /// ```
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.core().is_closed()
    }
}
