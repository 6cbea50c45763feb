//! Waiting for leases, against a plain queue for each resource.
//!
//! The model, and what does the operations and compares, are those of the library's own test: there, random
//! numbers choose the operations; here, the input does.

mod input;

#[path = "../../../tests/common/mod.rs"]
mod common;
#[path = "../../../tests/waiting_model/driver/mod.rs"]
mod driver;
#[path = "../../../tests/waiting_model/model.rs"]
#[allow(unreachable_pub, dead_code, reason = "it is written for a test")]
mod model;

use leasehold::ManualClock;

pub use self::input::Input;

use self::driver::{Op, Simulation};
use self::input::Newest;

/// What one run may cost, in operations: enough to use up stamps and to split pages, in the tiny build.
const WORK_MAX: u64 = 400;

/// Builds a table, does what the input says, and panics where the model disagrees.
pub fn run(input: &Input) {
    let settings = input.settings();
    let clock = ManualClock::new();
    let table = settings.build(&clock);
    let mut simulation = Simulation::new(settings, &table, &clock);
    let mut work = 0;
    for step in input.steps() {
        // They are added at the end.
        let (futures, leases) = simulation.chances();
        let newest = Newest { future: futures, lease: leases.saturating_sub(1) };
        for op in step.ops(settings.keys, newest).into_iter().flatten() {
            work += if let Op::Churn { count } = op { count } else { 1 };
            if work > WORK_MAX {
                break;
            }
            simulation.step(op);
            simulation.compare();
        }
    }
    simulation.finish();
    drop(table);
    super::collect();
}
