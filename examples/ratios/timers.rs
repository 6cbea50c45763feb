//! What it costs in all that a lease ends by itself (grant, two renewals, lapse, somebody told), against a
//! timer that is set, reset twice and fired, without any lease.

use std::future::poll_fn;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};

use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};
use tokio_util::time::DelayQueue;

use crate::expiry::{SPAN, STEP, sweep, table_with_listener, term};
use crate::leases::{holder, key};
use crate::measure::{Figure, Pace};
use crate::report::Report;

const DELAY_QUEUE: &str = "timers/delayqueue";
const HASH_WHEEL: &str = "timers/hhwt";

/// Between a grant and a renewal, and two renewals.
const PAUSE: Duration = Duration::from_secs(1);

const DELAY_QUEUE_WHOLE: &str = "timers_whole/delayqueue";
const HASH_WHEEL_WHOLE: &str = "timers_whole/hhwt";

pub(crate) fn timers(report: &mut Report, pace: Pace) {
    let cells = [DELAY_QUEUE, HASH_WHEEL, DELAY_QUEUE_WHOLE, HASH_WHEEL_WHOLE];
    if !cells.into_iter().any(|cell| report.wants(cell)) {
        return;
    }
    let leases = if pace.repetitions < 7 { 200_000 } else { 1_000_000 };
    let (mut timing, mut whole, mut queue, mut wheel) = (vec![], vec![], vec![], vec![]);
    for _ in 0..pace.repetitions.clamp(2, 5) {
        let (operations, sweeps) = table(leases);
        // What the same operations take where nothing is timed.
        let plain = plain(leases);
        timing.push((operations - plain).max(0.0) + sweeps);
        whole.push(operations + sweeps);
        queue.push(delay_queue(leases));
        wheel.push(hash_wheel(leases));
    }
    report.times(DELAY_QUEUE, Figure::of(&timing, &queue));
    report.times(HASH_WHEEL, Figure::of(&timing, &wheel));
    report.times(DELAY_QUEUE_WHOLE, Figure::of(&whole, &queue));
    report.times(HASH_WHEEL_WHOLE, Figure::of(&whole, &wheel));
}

/// Adds up how long things take.
struct Watch {
    spent: Duration,
    each: f64,
}

impl Watch {
    fn new(things: usize) -> Self {
        Self { spent: Duration::ZERO, each: things as f64 }
    }

    fn time<R>(&mut self, act: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let done = act();
        self.spent += start.elapsed();
        done
    }

    fn nanos_each(&self) -> f64 {
        self.spent.as_nanos() as f64 / self.each
    }
}

/// Longer than two pauses, so that nothing fires before it was reset twice.
fn delay(index: usize) -> Duration {
    term(index) + 3 * PAUSE
}

fn steps() -> u128 {
    (SPAN + 3 * PAUSE).as_nanos() / STEP.as_nanos() + 2
}

/// Grants each lease, and renews it twice; returns the leases.
macro_rules! grant_and_renew {
    ($table:expr, $clock:expr, $holder:expr, $leases:expr, $watch:expr) => {{
        let grant = |index| {
            $table.try_acquire(&key(index), $holder, delay(index)).expect("nobody else asks")
        };
        let held: Vec<_> = $watch.time(|| (0..$leases).map(grant).collect());
        for _ in 0..2 {
            $clock.advance(PAUSE);
            $watch.time(|| {
                for (index, lease) in held.iter().enumerate() {
                    lease.renew(delay(index)).expect("it is held");
                }
            });
        }
        held
    }};
}

/// What grants and renewals take, and what sweeps take.
fn table(leases: usize) -> (f64, f64) {
    let (table, clock, told) = table_with_listener();
    let (mut operations, mut sweeps) = (Watch::new(leases), Watch::new(leases));
    let held = grant_and_renew!(table, clock, holder(0), leases, operations);
    held.into_iter().for_each(std::mem::forget);
    for _ in 0..steps() {
        clock.advance(STEP);
        sweeps.spent += sweep(&table);
    }
    assert_eq!(told.load(Ordering::Relaxed), leases as u64, "an event for each");
    (operations.nanos_each(), sweeps.nanos_each())
}

/// What grants and renewals take in the build without sweeps and events.
fn plain(leases: usize) -> f64 {
    use leasehold_without_events::{HolderId, LeaseTable, ManualClock};
    let clock = ManualClock::new();
    let table = LeaseTable::<u64>::builder().clock(clock.clone()).build().expect("the defaults");
    let me = HolderId::new(1).expect("not 0");
    let mut watch = Watch::new(leases);
    let held = grant_and_renew!(table, clock, me, leases, watch);
    held.into_iter().for_each(std::mem::forget);
    watch.nanos_each()
}

/// Behind a mutex, as threads would share it. The time that tokio's own clock takes is not counted.
fn delay_queue(timers: usize) -> f64 {
    let paused = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    paused.block_on(async {
        let mut watch = Watch::new(timers);
        let queue = Mutex::new(DelayQueue::new());
        let insert = |index| queue.lock().expect("no panics").insert(key(index), delay(index));
        let keys: Vec<_> = watch.time(|| (0..timers).map(insert).collect());
        for _ in 0..2 {
            tokio::time::advance(PAUSE).await;
            watch.time(|| {
                for (index, key) in keys.iter().enumerate() {
                    queue.lock().expect("no panics").reset(key, delay(index));
                }
            });
        }
        let mut fired = 0;
        for _ in 0..steps() {
            tokio::time::advance(STEP).await;
            fired += poll_fn(|cx| {
                let mut fired = 0;
                watch.time(|| {
                    while let Poll::Ready(Some(expired)) =
                        queue.lock().expect("no panics").poll_expired(cx)
                    {
                        black_box(expired.into_inner());
                        fired += 1;
                    }
                });
                Poll::Ready(fired)
            })
            .await;
        }
        assert_eq!(fired, timers, "each fired");
        watch.nanos_each()
    })
}

#[derive(Debug)]
struct Timer(u64);

impl CancellableTimerEntry for Timer {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.0
    }
}

/// Without a mutex, as it is not made to be shared. A reset is a cancellation and another insertion.
fn hash_wheel(timers: usize) -> f64 {
    let mut watch = Watch::new(timers);
    let mut wheel = QuadWheelWithOverflow::new();
    let set = |wheel: &mut QuadWheelWithOverflow<Timer>, index| {
        let timer = Rc::new(Timer(key(index)));
        wheel.insert_ref_with_delay(timer, delay(index)).expect("a new timer");
    };
    watch.time(|| (0..timers).for_each(|index| set(&mut wheel, index)));
    for _ in 0..2 {
        for _ in 0..PAUSE.as_millis() {
            wheel.tick();
        }
        watch.time(|| {
            for index in 0..timers {
                wheel.cancel(&key(index)).expect("it is set");
                set(&mut wheel, index);
            }
        });
    }
    let mut fired = 0;
    for _ in 0..steps() {
        watch.time(|| {
            for timer in wheel.tick() {
                black_box(timer.0);
                fired += 1;
            }
        });
    }
    assert_eq!(fired, timers, "each fired");
    watch.nanos_each()
}
