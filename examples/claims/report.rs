//! The summary of a run, and the verdict on it.

use std::fmt;
use std::time::Duration;

use leasehold::Stats;

use crate::corpus::{Corpus, Hashed};
use crate::pool::Tally;
use crate::store::Store;

pub(crate) struct Summary {
    files: usize,
    skipped: u64,
    bytes: u64,
    workers: usize,
    tally: Tally,
    stats: Stats,
    late: Vec<Duration>,
    stale_rejected: u64,
    lost_files: usize,
    committed_twice: u64,
    digest: blake3::Hash,
    sequential_digest: blake3::Hash,
    elapsed: Duration,
}

/// How the job was done, apart from its results.
pub(crate) struct Course {
    pub(crate) workers: usize,
    pub(crate) tally: Tally,
    pub(crate) stats: Stats,
    /// How late each lapse was told of, in order.
    pub(crate) late: Vec<Duration>,
    pub(crate) elapsed: Duration,
}

impl Summary {
    /// Compares what the `store` has with what a plain loop found.
    pub(crate) fn new(
        corpus: &Corpus,
        store: &Store,
        sequential: &[Hashed],
        mut course: Course,
    ) -> Self {
        let committed: Vec<Hashed> = store.committed().flatten().collect();
        course.tally.grant_ns.sort_unstable();
        Self {
            files: corpus.len(),
            skipped: corpus.skipped,
            bytes: committed.iter().map(|hashed| hashed.bytes).sum(),
            workers: course.workers,
            tally: course.tally,
            stats: course.stats,
            late: course.late,
            stale_rejected: store.stale_rejected(),
            lost_files: corpus.len() - committed.len(),
            committed_twice: store.committed_twice(),
            digest: corpus.digest(&committed),
            sequential_digest: corpus.digest(sequential),
            elapsed: course.elapsed,
        }
    }

    /// What went wrong, in words; `None` if each file was committed once, and rightly.
    pub(crate) fn complaint(&self) -> Option<String> {
        let (lost, twice) = (self.lost_files, self.committed_twice);
        if lost > 0 {
            Some(format!("{lost} files were never committed"))
        } else if twice > 0 {
            Some(format!("the fence let {twice} files be committed a second time"))
        } else if self.digest != self.sequential_digest {
            Some(
                "the digests differ: a file was changed during the run, or a commit is wrong"
                    .into(),
            )
        } else {
            None
        }
    }

    /// The time within which a share of `permille` of the grants were made; 0 if there were none.
    fn grant_ns(&self, permille: usize) -> u64 {
        quantile(&self.tally.grant_ns, permille)
    }
}

/// The value that a share of `permille` does not exceed; zero if there are none.
fn quantile<T: Copy + Default>(sorted: &[T], permille: usize) -> T {
    let rank = (sorted.len() * permille).div_ceil(1000);
    rank.checked_sub(1).map_or_else(T::default, |index| sorted[index])
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "files: {}", self.files)?;
        writeln!(f, "skipped: {}", self.skipped)?;
        writeln!(f, "bytes: {}", self.bytes)?;
        writeln!(f, "workers: {}", self.workers)?;
        writeln!(f, "crashes: {}", self.tally.crashes)?;
        writeln!(f, "hangs: {}", self.tally.hangs)?;
        writeln!(f, "forgets: {}", self.tally.forgets)?;
        writeln!(f, "grants: {}", self.stats.grants)?;
        writeln!(f, "refusals: {}", self.stats.refusals)?;
        writeln!(f, "lapses: {}", self.stats.lapses)?;
        writeln!(f, "stale_rejected: {}", self.stale_rejected)?;
        writeln!(f, "late_admitted: {}", self.tally.late_admitted)?;
        writeln!(f, "lost_files: {}", self.lost_files)?;
        writeln!(f, "committed_twice: {}", self.committed_twice)?;
        writeln!(f, "digest: {}", self.digest)?;
        writeln!(f, "sequential_digest: {}", self.sequential_digest)?;
        writeln!(f, "grant_p50_ns: {}", self.grant_ns(500))?;
        writeln!(f, "grant_p999_ns: {}", self.grant_ns(999))?;
        writeln!(f, "lapses_told: {}", self.late.len())?;
        writeln!(f, "lapse_late_p99_us: {}", quantile(&self.late, 990).as_micros())?;
        writeln!(f, "elapsed_ms: {}", self.elapsed.as_millis())
    }
}
