//! A handle that does not keep its table.

use core::fmt;

use super::shared::Core;
use super::{DefaultHashBuilder, LeaseTable};
use crate::clock::QuantaClock;
use crate::sync::std_arc::Weak;

/// A handle of a table that does not keep it: for what the table itself owns, such as its
/// [`listener`](crate::Builder::listener), and for caches.
///
/// # Example
///
/// ```
/// use leasehold::{HolderId, LeaseTable, WeakLeaseTable};
/// use std::sync::{Arc, OnceLock};
/// use std::time::Duration;
///
/// // A listener that grants what ended to somebody else.
/// let slot: Arc<OnceLock<WeakLeaseTable<u64>>> = Arc::default();
/// let (weak, next) = (slot.clone(), HolderId::mint());
/// let table = LeaseTable::<u64>::builder()
///     .listener(move |ended| {
///         let Some(table) = weak.get().and_then(WeakLeaseTable::upgrade) else { return };
///         if let Ok(lease) = table.try_acquire(&ended.key, next, Duration::from_secs(5)) {
///             lease.into_grant(); // The lease goes on.
///         }
///     })
///     .build()?;
/// slot.set(table.downgrade()).unwrap();
///
/// drop(table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?);
/// table.sweep(100)?;
/// assert_eq!(table.inspect(&1).unwrap().holder, Some(next));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakLeaseTable<K, S = DefaultHashBuilder, C = QuantaClock> {
    core: Weak<Core<K, S, C>>,
}

impl<K, S, C> WeakLeaseTable<K, S, C> {
    /// The table; `None` if it is gone.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let weak = table.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(table);
    /// assert!(weak.upgrade().is_none());
    /// ```
    #[must_use]
    pub fn upgrade(&self) -> Option<LeaseTable<K, S, C>> {
        Some(LeaseTable { core: self.core.upgrade()? })
    }
}

impl<K, S, C> LeaseTable<K, S, C> {
    /// A handle that does not keep the table.
    ///
    /// # Example
    ///
    /// See [`WeakLeaseTable`].
    #[must_use]
    pub fn downgrade(&self) -> WeakLeaseTable<K, S, C> {
        WeakLeaseTable { core: crate::sync::std_arc::Arc::downgrade(&self.core) }
    }
}

impl<K, S, C> Clone for WeakLeaseTable<K, S, C> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone() }
    }
}

impl<K, S, C> fmt::Debug for WeakLeaseTable<K, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakLeaseTable").finish_non_exhaustive()
    }
}
