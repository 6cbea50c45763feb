//! The guards: a lease that is released when it is dropped.

use core::fmt;
use core::hash::BuildHasher;
use core::mem::ManuallyDrop;
use core::ptr;
use core::time::Duration;

use crate::clock::{Clock, QuantaClock};
use crate::error::{Lost, RenewError};
use crate::grant::Grant;
use crate::id::{HolderId, Token};
use crate::sync::std_arc::Arc;
use crate::table::handle::{Handle, Valid};
use crate::table::shared::Core;
use crate::table::{DefaultHashBuilder, Key, LeaseTable};

/// What a holder learns of its lease when it asks.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, Status};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let Status::Held { remaining } = lease.status() else { panic!() };
/// assert!(remaining <= Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is valid.
    Held {
        /// For this long, rounded down.
        remaining: Duration,
    },
    /// It is valid, but being revoked: finish and release.
    Closing {
        /// For this long, rounded down.
        remaining: Duration,
    },
    /// It is over.
    Lost(Lost),
}

/// A lease, borrowed from its table or [`Resource`](crate::Resource); released when dropped.
///
/// Forgotten ([`core::mem::forget`]), it lapses at its deadline: nobody is blocked for ever. Dropped
/// after that, it does nothing to the lease of whoever came next.
///
/// All methods take `&self`, and the guard is `Sync`: one thread may renew what another works under.
/// They are lock-free and never block; but releasing, or dropping, what somebody [waits](crate::docs::waiting)
/// for takes the shard's wait lock, and wakes who is next.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
/// let term = Duration::from_secs(5);
/// let lease = table.try_acquire(&1, HolderId::mint(), term)?;
/// std::mem::forget(lease); // As if its holder had crashed.
/// clock.advance(term);
/// clock.advance_ticks(1);
/// assert!(table.try_acquire(&1, HolderId::mint(), term).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a lease that is dropped at once is released at once"]
pub struct Lease<'t, K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: &'t Core<K, S, C>,
    handle: Handle<K>,
}

/// A lease that owns a share of its table: `'static`, for tasks and threads. Otherwise as [`Lease`].
///
/// It may be the last to hold the table.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let lease = table.try_acquire_owned(&1, HolderId::mint(), Duration::from_secs(5))?;
/// let worker = std::thread::spawn(move || lease.release());
/// assert_eq!(worker.join().unwrap(), Ok(()));
/// # Ok::<(), leasehold::AcquireError>(())
/// ```
#[must_use = "a lease that is dropped at once is released at once"]
pub struct OwnedLease<K: Key, S: BuildHasher = DefaultHashBuilder, C: Clock = QuantaClock> {
    core: Arc<Core<K, S, C>>,
    handle: Handle<K>,
}

impl<'t, K: Key, S: BuildHasher, C: Clock> Lease<'t, K, S, C> {
    #[inline]
    pub(crate) fn new(core: &'t Core<K, S, C>, handle: Handle<K>) -> Self {
        Self { core, handle }
    }

    /// Makes a guard of a grant by value.
    ///
    /// # Errors
    ///
    /// [`Lost`], if the lease is over, or another table's.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, Lease, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// let grant = lease.into_grant();
    /// let lease = Lease::from_grant(&table, grant)?;
    /// lease.release()?;
    /// assert!(Lease::from_grant(&table, grant).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_grant(table: &'t LeaseTable<K, S, C>, grant: Grant) -> Result<Self, Lost> {
        Ok(Self::new(table.core(), table.core().handle_of(grant)?))
    }
}

impl<K: Key, S: BuildHasher, C: Clock> OwnedLease<K, S, C> {
    pub(crate) fn new(core: Arc<Core<K, S, C>>, handle: Handle<K>) -> Self {
        Self { core, handle }
    }

