//! A worker: how a lease is acquired, kept, used and given back, and what happens when it is not.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{AcquireError, HolderId, Lease, RenewError};

use crate::corpus::{CHUNK_BYTES, Hashed, hash_file};
use crate::faults::Fault;
use crate::pool::{Failure, Job, Tally};
use crate::store::{Commit, Opened};

/// How long a worker hangs at most, in terms. Usually it is overtaken as soon as the first is over.
const HANG_TERMS: u32 = 2;

pub(crate) struct Worker<'j> {
    job: &'j Job<'j>,
    holder: HolderId,
    tally: &'j mut Tally,
    buffer: Box<[u8]>,
}

/// Why a worker ended.
pub(crate) enum Ended {
    NothingLeft,
    Crashed,
}

/// What a worker does with its lease after an attempt.
enum After {
    Release,
    Forget,
    Crash,
}

impl<'j> Worker<'j> {
    /// A worker with an identity of its own: to the table, the one that it replaces is a stranger.
    pub(crate) fn new(job: &'j Job<'j>, tally: &'j mut Tally) -> Self {
        Self { job, holder: HolderId::mint(), tally, buffer: vec![0; CHUNK_BYTES].into() }
    }

    /// Works until every file is committed, or until it crashes.
    pub(crate) fn run(mut self) -> Result<Ended, Failure> {
        while let Some(file) = self.job.queue.next() {
            if self.job.store.is_committed(file) {
                continue;
            }
            let Some(lease) = self.acquire(file)? else { continue };
            match self.attempt(file, &lease)? {
                After::Release => drop(lease),
                After::Forget => mem::forget(lease),
                // Forgotten, because a mere panic would release the lease as it unwinds. What is to
                // be shown is the worker that never gets to do that.
                After::Crash => {
                    mem::forget(lease);
                    return Ok(Ended::Crashed);
                }
            }
        }
        Ok(Ended::NothingLeft)
    }

    /// Asks for the lease of a file; `None` if somebody else has it.
    fn acquire(&mut self, file: usize) -> Result<Option<Lease<'j, PathBuf>>, Failure> {
        let job = self.job;
        let name = job.corpus.name(file);
        let asked = Instant::now();
        match job.table.try_acquire(name, self.holder, job.term) {
            Ok(lease) => {
                self.tally.granted(asked.elapsed());
                Ok(Some(lease))
            }
            // Whoever holds it commits it, or lets its lease lapse: then it comes back.
            Err(AcquireError::Held(_)) => Ok(None),
            Err(error) => Err(Failure::Acquire { name: name.to_owned(), error }),
        }
    }

    /// One attempt at a file under its lease, which may not last as long as the work does.
    fn attempt(&mut self, file: usize, lease: &Lease<'_, PathBuf>) -> Result<After, Failure> {
        let (job, token) = (self.job, lease.token());
        // The store hears of the new token before any work is done: from here on no earlier holder
        // can commit, however late it wakes up.
        let Ok(Opened::Empty { attempt }) = job.store.open(file, token) else {
            return Ok(After::Release);
        };
        let fault = job.faults.draw(job.corpus.name(file), attempt);
        let hashed = match self.hash(file, lease, fault) {
            Ok(hashed) => hashed,
            Err(Stopped::Lost) => return Ok(After::Release),
            Err(Stopped::Crashed) => {
                self.tally.crashes += 1;
                return Ok(After::Crash);
            }
            Err(Stopped::Io(error)) => {
                return Err(Failure::Read { path: job.corpus.path(file), error });
            }
        };
        if fault == Fault::ForgetWork {
            self.tally.forgets += 1;
            return Ok(After::Forget);
        }
        if fault == Fault::Hang {
            self.hang(file);
        }
        // No `check` here: the lease could end between the check and the commit. The token goes
        // along and the store decides.
        if let Ok(Commit::Stored) = job.store.commit(file, token, hashed) {
            job.queue.committed();
            job.progress.inc(1);
            self.tally.late_admitted += u64::from(fault == Fault::Hang);
        }
        if fault == Fault::ForgetRelease {
            self.tally.forgets += 1;
            return Ok(After::Forget);
        }
        Ok(After::Release)
    }

    /// Hashes a file and keeps its lease alive meanwhile.
    fn hash(
        &mut self,
        file: usize,
        lease: &Lease<'_, PathBuf>,
        fault: Fault,
    ) -> Result<Hashed, Stopped> {
        let term = self.job.term;
        hash_file(&self.job.corpus.path(file), &mut self.buffer, || {
            if fault == Fault::Crash {
                return Err(Stopped::Crashed);
            }
            keep(lease, term).map_err(|_| Stopped::Lost)
        })
    }

    /// Sleeps past the term, as a stopped process or a long page fault would, and on until somebody
    /// else has committed the file. Where nobody does (all the others hang too, or there are none),
    /// it ends nevertheless, and the commit that follows is late but, as the newest, admitted.
    fn hang(&mut self, file: usize) {
        let term = self.job.term;
        self.tally.hangs += 1;
        let began = Instant::now();
        thread::sleep(term);
        while !self.job.store.is_committed(file) && began.elapsed() < HANG_TERMS * term {
            thread::sleep(term / 8);
        }
    }
}

/// Why the hashing of a file stopped before its end.
enum Stopped {
    Io(io::Error),
    Lost,
    Crashed,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Renews the lease when a third of its term has passed: late enough to cost nothing, early enough
/// for two more tries. An error says that the work is for nothing; somebody else will do it.
fn keep(lease: &Lease<'_, PathBuf>, term: Duration) -> Result<(), RenewError> {
    if lease.remaining() > term - term / 3 {
        return Ok(());
    }
    lease.renew(term)
}
