//! What it costs that leases end in time: sweeps, events, and nothing at all for those who ask for neither.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{Grant, LeaseTable, ManualClock};

use crate::cells::{pair, read_clock};
use crate::leases::{Keys, TERM, holder, key};
use crate::measure::{Figure, Pace, Round, Side, quantile};
use crate::report::Report;

/// Leases that are swept.
pub(crate) const LEASES: usize = 1_000_000;
/// Their terms lie anywhere below.
pub(crate) const SPAN: Duration = Duration::from_secs(10);
/// How far the clock goes between two sweeps.
pub(crate) const STEP: Duration = Duration::from_millis(1);
const BUDGET: usize = 256;

pub(crate) type Table = LeaseTable<u64, leasehold::DefaultHashBuilder, ManualClock>;

/// The hot path of a table without a listener, against the same code built without events.
pub(crate) fn listener_none(report: &mut Report, pace: Pace) {
    let table = LeaseTable::<u64>::new();
    let resource = table.resource(&1).expect("a new table");
    let ours = || {
        let lease = resource.try_acquire(holder(0), TERM).expect("nobody else asks");
        black_box(lease.token());
        lease.release().expect("nobody else asks");
    };
    let before = leasehold_without_events::LeaseTable::<u64>::new();
    let before = before.resource(&1).expect("a new table");
    let me = leasehold_without_events::HolderId::new(1).expect("not 0");
    let theirs = || {
        let lease = before.try_acquire(me, TERM).expect("nobody else asks");
        black_box(lease.token());
        lease.release().expect("nobody else asks");
    };
    pair(report, pace, "listener_none/before", ours, theirs);
}

/// Sweeps until nothing is due, and says how long that took.
pub(crate) fn sweep(table: &Table) -> Duration {
    let start = Instant::now();
    while table.sweep(BUDGET).expect("nobody else sweeps").more {}
    start.elapsed()
}

/// A term anywhere below the span, the same in every run.
pub(crate) fn term(index: usize) -> Duration {
    let micros = SPAN.as_micros() as u64;
    Duration::from_micros(1 + key(index).rotate_left(17) % micros)
}

