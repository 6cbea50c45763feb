//! How the table compares with what its operations cannot do without, and with other ways to keep a
//! lease: `cargo run --release --example ratios -- [--quick] [--only SUBSTRING]`.
//!
//! Everything is measured in this one run, in turn, and each cell of the performance page is one
//! line: `cell <name> ours_ns <x> ref_ns <y> ratio <x/y>`. At the end there is a line for each
//! level that was to be held, and whether it was. The exit status does not tell: a busy machine is
//! no error.

mod cells;
mod expiry;
mod floor;
mod growth;
mod handover;
mod leases;
mod measure;
mod memory;
mod peers;
mod report;
mod threads;
mod timers;
mod wheel;

use lexopt::ValueExt;
use measure::Pace;
use report::Report;

const HELP: &str = "\
Measures the table against the clock and other maps, and prints one line a cell.

Usage: ratios [--quick] [--only SUBSTRING]

  --quick           fewer and shorter rounds: under a minute, and less steady
  --only SUBSTRING  only the cells with this in their names, say `key1m` or `/dashmap`";

/// How to read the lines.
const LEGEND: &str = "\
# ours_ns, ref_ns: medians over rounds of nanoseconds an operation; ratio: median of their ratios
# _t2: two threads on the same keys; an operation is wall time x 2 / operations of both
# floor: one clock read and two 64-bit compare-exchanges on one word
# best: the peer that is strongest against leasehold there
# grow_*: single grants, medians over repetitions
# sweep_per_lapse: of a million leases that lapse, each told of; sweep_steady: share of the time that
#   passes, while a million leases are renewed and none lapses
# grant_while_sweeping: 99th percentile, while a million leases lapse within a second
# timers: grant, two renewals, lapse and an event, against a timer set, reset twice and fired
# wheel: an entry filed and fired, of a million, without a table
# handover: from a release to the return of a thread that had parked; handover_async: two tasks that pass a
#   resource to and fro, each time; waiters_1000: each of so many, from queueing to the end of its lease
# bytes_per_waiter: in the table's lists, and the future itself";

fn main() -> Result<(), lexopt::Error> {
    let (mut pace, mut only) = (Pace::FULL, None);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            lexopt::Arg::Long("quick") => pace = Pace::QUICK,
            lexopt::Arg::Long("only") => only = Some(arguments.value()?.string()?),
            lexopt::Arg::Short('h') | lexopt::Arg::Long("help") => {
                println!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected()),
        }
    }
    run(Report::new(only), pace);
    Ok(())
}

fn run(mut report: Report, pace: Pace) {
    println!("{LEGEND}");
    cells::handles(&mut report, pace);
    cells::refusal(&mut report, pace);
    cells::sizes(&mut report, pace);
    growth::growth(&mut report, pace);
    memory::memory(&mut report);
    expiry::listener_none(&mut report, pace);
    expiry::lapses(&mut report, pace);
    expiry::steady(&mut report, pace);
    expiry::grants_while_sweeping(&mut report, pace);
    timers::timers(&mut report, pace);
    wheel::wheel(&mut report, pace);
    handover::handover(&mut report, pace);
    report.finish();
}
