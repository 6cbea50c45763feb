//! The cells in which one side's operation is compared with another's.

use std::hint::black_box;
use std::time::Duration;

use leasehold::{Clock, LeaseTable, QuantaClock};

use crate::floor::Floor;
use crate::leases::{Keys, Leases, TERM, holder};
use crate::measure::{Figure, Pace, Side, compare};
use crate::peers::{Dashmap, Mutex64, Papaya, Scc};
use crate::report::Report;
use crate::threads::together;

/// `check`, `renew` and a resolved resource: what costs little more than the clock.
pub(crate) fn handles(report: &mut Report, pace: Pace) {
    let table = LeaseTable::<u64>::new();
    let lease = table.try_acquire(&0, holder(0), TERM).expect("a new table");
    let check = || {
        black_box(lease.check()).expect("it is held");
    };
    pair(report, pace, "check/clock", check, read_clock());

    // The deadline follows the clock, tick by tick: between two ticks there is nothing to store.
    let renew = || {
        black_box(lease.renew(TERM)).expect("it is held");
    };
    pair(report, pace, "renew/clock", renew, read_clock());

    // The deadline moves each time, by more than a tick, so each time it is stored.
    let mut term = TERM;
    let renew_moving = || {
        term += Duration::from_micros(2);
        black_box(lease.renew(term)).expect("it is held");
    };
    pair(report, pace, "renew_moving/clock", renew_moving, read_clock());

    let resource = table.resource(&1).expect("a new table");
    let cycle = || {
        let lease = resource.try_acquire(holder(0), TERM).expect("nobody else asks");
        black_box(lease.token());
        lease.release().expect("nobody else asks");
    };
    let mut floor = Floor::default();
    pair(report, pace, "grant_release_resource/floor", cycle, || floor.pass());
}

/// One operation of ours against one of another kind, on one thread.
pub(crate) fn pair(
    report: &mut Report,
    pace: Pace,
    name: &str,
    ours: impl FnMut(),
    reference: impl FnMut(),
) {
    if report.wants(name) {
        let sides = vec![Side::repeat("ours", ours), Side::repeat("reference", reference)];
        for (_, figure) in compare(sides, pace) {
            report.times(name, figure);
        }
    }
}

/// The operation that is one clock read.
pub(crate) fn read_clock() -> impl FnMut() {
    let clock = QuantaClock::default();
    move || {
        black_box(clock.now());
    }
}

/// A refused acquire: somebody else holds each of 16 keys. A map of leases has to lock for writing
/// here too, as it cannot know that it will refuse.
pub(crate) fn refusal(report: &mut Report, pace: Pace) {
    let name = "refuse_key16/dashmap";
    let (ours, theirs) = (LeaseTable::<u64>::with_room(16), Dashmap::with_room(16));
    if report.wants(name) {
        for (_, figure) in compare(vec![refused(&ours), refused(&theirs)], pace) {
            report.times(name, figure);
        }
    }
}

fn refused<L: Leases>(leases: &L) -> Side<'_> {
    let keys = 16;
    leases.hold(keys, holder(1));
    Side::new(L::NAME, move |round| {
        together(1, round.operations, |thread| {
            let (mut keys, holder) = (Keys::new(0..keys, round.number, thread), holder(thread));
            move || {
                let granted = leases.grant_and_release(keys.draw(), holder);
                assert!(!granted, "{}: granted, and somebody held it", L::NAME);
            }
        })
    })
}

/// How many keys are in use, and what the cells call that.
struct Size {
    name: &'static str,
    keys: usize,
    /// What to compare with on one thread besides the peers.
    floor: bool,
    /// Whether to say how we stand to the best of the peers.
    best: bool,
}

const SIZES: [Size; 4] = [
    Size { name: "key16", keys: 16, floor: true, best: false },
    Size { name: "key64k", keys: 65_536, floor: false, best: false },
    Size { name: "key1m", keys: 1_000_000, floor: false, best: true },
    Size { name: "key4m", keys: 4_000_000, floor: false, best: true },
];

