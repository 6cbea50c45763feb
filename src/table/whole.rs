//! The table as a whole: its leases, its figures, and the labels of its holders.

use core::hash::BuildHasher;

use super::{Iter, Key, LeaseTable};
use crate::clock::Clock;
use crate::id::{HolderId, TableId};
use crate::stats::Stats;
use crate::sync::std_arc::Arc;
use crate::word::Word;

impl<K: Key, S: BuildHasher, C: Clock> LeaseTable<K, S, C> {
    /// The leases that are live, with their keys cloned. See [`Iter`] for what one sees while others
    /// go on.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// for (key, info) in &table {
    ///     println!("{key}: token {}, {:?} left", info.token, info.remaining);
    /// }
    /// assert_eq!(table.iter().next().unwrap().1.token, lease.token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Iter<K, S, C> {
        Iter::new(self.core.clone())
    }

    /// How many leases are live. It looks at every slot of the table. While a page is being replaced, it
    /// may count a lease in both its old and its new one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// assert_eq!(table.len(), 1);
    /// drop(lease);
    /// assert_eq!(table.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.core.count(Word::is_valid)
    }

    /// Whether no lease is live. It may look at every slot of the table.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// assert!(!table.is_empty());
    /// drop(lease);
    /// assert!(table.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many resources the table knows, held or not. It looks at every slot, as [`len`](Self::len).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// drop(lease);
    /// assert_eq!((table.len(), table.resources()), (0, 1)); // Known, and held by nobody.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resources(&self) -> usize {
        self.core.count(|word, _| word.is_published() && !word.is_dead())
    }

    /// How much memory the table's pages, directories and wait lists take, in bytes; not what keys own.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// assert!(LeaseTable::<u64>::new().memory_bytes() > 0);
    /// ```
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let of_shard = |shard: &crate::shard::Shard<K>| {
            shard.arena.bytes() as usize + shard.directory.bytes() + shard.waits.bytes()
        };
        self.core.shards.iter().map(|shard| of_shard(shard) + size_of_val(shard)).sum()
    }

    /// What happened so far.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let lease = table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5))?;
    /// assert!(table.try_acquire(&1, HolderId::mint(), Duration::from_secs(5)).is_err());
    /// let stats = table.stats();
    /// assert_eq!((stats.grants, stats.refusals), (1, 1));
    /// # drop(lease);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.stats.snapshot()
    }

    /// This table's number, which its [`Grant`](crate::Grant)s carry.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// assert_eq!(table.id(), table.clone().id());
    /// ```
    #[must_use]
    pub fn id(&self) -> TableId {
        self.core.id
    }

    /// The clock by which it decides.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Clock, LeaseTable};
    /// use std::time::Duration;
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// assert!(table.clock().rate().duration_floor(1) < Duration::from_millis(1));
    /// ```
    #[must_use]
    pub fn clock(&self) -> &C {
        &self.core.clock
    }

    /// Gives a holder a label for people, replacing an earlier one. It is kept until the table goes or
    /// [`unlabel`](Self::unlabel): label workers, not tasks.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let worker = HolderId::mint();
    /// table.label(worker, "indexer 3");
    /// assert_eq!(table.label_of(worker).as_deref(), Some("indexer 3"));
    /// ```
    pub fn label(&self, holder: HolderId, label: impl Into<Arc<str>>) {
        self.core.labels.write().insert(holder, label.into());
    }

    /// Removes a holder's label, and returns it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// let worker = HolderId::mint();
    /// table.label(worker, "indexer 3");
    /// assert_eq!(table.unlabel(worker).as_deref(), Some("indexer 3"));
    /// assert_eq!(table.unlabel(worker), None);
    /// ```
    pub fn unlabel(&self, holder: HolderId) -> Option<Arc<str>> {
        self.core.labels.write().remove(&holder)
    }

    /// A holder's label.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, LeaseTable};
    ///
    /// let table: LeaseTable<u64> = LeaseTable::new();
    /// assert_eq!(table.label_of(HolderId::mint()), None);
    /// ```
    #[must_use]
    pub fn label_of(&self, holder: HolderId) -> Option<Arc<str>> {
        self.core.labels.read().get(&holder).cloned()
    }
}
