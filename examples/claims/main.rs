//! A pool of unreliable workers hashes every file below a directory, each file under a lease.
//!
//! By seeded chance workers crash in mid-file, hang past their term and commit late, or forget to
//! release. Their leases lapse, the table's sweeper tells of it, and others take the files over; the
//! store refuses what comes late because its token is stale. At the end every file has been
//! committed exactly once, and the digest of it all is that of a plain loop.
//!
//! ```text
//! cargo run --release --example claims -- --crash 5 --hang 5 --forget 5 DIR
//! ```
//!
//! The use of leases is in `worker.rs`, that of fencing tokens in `store.rs`.

mod args;
mod corpus;
mod faults;
mod lapses;
mod pool;
mod queue;
mod report;
mod store;
mod worker;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{Args, Command, HELP};
use crate::corpus::{CHUNK_BYTES, Corpus, Hashed, hash_file};
use crate::lapses::Lateness;
use crate::pool::{Failure, Job};
use crate::queue::Queue;
use crate::report::{Course, Summary};
use crate::store::Store;

fn main() -> ExitCode {
    let args = match args::parse(lexopt::Parser::from_env()) {
        Ok(Command::Run(args)) => args,
        Ok(Command::Help) => return print(HELP, ExitCode::SUCCESS),
        Err(sentence) => return complain(&sentence, 2),
    };
    match claims(&args) {
        Ok(summary) => match summary.complaint() {
            None => print(&summary.to_string(), ExitCode::SUCCESS),
            Some(complaint) => print(&summary.to_string(), complain(&complaint, 1)),
        },
        Err(failure) => complain(&failure.to_string(), 1),
    }
}

/// Does the job twice, with leases and then without, and compares.
fn claims(args: &Args) -> Result<Summary, Failure> {
    let corpus = Arc::new(Corpus::below(&args.dir));
    let store = Arc::new(Store::new(corpus.len()));
    let queue = Arc::new(Queue::new(corpus.len()));
    let lateness = Lateness::default();
    let job = Job {
        faults: &args.faults,
        term: args.term,
        table: lapses::table(&corpus, &store, &queue, &lateness).map_err(Failure::Build)?,
        corpus: corpus.clone(),
        store,
        queue,
        progress: progress_bar(corpus.len()),
    };
    let began = Instant::now();
    let tally = pool::run(&job, args.workers);
    let elapsed = began.elapsed();
    job.progress.finish_and_clear();
    let course = Course {
        workers: args.workers,
        tally: tally?,
        stats: job.table.stats(),
        late: lateness.sorted(),
        elapsed,
    };

    let sequential = hash_sequentially(&corpus)?;
    Ok(Summary::new(&corpus, &job.store, &sequential, course))
}

/// The same job as a plain loop: what the pool's result has to equal.
fn hash_sequentially(corpus: &Corpus) -> Result<Vec<Hashed>, Failure> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let hash = |file| {
        let path = corpus.path(file);
        hash_file(&path, &mut buffer, || Ok(())).map_err(|error| Failure::Read { path, error })
    };
    (0..corpus.len()).map(hash).collect()
}

/// Counts the committed files on stderr, if that is a terminal; otherwise it draws nothing.
fn progress_bar(files: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {elapsed} ({eta} to go)")
        .expect("the template is well-formed");
    ProgressBar::new(files as u64).with_style(style)
}

/// Writes `text` to stdout. `status` is the exit status, unless the text cannot be written.
fn print(text: &str, status: ExitCode) -> ExitCode {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => status,
        Err(error) => complain(&format!("the result could not be written: {error}"), 1),
    }
}

fn complain(sentence: &str, status: u8) -> ExitCode {
    eprintln!("claims: {sentence}");
    ExitCode::from(status)
}
