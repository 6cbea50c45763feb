//! The store that the leases protect: one fenced record a file.
//!
//! It trusts nobody's clock. Every write brings the token of the writer's lease, and a record
//! refuses a token older than the newest that it has seen.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::{Fenced, StaleToken, Token};

use crate::corpus::Hashed;

pub(crate) struct Store {
    records: Vec<Fenced<Record>>,
    stale_rejected: AtomicU64,
    committed_twice: AtomicU64,
}

#[derive(Default)]
struct Record {
    /// How many holders have opened it.
    attempts: u32,
    committed: Option<Hashed>,
}

/// What a new holder finds.
pub(crate) enum Opened {
    /// Nothing yet: this is the holder's to fill, the `attempt`-th that tries.
    Empty { attempt: u32 },
    /// A holder before it did the work.
    Committed,
}

/// What became of a commit that the fence admitted.
pub(crate) enum Commit {
    Stored,
    /// There was one already; the first one stays.
    Twice,
}

impl Store {
    pub(crate) fn new(files: usize) -> Self {
        let records = (0..files).map(|_| Fenced::new(Record::default())).collect();
        let (stale_rejected, committed_twice) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { records, stale_rejected, committed_twice }
    }

    /// Opens a record for the holder of `token` and closes it to every holder before.
    ///
    /// Without this, a late holder could still commit while its successor works, because the fence
    /// would not have seen the newer token yet, and the file would then be committed a second time.
    pub(crate) fn open(&self, file: usize, token: Token) -> Result<Opened, StaleToken> {
        self.write(file, token, |record| {
            record.attempts += 1;
            match record.committed {
                None => Opened::Empty { attempt: record.attempts },
                Some(_) => Opened::Committed,
            }
        })
    }

    /// Commits a file's hash under `token`.
    pub(crate) fn commit(
        &self,
        file: usize,
        token: Token,
        hashed: Hashed,
    ) -> Result<Commit, StaleToken> {
        self.write(file, token, |record| match record.committed {
            None => {
                record.committed = Some(hashed);
                Commit::Stored
            }
            Some(_) => {
                // Relaxed, here and below: statistics, read when the workers have been joined.
                self.committed_twice.fetch_add(1, Ordering::Relaxed);
                Commit::Twice
            }
        })
    }

    /// Whether the file has its hash. Anybody may ask, without a lease.
    pub(crate) fn is_committed(&self, file: usize) -> bool {
        self.records[file].read(|record| record.committed.is_some())
    }

    /// What was committed for each file, in the order of the files.
    pub(crate) fn committed(&self) -> impl Iterator<Item = Option<Hashed>> {
        self.records.iter().map(|record| record.read(|record| record.committed))
    }

    /// How many writes came too late and were refused.
    pub(crate) fn stale_rejected(&self) -> u64 {
        self.stale_rejected.load(Ordering::Relaxed)
    }

    /// How many commits the fence admitted for a file that had one.
    pub(crate) fn committed_twice(&self) -> u64 {
        self.committed_twice.load(Ordering::Relaxed)
    }

    fn write<R>(
        &self,
        file: usize,
        token: Token,
        change: impl FnOnce(&mut Record) -> R,
    ) -> Result<R, StaleToken> {
        self.records[file].write(token, change).inspect_err(|_| {
            self.stale_rejected.fetch_add(1, Ordering::Relaxed);
        })
    }
}
