//! The table: leases by key.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::time::Duration;

use crate::clock::{Clock, QuantaClock};
use crate::error::{AcquireError, Lost, NotHeld, RenewError};
use crate::grant::Grant;
use crate::id::{HolderId, TableId, Token};
use crate::lease::{Lease, OwnedLease};
use crate::resource::Resource;
use crate::stats::Stats;
use crate::sync::std_arc::Arc;
use crate::word::Word;

mod builder;
mod by_value;
pub(crate) mod handle;
mod iter;
pub(crate) mod shared;

pub use builder::{BuildError, Builder};
pub use iter::Iter;

use self::shared::Core;

/// What a key must be able to do: every type that can is one.
///
/// A key is cloned when it is first put into the table, and when its page is replaced: cheap clones
/// (integers, `Arc<str>`) make growth cheap.
pub trait Key: Hash + Eq + Clone + Send + Sync + 'static {}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Key for K {}

/// The default hasher: fast, and seeded at random for each process and table.
///
/// It resists accidents, not an attacker who can observe the table and choose keys: who has such
/// users gives the builder another, `std`'s `RandomState` for instance. What such keys can cost is
/// bounded all the same: see [`Crowded`](AcquireError::Crowded).
#[derive(Clone, Debug, Default)]
pub struct DefaultHashBuilder(foldhash::fast::RandomState);

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher(self.0.build_hasher())
    }
}

/// The hasher of [`DefaultHashBuilder`].
#[derive(Clone)]
pub struct DefaultHasher(foldhash::fast::FoldHasher<'static>);

impl std::hash::Hasher for DefaultHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, i: u8) {
        self.0.write_u8(i);
    }

    #[inline]
    fn write_u16(&mut self, i: u16) {
        self.0.write_u16(i);
    }

    #[inline]
    fn write_u32(&mut self, i: u32) {
        self.0.write_u32(i);
    }

    #[inline]
    fn write_u64(&mut self, i: u64) {
        self.0.write_u64(i);
    }

    #[inline]
    fn write_u128(&mut self, i: u128) {
        self.0.write_u128(i);
    }

    #[inline]
    fn write_usize(&mut self, i: usize) {
        self.0.write_usize(i);
    }
}

impl fmt::Debug for DefaultHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHasher").finish_non_exhaustive()
    }
}

/// A live lease, as one look at the table found it.
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
/// but what the lease protects can refuse a late token; see [`Fenced`](crate::Fenced). That waiting
/// acquirers are served in order: `try_acquire` does not wait.
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
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build().expect("the default settings are valid")
    }

    /// Settings, all with defaults.
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
    /// handle is lost; unless it is being revoked, in which case it is refused like anybody. A lease
    /// whose deadline is past is taken over. It never blocks, and reads the clock once.
    ///
    /// The key may be given in a borrowed form, such as `&str` for `String`; it is made into an owned
    /// one if the resource is new.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]: held, a bad term, or no room. The table is as it was, with one exception: once
    /// in 2^18 grants of a resource it moves to another slot, and a holder that asks for what it holds at
    /// that very moment gives it up first; if it is then refused, its earlier handle says that it lost.
    ///
    /// # Panics
    ///
    /// If the key's `Hash`, `Eq` or `Clone` does, or the `Drop` of one that was left behind; the table
    /// goes on.
    #[inline]
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
        self.core.acquire(key, holder, term, Lease::new)
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
        let own = |_: &_, handle| OwnedLease::new(self.core.clone(), handle);
        self.core.acquire(key, holder, term, own)
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
    pub fn resource<Q>(&self, key: &Q) -> Result<Resource<K, S, C>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        Resource::new(self.core.clone(), key.to_owned())
    }

    /// The live lease of a resource; `None` if nobody holds one that is valid now.
    #[must_use]
    pub fn inspect<Q>(&self, key: &Q) -> Option<LeaseInfo>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.core.inspect(key)
    }

    /// Ends a lease from outside, at once or with a grace. Returns the lease: as it was, or how long
    /// it has. A second graceful revocation can shorten the first one's grace, never lengthen it.
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
    /// table.revoke(&1, Revoke::After(Duration::from_secs(5)))?;
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
    pub fn release(&self, grant: Grant) -> Result<(), Lost> {
        self.expect_own(grant)?;
        self.core.release_slow(grant.name())
    }

    /// As [`Lease::check`], for a grant by value.
    ///
    /// # Errors
    ///
    /// As there; [`Lost::ForeignTable`] if another table granted it.
    pub fn check(&self, grant: Grant) -> Result<Token, Lost> {
        self.expect_own(grant)?;
        self.core.check_slow(grant.name(), None).map(|_| grant.token())
    }

    fn expect_own(&self, grant: Grant) -> Result<(), Lost> {
        if grant.table() == self.core.id { Ok(()) } else { Err(Lost::ForeignTable) }
    }

    /// The leases that are live, with their keys cloned. See [`Iter`] for what one sees while others
    /// go on.
    pub fn iter(&self) -> Iter<K, S, C> {
        Iter::new(self.core.clone())
    }

    /// How many leases are live. It looks at every slot of the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.count(Word::is_valid)
    }

    /// Whether no lease is live. It may look at every slot of the table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many resources the table knows, held or not. It looks at every slot.
    #[must_use]
    pub fn resources(&self) -> usize {
        self.core.count(|word, _| word.is_published() && !word.is_dead())
    }

    /// How much memory the table's pages and directories take, in bytes; not what keys own.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_shard =
            |shard: &crate::shard::Shard<K>| shard.arena.bytes() as usize + shard.directory.bytes();
        self.core.shards.iter().map(|shard| of_shard(shard) + size_of_val(shard)).sum()
    }

    /// What happened so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats.snapshot()
    }

    /// This table's number, which its [`Grant`]s carry.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.core.id
    }

    /// The clock by which it decides.
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.core.clock
    }

    /// Gives a holder a label for people, replacing an earlier one. It is kept until the table goes or
    /// [`unlabel`](Self::unlabel): label workers, not tasks.
    pub fn label(&self, holder: HolderId, label: impl Into<Arc<str>>) {
        self.core.labels.write().insert(holder, label.into());
    }

    /// Removes a holder's label, and returns it.
    pub fn unlabel(&self, holder: HolderId) -> Option<Arc<str>> {
        self.core.labels.write().remove(&holder)
    }

    /// A holder's label.
    #[must_use]
    pub fn label_of(&self, holder: HolderId) -> Option<Arc<str>> {
        self.core.labels.read().get(&holder).cloned()
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

#[cfg(all(test, not(leasehold_loom)))]
mod tests;
