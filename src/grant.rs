//! A lease by value.

use crate::hash::Hash;
use crate::id::{HolderId, TableId, Token};
use crate::table::handle::Name;

/// A lease as a plain value: `Copy`, without a borrow, to travel through a queue or be kept in a
/// struct.
///
/// It does not release on drop: its lease is ended by [`LeaseTable::release`], by a guard that is made
/// of it again ([`Lease::from_grant`]), or by its deadline. It may outlive its table.
///
/// [`LeaseTable::release`]: crate::LeaseTable::release
/// [`Lease::from_grant`]: crate::Lease::from_grant
///
/// # Example
///
/// ```
/// use leasehold::{Grant, HolderId, Lease, LeaseTable};
/// use std::time::Duration;
///
/// let table: LeaseTable<u64> = LeaseTable::new();
/// let (send, receive) = std::sync::mpsc::channel::<Grant>();
///
/// let lease = table.try_acquire(&7, HolderId::mint(), Duration::from_secs(10))?;
/// send.send(lease.into_grant())?;
///
/// let grant = receive.recv()?;
/// table.renew(grant, Duration::from_secs(20))?;
/// let lease = Lease::from_grant(&table, grant)?;
/// assert_eq!(lease.key(), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    table: TableId,
    hash: u64,
    token: Token,
    holder: HolderId,
}

impl Grant {
    pub(crate) fn new(table: TableId, name: Name) -> Self {
        let Name { hash, token, holder } = name;
        Self { table, hash: hash.bits(), token, holder }
    }

    pub(crate) fn name(self) -> Name {
        Name { hash: Hash::from_bits(self.hash), token: self.token, holder: self.holder }
    }

    /// The table that granted it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let me = HolderId::mint();
    /// let grant = table.try_acquire(&1, me, Duration::from_secs(5))?.into_grant();
    /// assert_eq!(grant.table(), table.id());
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    #[must_use]
    pub fn table(self) -> TableId {
        self.table
    }

    /// Its fencing token.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let me = HolderId::mint();
    /// let grant = table.try_acquire(&1, me, Duration::from_secs(5))?.into_grant();
    /// assert_eq!(grant.token(), table.inspect(&1).unwrap().token);
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    #[must_use]
    pub fn token(self) -> Token {
        self.token
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
    /// let grant = table.try_acquire(&1, me, Duration::from_secs(5))?.into_grant();
    /// assert_eq!(grant.holder(), me);
    /// # Ok::<(), leasehold::AcquireError>(())
    /// ```
    #[must_use]
    pub fn holder(self) -> HolderId {
        self.holder
    }
}

impl core::fmt::Debug for Grant {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Grant")
            .field("table", &self.table)
            .field("token", &self.token)
            .field("holder", &self.holder)
            .finish_non_exhaustive()
    }
}