    /// Makes a guard of a grant by value.
    ///
    /// # Errors
    ///
    /// [`Lost`], if the lease is over, or another table's.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable, OwnedLease};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// let grant = lease.into_grant();
    /// let lease = OwnedLease::from_grant(&table, grant)?;
    /// assert_eq!(lease.token(), grant.token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_grant(table: &LeaseTable<K, S, C>, grant: Grant) -> Result<Self, Lost> {
        Ok(Self::new(table.core().clone(), table.core().handle_of(grant)?))
    }

    /// Ends the guard but not the lease.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire_owned(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// let grant = lease.into_grant();
    /// assert_eq!(table.check(grant), Ok(grant.token())); // It was not released.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_grant(self) -> Grant {
        let (core, handle) = self.into_parts();
        core.grant_of(&handle)
    }

    #[inline(always)]
    fn into_parts(self) -> (Arc<Core<K, S, C>>, Handle<K>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped, so each of its fields is taken out once.
        unsafe { (ptr::read(&raw const this.core), ptr::read(&raw const this.handle)) }
    }
}

impl<'t, K: Key, S: BuildHasher, C: Clock> Lease<'t, K, S, C> {
    #[inline(always)]
    fn into_parts(self) -> (&'t Core<K, S, C>, Handle<K>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped, so the handle is taken out once.
        (this.core, unsafe { ptr::read(&raw const this.handle) })
    }

    /// Ends the guard but not the lease, which goes on as a plain value.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// let grant = lease.into_grant();
    /// assert_eq!(table.check(grant), Ok(grant.token())); // It was not released.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn into_grant(self) -> Grant {
        let (core, handle) = self.into_parts();
        core.grant_of(&handle)
    }
}