const PEERS: [&str; 4] = [Dashmap::NAME, Scc::NAME, Papaya::NAME, Mutex64::NAME];

/// Grant and release by key, against all peers, on one and on two threads that share the keys.
pub(crate) fn sizes(report: &mut Report, pace: Pace) {
    for size in &SIZES {
        let threads: Vec<_> =
            [1, 2].into_iter().filter(|&threads| size.is_wanted(report, threads)).collect();
        if !threads.is_empty() {
            // Built here and dropped before the next size: the largest take a gigabyte and more.
            let contest = Contest::new(size.keys);
            for threads in threads {
                size.run(&contest, threads, report, pace);
            }
        }
    }
}

impl Size {
    fn cell(&self, threads: usize, reference: &str) -> String {
        let suffix = if threads == 2 { "_t2" } else { "" };
        format!("grant_release_{}{suffix}/{reference}", self.name)
    }

    /// Whether any cell of this size and so many threads was asked for.
    fn is_wanted(&self, report: &Report, threads: usize) -> bool {
        let mut references = PEERS.to_vec();
        references.extend((self.floor && threads == 1).then_some("floor"));
        references.extend(self.best.then_some("best"));
        references.iter().any(|reference| report.wants(&self.cell(threads, reference)))
    }

    fn run(&self, contest: &Contest, threads: usize, report: &mut Report, pace: Pace) {
        let mut sides = contest.sides(threads);
        if self.floor && threads == 1 {
            sides.push(floor(self.keys));
        }
        let figures = compare(sides, pace);
        for (reference, figure) in &figures {
            report.times(&self.cell(threads, reference), *figure);
        }
        if self.best {
            report.times(&self.cell(threads, "best"), strongest(&figures));
        }
    }
}

/// Against the peer that stands best against us.
fn strongest(figures: &[(&str, Figure)]) -> Figure {
    let ours_to = figures.iter().map(|(_, figure)| *figure);
    ours_to.max_by(|a, b| a.ratio.total_cmp(&b.ratio)).expect("there are peers")
}

/// Ours and all peers, with the same keys in them.
struct Contest {
    keys: usize,
    ours: LeaseTable<u64>,
    dashmap: Dashmap,
    scc: Scc,
    papaya: Papaya,
    mutex64: Mutex64,
}

impl Contest {
    fn new(keys: usize) -> Self {
        Self {
            keys,
            ours: filled(keys),
            dashmap: filled(keys),
            scc: filled(keys),
            papaya: filled(keys),
            mutex64: filled(keys),
        }
    }

    fn sides(&self, threads: usize) -> Vec<Side<'_>> {
        vec![
            cycle(&self.ours, self.keys, threads),
            cycle(&self.dashmap, self.keys, threads),
            cycle(&self.scc, self.keys, threads),
            cycle(&self.papaya, self.keys, threads),
            cycle(&self.mutex64, self.keys, threads),
        ]
    }
}

fn filled<L: Leases>(keys: usize) -> L {
    let leases = L::with_room(keys);
    leases.fill(keys);
    leases
}

/// Grant and release of random keys, by threads that each go their own way through the same ones.
fn cycle<L: Leases>(leases: &L, keys: usize, threads: usize) -> Side<'_> {
    Side::new(L::NAME, move |round| {
        together(threads, round.operations, |thread| {
            let (mut keys, holder) = (Keys::new(0..keys, round.number, thread), holder(thread));
            move || {
                // Where threads meet, some are refused, on every side: that is an operation, too.
                let granted = leases.grant_and_release(keys.draw(), holder);
                assert!(granted || threads > 1, "{}: refused, and nobody held it", L::NAME);
            }
        })
    })
}

/// The floor, which draws its keys like the others: that is not what is compared.
fn floor(keys: usize) -> Side<'static> {
    let (mut floor, mut keys) = (Floor::default(), Keys::new(0..keys, 0, 0));
    Side::repeat("floor", move || {
        black_box(keys.draw());
        floor.pass();
    })
}