/// A table that counts the ends that its listener is told of.
pub(crate) fn table_with_listener() -> (Table, ManualClock, Arc<AtomicU64>) {
    let (clock, told) = (ManualClock::new(), Arc::new(AtomicU64::new(0)));
    let counter = told.clone();
    let table = LeaseTable::builder()
        .clock(clock.clone())
        .listener(move |ended| {
            black_box(ended);
            // Relaxed: it only counts.
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .build()
        .expect("the default settings");
    (table, clock, told)
}

/// Every lease lapses, at scattered times, and the listener is told of each.
pub(crate) fn lapses(report: &mut Report, pace: Pace) {
    let name = "sweep_per_lapse/clock";
    if !report.wants(name) {
        return;
    }
    let (mut ours, mut clock) = (Vec::new(), Vec::new());
    let mut read = Side::repeat("clock", read_clock());
    for _ in 0..pace.repetitions.clamp(2, 7) {
        ours.push(lapse_all());
        clock.push(read.nanos_each(Round { number: 0, operations: 100_000 }));
    }
    let ours = vec![undisturbed(&ours) / LEASES as f64; clock.len()];
    report.times(name, Figure::of(&ours, &clock));
}

/// The sum, over steps that every repetition takes alike, of each step's median: whatever interrupted one of
/// them falls out.
fn undisturbed(repetitions: &[Vec<f64>]) -> f64 {
    let step =
        |index| quantile(&mut repetitions.iter().map(|all| all[index]).collect::<Vec<_>>(), 0.5);
    (0..repetitions[0].len()).map(step).sum()
}

/// How long each sweep took, in nanoseconds.
fn lapse_all() -> Vec<f64> {
    let (table, clock, told) = table_with_listener();
    for index in 0..LEASES {
        let lease = table.try_acquire(&key(index), holder(0), term(index)).expect("a new key");
        std::mem::forget(lease);
    }
    let steps = SPAN.as_nanos() / STEP.as_nanos() + 2;
    let swept = (0..steps).map(|_| {
        clock.advance(STEP);
        sweep(&table).as_nanos() as f64
    });
    let swept = swept.collect();
    assert_eq!(told.load(Ordering::Relaxed), LEASES as u64, "an event for each");
    swept
}

/// Every lease is renewed when a third of its term is over, and none lapses: how much of the time that
/// passes is spent sweeping.
pub(crate) fn steady(report: &mut Report, pace: Pace) {
    let name = "sweep_steady";
    if !report.wants(name) {
        return;
    }
    let (table, clock, told) = table_with_listener();
    let grants: Vec<Grant> = (0..LEASES)
        .map(|index| {
            // Spread over the time between two renewals, as they are when they were granted one by one.
            if index % (LEASES / THIRDS) == 0 {
                clock.advance(SPAN / 3 / THIRDS as u32);
            }
            table.try_acquire(&key(index), holder(0), SPAN).expect("a new key").into_grant()
        })
        .collect();
    let leases: Vec<_> = grants
        .into_iter()
        .map(|grant| leasehold::Lease::from_grant(&table, grant).expect("it is held"))
        .collect();
    let third = || {
        let parts = leases.chunks(LEASES / THIRDS).map(|part| {
            clock.advance(SPAN / 3 / THIRDS as u32);
            part.iter().for_each(|lease| lease.renew(SPAN).expect("it is held"));
            sweep(&table).as_nanos() as f64
        });
        parts.collect::<Vec<_>>()
    };
    // The first terms are not steady yet, and pages are looked at in every second or third third.
    drop((third(), third(), third()));
    let spans = (0..pace.repetitions.clamp(2, 7)).map(|_| [third(), third(), third()].concat());
    let nanos = undisturbed(&spans.collect::<Vec<_>>());
    assert_eq!(told.load(Ordering::Relaxed), 0, "none lapsed");
    report.amount(name, "share", nanos / SPAN.as_nanos() as f64);
}

/// Into how many parts a third of a term is divided, for the renewals.
const THIRDS: usize = 1_000;

/// Keys that are granted while others lapse.
const GRANTED: std::ops::Range<usize> = LEASES..LEASES + 65_536;

/// The slow grants while a million leases lapse within a second and a thread sweeps them, against the same
/// while nothing lapses.
pub(crate) fn grants_while_sweeping(report: &mut Report, pace: Pace) {
    let name = "grant_while_sweeping/grant";
    if !report.wants(name) {
        return;
    }
    let (mut busy, mut calm) = (Vec::new(), Vec::new());
    for _ in 0..pace.repetitions.div_ceil(4) {
        busy.push(slow_grants(true));
        calm.push(slow_grants(false));
    }
    report.times(name, Figure::of(&busy, &calm));
}

/// The 99th percentile of grants of a second, in nanoseconds.
fn slow_grants(lapsing: bool) -> f64 {
    let told = Arc::new(AtomicU64::new(0));
    let counter = told.clone();
    let table = LeaseTable::<u64>::builder()
        .sweeper(leasehold::Sweeper::new())
        .listener(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .events(leasehold::Causes::of(leasehold::EndCause::Lapsed))
        .retention(TERM)
        .build()
        .expect("settings that agree");
    let setup = Duration::from_millis(1500);
    let start = Instant::now();
    for index in 0..LEASES {
        // All within the second after the setup; on a slow machine some of them before.
        let lapses_at = setup + term(index) / 10;
        let left = lapses_at.saturating_sub(start.elapsed()).max(Duration::from_millis(1));
        let term = if lapsing { left } else { TERM };
        std::mem::forget(table.try_acquire(&key(index), holder(0), term).expect("a new key"));
    }
    let mut keys = Keys::new(GRANTED, 1, 0);
    GRANTED.for_each(|index| drop(table.try_acquire(&key(index), holder(1), TERM)));
    std::thread::sleep(setup.saturating_sub(start.elapsed()));
    let mut nanos = Vec::with_capacity(16 << 20);
    let (start, second) = (Instant::now(), Duration::from_secs(1));
    loop {
        let before = Instant::now();
        if before - start > second {
            break;
        }
        let lease = table.try_acquire(&keys.draw(), holder(1), TERM).expect("nobody else asks");
        nanos.push(before.elapsed().as_nanos() as f64);
        drop(lease);
    }
    // Relaxed: it only counts.
    assert_eq!(told.load(Ordering::Relaxed) > 0, lapsing, "they lapsed, or none did");
    quantile(&mut nanos, 0.99)
}
