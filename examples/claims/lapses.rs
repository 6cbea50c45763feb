//! What becomes of a file whose lease lapsed, and how late that was noticed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::{BuildError, Causes, EndCause, LeaseTable, Sweeper};

use crate::corpus::Corpus;
use crate::queue::Queue;
use crate::store::Store;

/// How long after its deadline each lapse was told of.
#[derive(Clone, Default)]
pub(crate) struct Lateness(Arc<Mutex<Vec<Duration>>>);

impl Lateness {
    fn note(&self, late: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(late);
    }

    /// In order, the shortest first.
    pub(crate) fn sorted(&self) -> Vec<Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_unstable();
        all
    }
}

/// A table whose sweeper puts files back into the queue when the leases on them lapse.
pub(crate) fn table(
    corpus: &Arc<Corpus>,
    store: &Arc<Store>,
    queue: &Arc<Queue>,
    lateness: &Lateness,
) -> Result<LeaseTable<PathBuf>, BuildError> {
    let (corpus, store, queue, lateness) =
        (corpus.clone(), store.clone(), queue.clone(), lateness.clone());
    LeaseTable::<PathBuf>::builder()
        .events(Causes::of(EndCause::Lapsed))
        .listener(move |ended| {
            lateness.note(ended.late);
            let file = corpus.file(&ended.key);
            // Its holder may have committed, and forgotten to release.
            if !store.is_committed(file) {
                queue.put_back(file);
            }
        })
        .sweeper(Sweeper::new())
        .build()
}
