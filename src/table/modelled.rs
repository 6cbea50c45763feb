//! What models ask, and nobody else needs to know.

use super::LeaseTable;

impl<K, S, C> LeaseTable<K, S, C> {
    /// How many pages are on the stack of those that are to be filed with the sweeper; 100 if it is a ring.
    /// For a model, when no other thread files or sweeps.
    #[doc(hidden)]
    #[must_use]
    pub fn filed_pages(&self) -> usize {
        self.core.filings.count(100)
    }

    /// Whether the sweeper's thread has said until when it sleeps. For a model.
    #[doc(hidden)]
    #[must_use]
    pub fn sweeper_sleeps(&self) -> bool {
        self.core.filings.alarm().is_set()
    }
}