macro_rules! guard {
    ($guard:ty) => {
        impl<K: Key, S: BuildHasher, C: Clock> $guard {
            /// The fencing token: hand it to whatever the lease protects.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable};
            /// use std::time::Duration;
            ///
            /// let table: LeaseTable<u64> = LeaseTable::new();
            /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
            /// assert_eq!(table.inspect(&1).unwrap().token, lease.token());
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[inline]
            #[must_use]
            pub fn token(&self) -> Token {
                self.handle.token()
            }

            /// Who holds it.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable};
            /// use std::time::Duration;
            ///
            /// let table: LeaseTable<u64> = LeaseTable::new();
            /// let me = HolderId::mint();
            /// let lease = table.try_acquire(&1, me, Duration::from_secs(5))?;
            /// assert_eq!(lease.holder(), me);
            /// # Ok::<(), leasehold::AcquireError>(())
            /// ```
            #[inline]
            #[must_use]
            pub fn holder(&self) -> HolderId {
                self.handle.holder()
            }

            /// A clone of the resource's key; `None` if the lease ended so long ago that the table has
            /// forgotten the resource.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable};
            /// use std::time::Duration;
            ///
            /// let table: LeaseTable<u64> = LeaseTable::new();
            /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
            /// assert_eq!(lease.key(), Some(1));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[must_use]
            pub fn key(&self) -> Option<K> {
                self.core.key_of(&self.handle)
            }

            /// How long the lease is still valid: zero if it is over. Rounded down to ticks of the
            /// clock, so that it is never more than the table sees; stop a safety margin earlier.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable, ManualClock};
            /// use std::time::Duration;
            ///
            /// let clock = ManualClock::new();
            /// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
            /// let term = Duration::from_secs(5);
            /// let lease = table.try_acquire(&1, HolderId::mint(), term)?;
            /// clock.advance(Duration::from_secs(4));
            /// assert_eq!(lease.remaining(), Duration::from_secs(1));
            /// clock.advance(Duration::from_secs(4));
            /// assert_eq!(lease.remaining(), Duration::ZERO);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[must_use]
            pub fn remaining(&self) -> Duration {
                self.core.remaining(&self.handle)
            }

            /// Asks the table whether the lease is valid: its token, or why it is lost. What was
            /// reported lost stays lost, whatever the clock does.
            ///
            /// The answer is true of one moment during the call. It may be false when you act on it:
            /// hand on the token.
            ///
            /// # Errors
            ///
            /// [`Lost`] says why.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable, Lost, ManualClock};
            /// use std::time::Duration;
            ///
            /// let clock = ManualClock::new();
            /// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
            /// let term = Duration::from_secs(5);
            /// let lease = table.try_acquire(&1, HolderId::mint(), term)?;
            /// assert_eq!(lease.check(), Ok(lease.token()));
            /// clock.advance(term);
            /// assert_eq!(lease.check(), Err(Lost::Expired));
            /// clock.step_back(term);
            /// assert_eq!(lease.check(), Err(Lost::Expired)); // For good.
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[inline]
            pub fn check(&self) -> Result<Token, Lost> {
                self.core.check(&self.handle).map(|_| self.handle.token())
            }

            /// As [`check`](Self::check), with how long it has, and whether it is being revoked.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable, Lost, Revoke, Status};
            /// use std::time::Duration;
            ///
            /// let table: LeaseTable<u64> = LeaseTable::new();
            /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
            /// assert!(matches!(lease.status(), Status::Held { .. }));
            /// table.revoke(&1, Revoke::After(Duration::from_secs(1)))?;
            /// assert!(matches!(lease.status(), Status::Closing { .. }));
            /// table.revoke(&1, Revoke::Now)?;
            /// assert_eq!(lease.status(), Status::Lost(Lost::Revoked));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[must_use]
            pub fn status(&self) -> Status {
                match self.core.check(&self.handle) {
                    Ok(Valid { remaining, closing }) => {
                        let remaining = self.core.duration(remaining);
                        if closing {
                            Status::Closing { remaining }
                        } else {
                            Status::Held { remaining }
                        }
                    }
                    Err(lost) => Status::Lost(lost),
                }
            }

            /// Moves the deadline to `term` from now; the token stays. It never shortens the lease: with
            /// a shorter term than what remains, nothing moves.
            ///
            /// Renew when a third of the term has passed: that leaves time for two more tries.
            ///
            /// # Errors
            ///
            /// [`RenewError`]: a bad term (the lease is as it was), closing, or lost. At or after the
            /// deadline it is lost, even if nobody else asked.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable, ManualClock};
            /// use std::time::Duration;
            ///
            /// let clock = ManualClock::new();
            /// let table = LeaseTable::<u64>::builder().clock(clock.clone()).build()?;
            /// let term = Duration::from_secs(5);
            /// let lease = table.try_acquire(&1, HolderId::mint(), term)?;
            /// clock.advance(Duration::from_secs(4));
            /// lease.renew(term)?;
            /// assert_eq!(lease.remaining(), term);
            /// lease.renew(term / 2)?; // Nothing moves.
            /// assert_eq!(lease.remaining(), term);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            #[inline]
            pub fn renew(&self, term: Duration) -> Result<(), RenewError> {
                self.core.renew(&self.handle, term)
            }

            /// Ends the lease now. Reads no clock: `Ok` proves that nobody else was granted the resource
            /// from the grant until now, even if the term passed meanwhile.
            ///
            /// # Errors
            ///
            /// [`Lost`] if it was no longer this guard's: then nothing changes.
            ///
            /// # Example
            ///
            /// ```
            /// use leasehold::{HolderId, LeaseTable};
            /// use std::time::Duration;
            ///
            /// let table: LeaseTable<u64> = LeaseTable::new();
            /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
            /// lease.release()?;
            /// assert!(table.inspect(&1).is_none());
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            // Always: only then does the handle stay in registers between a grant and its release.
            #[inline(always)]
            pub fn release(self) -> Result<(), Lost> {
                // Apart, so that there is no guard to be dropped, in memory, if anything panics.
                let (core, handle) = self.into_parts();
                core.release(&handle)
            }
        }

        impl<K: Key, S: BuildHasher, C: Clock> fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($guard).split('<').next().unwrap_or_default())
                    .field("token", &self.token())
                    .field("holder", &self.holder())
                    .field("status", &self.status())
                    .finish_non_exhaustive()
            }
        }

        impl<K: Key, S: BuildHasher, C: Clock> Drop for $guard {
            #[inline(always)]
            fn drop(&mut self) {
                // Lost already: then there is nothing to release.
                let _ = self.core.release(&self.handle);
            }
        }
    };
}

guard!(Lease<'_, K, S, C>);
guard!(OwnedLease<K, S, C>);
