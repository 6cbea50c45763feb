//! The pool: what its workers share, and the supervisors that replace them when they crash.

use std::fmt;
use std::io;
use std::panic;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use leasehold::{AcquireError, BuildError, LeaseTable};

use crate::corpus::Corpus;
use crate::faults::Faults;
use crate::queue::Queue;
use crate::store::Store;
use crate::worker::{Ended, Worker};

/// What the workers share. The table alone says who may work on what.
pub(crate) struct Job<'j> {
    pub(crate) corpus: Arc<Corpus>,
    pub(crate) faults: &'j Faults,
    pub(crate) term: Duration,
    pub(crate) table: LeaseTable<PathBuf>,
    pub(crate) store: Arc<Store>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) progress: ProgressBar,
}

/// What happened to the workers in one place of the pool, or in all.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) crashes: u64,
    pub(crate) hangs: u64,
    pub(crate) forgets: u64,
    /// Commits after a hang that nobody had overtaken.
    pub(crate) late_admitted: u64,
    /// How long each acquisition that succeeded took.
    pub(crate) grant_ns: Vec<u64>,
}

impl Tally {
    pub(crate) fn granted(&mut self, took: Duration) {
        self.grant_ns.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn merge(mut self, other: Self) -> Self {
        self.crashes += other.crashes;
        self.hangs += other.hangs;
        self.forgets += other.forgets;
        self.late_admitted += other.late_admitted;
        self.grant_ns.extend(other.grant_ns);
        self
    }
}

/// Why a run came to nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file could be opened at first, and no longer can.
    Read { path: PathBuf, error: io::Error },
    /// The table could not be made.
    Build(BuildError),
    /// The table refused a lease for another reason than that it is held.
    Acquire { name: PathBuf, error: AcquireError },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => {
                write!(f, "{} became unreadable during the run: {error}", path.display())
            }
            Self::Build(error) => write!(f, "no table could be made: {error}"),
            Self::Acquire { name, error } => {
                write!(f, "no lease could be had for {}: {error}", name.display())
            }
        }
    }
}

/// Has `workers` workers do the job, each under a supervisor.
pub(crate) fn run(job: &Job<'_>, workers: usize) -> Result<Tally, Failure> {
    thread::scope(|scope| {
        let supervisors: Vec<_> = (0..workers).map(|_| scope.spawn(|| supervise(job))).collect();
        let mut total = Ok(Tally::default());
        for supervisor in supervisors {
            let tally = supervisor.join().unwrap_or_else(|payload| panic::resume_unwind(payload));
            total = total.and_then(|total| Ok(total.merge(tally?)));
        }
        total
    })
}

/// Keeps one place of the pool filled: a worker that crashes is followed by a new one. The
/// supervisor neither knows nor needs to know what the dead one held; that lapses.
fn supervise(job: &Job<'_>) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    loop {
        let worker = Worker::new(job, &mut tally);
        let ended = thread::scope(|scope| scope.spawn(|| worker.run()).join());
        match ended {
            Ok(Ok(Ended::Crashed)) => {}
            Ok(Ok(Ended::NothingLeft)) => return Ok(tally),
            Ok(Err(failure)) => {
                job.queue.stop();
                return Err(failure);
            }
            Err(payload) => {
                job.queue.stop();
                panic::resume_unwind(payload);
            }
        }
    }
}
