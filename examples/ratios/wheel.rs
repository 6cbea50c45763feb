//! The timer wheel against the sorted map that one would use instead.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use leasehold::wheel::Wheel;

use crate::measure::{Figure, Pace};
use crate::report::Report;

const NAME: &str = "wheel/btreemap";

const ENTRIES: u32 = 1_000_000;
/// Over how many ticks the entries are scattered: ten seconds of about a microsecond each.
const SPAN: u64 = 10_000_000;
/// By how much time goes on in a step: a millisecond.
const STEP: u64 = 1_000;
/// Neither side begins at a tick that would suit it.
const START: u64 = 0x1234_5678_9abc;

/// Files a million entries and fires them, both sides in turn: nanoseconds an entry.
pub(crate) fn wheel(report: &mut Report, pace: Pace) {
    if !report.wants(NAME) {
        return;
    }
    // A round is most of a second, so a quick run has time for two.
    let rounds = pace.repetitions / 2 + 1;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let ticks = ticks(round as u64);
        if round % 2 == 0 {
            ours.push(nanos_each(|| through_wheel(&ticks)));
            theirs.push(nanos_each(|| through_map(&ticks)));
        } else {
            theirs.push(nanos_each(|| through_map(&ticks)));
            ours.push(nanos_each(|| through_wheel(&ticks)));
        }
    }
    report.times(NAME, Figure::of(&ours, &theirs));
}

fn nanos_each(through: impl FnOnce() -> Fired) -> f64 {
    let start = Instant::now();
    let fired = through();
    let taken: Duration = start.elapsed();
    let all = (0..u64::from(ENTRIES)).sum();
    assert_eq!((fired.count, fired.ids), (ENTRIES, all), "each is fired once");
    taken.as_nanos() as f64 / f64::from(ENTRIES)
}

/// Scattered ticks, the same for both sides.
fn ticks(seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut draw = || {
        // SplitMix64, by Steele, Lea and Flood.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        START + 1 + (mixed ^ (mixed >> 31)) % SPAN
    };
    (0..ENTRIES).map(|_| draw()).collect()
}

/// What came out, so that nothing of it can be left out.
#[derive(Default)]
struct Fired {
    count: u32,
    ids: u64,
}

impl Fired {
    fn add(&mut self, id: u32) {
        self.count += 1;
        self.ids += u64::from(id);
    }
}

fn steps() -> impl Iterator<Item = u64> {
    (START..=START + SPAN).step_by(STEP as usize)
}

fn through_wheel(ticks: &[u64]) -> Fired {
    let mut wheel = Wheel::starting_at(START);
    for (id, &tick) in (0..).zip(ticks) {
        wheel.insert(tick, id);
    }
    let mut fired = Fired::default();
    for now in steps() {
        while let Some(due) = wheel.pop_due(now) {
            fired.add(due.id);
        }
    }
    fired
}

/// The number behind the tick keeps entries of one tick apart, and in their order.
fn through_map(ticks: &[u64]) -> Fired {
    let mut map = BTreeMap::new();
    for (id, &tick) in (0_u32..).zip(ticks) {
        map.insert((tick, u64::from(id)), id);
    }
    let mut fired = Fired::default();
    for now in steps() {
        while let Some(first) = map.first_entry() {
            if first.key().0 > now {
                break;
            }
            fired.add(first.remove());
        }
    }
    fired
}
