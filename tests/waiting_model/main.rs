//! Random schedules of waiting, against a plain model with a queue for each resource.
//!
//! - 45, and with it 29 to 31, 34 and 35: who is granted, refused, woken, and how often, who holds, who waits and
//!   since when, is what the model says after every operation. A failure prints its seed and what was done;
//!   `LEASEHOLD_SEED` replays it, and `LEASEHOLD_FULL=1` tries many more.
//!
//! The clock often goes to the very deadline of a lease. `driver` does what is chosen here; a fuzz target has it do
//! what it finds.
#![cfg(not(leasehold_loom))]

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod model;

use std::time::Duration;

use common::*;
use driver::{Op, Settings, Simulation};
use leasehold::ManualClock;

const HOLDERS: u64 = 6;
const HOUR_TICKS: u64 = HOUR.as_micros() as u64;

fn choose(rng: &mut Rng, keys: usize, (futures, leases): (usize, usize)) -> Op {
    let key = rng.below(keys as u64) as usize;
    let holder = 1 + rng.below(HOLDERS);
    let ticks = if rng.one_in(40) { rng.of_bits(41) } else { 1 + rng.below(12) };
    let future = rng.below(futures.max(1) as u64) as usize;
    let lease = rng.below(leases.max(1) as u64) as usize;
    let has = (futures > 0, leases > 0);
    match (rng.below(44), has) {
        (0..=2, _) => Op::TryAcquire { key, holder, ticks, times_out: rng.one_in(4) },
        (3..=8, _) => Op::Wait { key, holder, ticks, owned: rng.one_in(3) },
        (9 | 10, _) => {
            let keys = [key, rng.below(keys as u64) as usize, rng.below(keys as u64) as usize];
            Op::WaitForAll { keys, holder, ticks }
        }
        (11..=22, (true, _)) => Op::Poll { future, anew: rng.one_in(4) },
        (23 | 24, (true, _)) => Op::DropFuture { future },
        (25..=29, (_, true)) => Op::Release { lease },
        (30, (_, true)) => Op::Forget { lease },
        (31, (_, true)) => Op::Check { lease },
        (32 | 33, (_, true)) => Op::Renew { lease, ticks },
        (34, _) => Op::Revoke { key, grace: None },
        (35, _) => Op::Revoke { key, grace: Some(ticks - 1) },
        (36, _) if rng.one_in(20) => Op::Advance { ticks: rng.of_bits(44) },
        (36, _) => Op::Advance { ticks },
        (37 | 38, _) => Op::AdvanceTo { key, beyond: rng.below(2) },
        (39, _) if rng.one_in(4) => Op::Churn { count: SLOTS },
        (40, _) if rng.one_in(20) => Op::Close,
        (40, _) => Op::StepBack { ticks, far: rng.one_in(2) },
        (41, _) => Op::Report,
        _ => Op::Sweep,
    }
}

/// Says what was done and how to replay it, if the test panics.
struct Replay {
    seed: u64,
    done: Vec<Op>,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (n, op) in self.done.iter().enumerate() {
                eprintln!("{n:4} {op:?}");
            }
            eprintln!("replay with LEASEHOLD_SEED={}", self.seed);
        }
    }
}

fn run(seed: u64, steps: usize, mut meddle: impl FnMut(usize, &FixedTable)) {
    let mut replay = Replay { seed, done: Vec::new() };
    let mut rng = Rng::new(seed);
    let settings = Settings {
        keys: 4,
        shards: 1 << (seed % 2),
        retention: [HOUR_TICKS, 0, 16, HOUR_TICKS][seed as usize / 2 % 4],
        capacity_max: (seed / 8 % 4 == 3).then(|| 1 + rng.below(5) as usize),
    };
    let clock = ManualClock::new();
    let table = settings.build(&clock);
    let mut simulation = Simulation::new(settings, &table, &clock);
    for n in 0..steps {
        let op = choose(&mut rng, settings.keys, simulation.chances());
        replay.done.push(op);
        simulation.step(op);
        meddle(n, &table);
        simulation.compare();
    }
    simulation.finish();
}

#[test]
fn inv_45_random_waiting_does_what_plain_queues_do() {
    let only = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = 0..if full() { 1_000_000 } else { 10_000 };
    for seed in only.map_or(seeds, |seed| seed..seed + 1) {
        run(seed, 40, |_, _| {});
    }
}

/// Few and long ones: stamps run out, pages fill.
#[test]
fn inv_45_long_schedules_do_too() {
    for seed in 0..if full() { 1000 } else { 20 } {
        run(1_000_000 + seed, 3000, |_, _| {});
    }
}

/// The model is not blind: one operation behind its back, and it notices.
#[test]
#[should_panic(expected = "resource 0")]
fn inv_45_the_model_notices_what_it_was_not_told() {
    run(1, 200, |n, table| {
        if n % 50 == 20 {
            std::mem::forget(table.acquire_for(&0, holder(7), TERM_MAX, Duration::ZERO));
        }
    });
}
