//! Wakers whose code panics, blocks, or uses the table: when they are woken, cloned and dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::task::{RawWaker, RawWakerVTable};

use leasehold::{Revoke, WaitError};

use super::common::ends::sweep_all;
use super::common::keys::planned_panic;
use super::*;

/// What is done to a waker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    Clone,
    Wake,
    Drop,
}

const OPS: [Op; 3] = [Op::Clone, Op::Wake, Op::Drop];

/// A waker that does something, once, at one of its operations.
struct Odd {
    op: Op,
    run: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Odd {
    fn happens(&self, op: Op) {
        if op == self.op {
            let run = self.run.lock().unwrap().take();
            if let Some(run) = run {
                run();
            }
        }
    }
}

/// The first such operation from now on runs `run`.
pub(super) fn odd(op: Op, run: impl FnOnce() + Send + 'static) -> Waker {
    let odd = Arc::new(Odd { op, run: Mutex::new(Some(Box::new(run))) });
    // SAFETY: the table below upholds what a waker must: each is one share of the `Arc`.
    unsafe { Waker::from_raw(raw(odd)) }
}

fn raw(odd: Arc<Odd>) -> RawWaker {
    RawWaker::new(Arc::into_raw(odd).cast(), &TABLE)
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_odd);

/// # Safety
///
/// The pointer is that of a waker whose share is not given up.
unsafe fn share(data: *const ()) -> Arc<Odd> {
    // SAFETY: by the contract there is a share, and one more is made.
    unsafe {
        Arc::increment_strong_count(data.cast::<Odd>());
        Arc::from_raw(data.cast::<Odd>())
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: as of a waker.
    let odd = unsafe { share(data) };
    odd.happens(Op::Clone);
    raw(odd)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: as of a waker, which is used up.
    let odd = unsafe { Arc::from_raw(data.cast::<Odd>()) };
    odd.happens(Op::Wake);
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as of a waker.
    unsafe { share(data) }.happens(Op::Wake);
}

unsafe fn drop_odd(data: *const ()) {
    // SAFETY: as of a waker, which is used up.
    let odd = unsafe { Arc::from_raw(data.cast::<Odd>()) };
    odd.happens(Op::Drop);
}

/// Does all that uses a waiter's waker, with one that is odd: a poll, another one, a grant, and a drop.
fn exercise(table: &Table, op: Op, how: usize, run: impl FnOnce() + Send + 'static) {
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let waker = odd(op, run);
    let mut victim = table.acquire_async(&1, holder(2), TERM);
    let mut behind = table.acquire_async(&1, holder(3), TERM);
    let step = |run: &mut dyn FnMut()| drop(catch_unwind(AssertUnwindSafe(run)));
    // It may be granted at once, if the waker ended the lease.
    step(&mut || drop(poll_by(&mut victim, &waker)));
    let mut early = None;
    step(&mut || early = Some(poll(&mut behind)));
    match how {
        // Another waker takes its place.
        0 => step(&mut || drop(poll(&mut victim))),
        1 => step(&mut || _ = table.revoke(&1, Revoke::Now)),
        _ => {}
    }
    let mut victim = Some(victim);
    step(&mut || victim = None);
    step(&mut || _ = table.revoke(&1, Revoke::Now));
    drop(lease);
    // Whatever came of that one: the other is served.
    let mut other = loop {
        match early.take().unwrap_or_else(|| poll(&mut behind)) {
            Poll::Ready(lease) => break Some(lease.unwrap()),
            Poll::Pending => _ = table.revoke(&1, Revoke::Now),
        }
    };
    assert_eq!(other.take().unwrap().holder(), holder(3), "{op:?} {how}");
    let mut waker = Some(waker);
    step(&mut || waker = None);
    assert!(table.waiting().is_empty(), "{op:?} {how}");
}

#[test]
fn inv_32_a_waker_that_panics_harms_nobody_else() {
    for op in OPS {
        for how in 0..3 {
            let (table, _clock) = by_hand();
            exercise(&table, op, how, || planned_panic());
            assert!(table.try_acquire(&1, holder(5), TERM).is_ok());
        }
    }
}

/// Everything that takes the lock of the wait lists, from within a waker.
fn use_all_of(table: &Table, clock: &ManualClock) {
    drop(table.try_acquire(&1, holder(7), TERM));
    drop(table.acquire_for(&1, holder(7), TERM, Duration::ZERO));
    drop(table.acquire_all_for(&[1, 2, 3], holder(7), TERM, Duration::ZERO));
    let mut one = table.acquire_async(&1, holder(8), TERM);
    let mut all = table.acquire_all_async(&[1, 2], holder(8), TERM);
    let (_, waker) = Count::new();
    if poll(&mut one).is_pending() {
        let _ = poll_by(&mut one, &waker);
    }
    if poll(&mut all).is_pending() {
        let _ = poll_by(&mut all, &waker);
    }
    drop((one, all));
    let _ = (table.waiters(&1), table.waiting(), table.deadlocks(), table.memory_bytes());
    let _ = (table.inspect(&1), table.len(), table.sweep(10));
    clock.advance_ticks(1);
    _ = table.revoke(&1, Revoke::Now);
    churn(table, 1000, SLOTS);
}

#[test]
fn inv_32_a_waker_may_use_the_table() {
    for op in OPS {
        for how in 0..3 {
            watched(move || {
                let (table, clock) = by_hand();
                let ran = Arc::new(AtomicU64::new(0));
                let (inner, inner_clock, runs) = (table.clone(), clock.clone(), ran.clone());
                exercise(&table, op, how, move || {
                    use_all_of(&inner, &inner_clock);
                    runs.fetch_add(1, SeqCst);
                });
                let must = op != Op::Wake || how == 1;
                assert!(!must || ran.load(SeqCst) == 1, "{op:?} {how}");
            });
        }
    }
}

/// Also in the sweep, in a close, in somebody's acquisition, and in the last drop of the table.
#[test]
fn inv_32_a_waker_may_use_the_table_wherever_it_is_woken() {
    let ends: [fn(&Table, &ManualClock); 4] = [
        |table, clock| {
            clock.advance(TERM + TICK);
            _ = table.sweep(10).unwrap();
        },
        |table, clock| {
            clock.advance(TERM + TICK);
            drop(table.try_acquire(&1, holder(9), TERM));
        },
        |table, clock| {
            clock.advance(TERM + TICK);
            drop(poll(&mut table.acquire_async(&1, holder(9), TERM)));
        },
        |table, _| table.close(),
    ];
    for (way, end) in ends.into_iter().enumerate() {
        for panics in [false, true] {
            watched(move || {
                let (table, clock) = by_hand();
                std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
                let (inner, inner_clock) = (table.clone(), clock.clone());
                let ran = Arc::new(AtomicU64::new(0));
                let runs = ran.clone();
                let waker = odd(Op::Wake, move || {
                    runs.fetch_add(1, SeqCst);
                    if panics {
                        planned_panic();
                    }
                    if !inner.is_closed() {
                        use_all_of(&inner, &inner_clock);
                    }
                    inner.close();
                });
                let mut wait = table.acquire_async(&1, holder(2), TERM);
                assert!(poll_by(&mut wait, &waker).is_pending());
                let mut all = table.acquire_all_async(&[1], holder(3), TERM);
                let (count, waker) = Count::new();
                assert!(poll_by(&mut all, &waker).is_pending());
                end(&table, &clock);
                assert_eq!(ran.load(SeqCst), 1, "way {way}");
                drop(wait);
                assert_eq!(count.get(), 1, "way {way}: the one behind it is woken, too");
            });
        }
    }
}

/// One that blocks in `wake` holds up who woke it, and nobody else.
#[test]
fn inv_32_a_waker_that_blocks_holds_no_lock() {
    for sweeps in [false, true] {
        watched(move || {
            let (table, clock) = by_hand();
            std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
            let (tell, blocked) = mpsc::channel();
            let (resume, resumed) = mpsc::channel::<()>();
            let waker = odd(Op::Wake, move || {
                tell.send(()).unwrap();
                let _ = resumed.recv();
            });
            let mut wait = table.acquire_owned_async(&1, holder(2), TERM);
            assert!(poll_by(&mut wait, &waker).is_pending());
            let mut behind = table.acquire_async(&1, holder(3), TERM);
            is_pending(&mut behind);
            clock.advance(TERM + TICK);
            let other = table.clone();
            let victim = std::thread::spawn(move || {
                if sweeps {
                    _ = other.sweep(10).unwrap();
                } else {
                    drop(other.try_acquire(&1, holder(9), TERM));
                }
            });
            blocked.recv_timeout(LONG).expect("it is woken");
            // Everybody goes on, also with this resource, this shard, and the one who was woken.
            let lease = granted(&mut wait);
            lease.renew(2 * TERM).unwrap();
            drop(table.try_acquire(&2, holder(5), TERM).unwrap());
            assert_eq!(refusal(table.try_acquire(&1, holder(5), TERM)).waiters, 1);
            lease.release().unwrap();
            granted(&mut behind).release().unwrap();
            churn(&table, 1000, 4 * SLOTS);
            assert!(table.is_empty());
            drop(resume);
            victim.join().unwrap();
            sweep_all(&table, 10);
        });
    }
}

/// A chain: each is woken by the one before, within its waker. No stack is used up by a lock.
#[test]
fn inv_32_each_waker_releases_what_it_was_woken_for() {
    watched(|| {
        let (table, _clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let served = Arc::new(AtomicU64::new(0));
        for n in 0..50 {
            let mut wait = table.acquire_owned_async(&1, holder(2 + n), TERM);
            let (slot, in_waker) = (Arc::new(Mutex::new(None)), served.clone());
            let mine: Arc<Mutex<Option<_>>> = slot.clone();
            let waker = odd(Op::Wake, move || {
                let mut wait = mine.lock().unwrap().take().unwrap();
                let lease: Owned = granted(&mut wait);
                assert_eq!(lease.holder(), holder(2 + in_waker.fetch_add(1, SeqCst)));
                lease.release().unwrap();
            });
            assert!(poll_by(&mut wait, &waker).is_pending());
            *slot.lock().unwrap() = Some(wait);
        }
        lease.release().unwrap();
        assert_eq!(served.load(SeqCst), 50);
        assert!(table.is_empty());
    });
}

/// The timers of those who want several: a waker that panics there keeps no other from being woken.
#[test]
fn inv_32_timers_wake_the_rest_after_a_panic() {
    watched(|| {
        let (table, clock) = by_hand();
        // Those in the first half hold what nobody else wants, and wait for the last one.
        let mut waits: Vec<_> = (0..6)
            .map(|n| table.acquire_all_async(&[10 + n, 20 + n], holder(2 + n), TERM))
            .collect();
        let _held: Vec<_> = (0..6)
            .map(|n| {
                // One of the two: which one is asked for last is up to their hashes.
                let keys = [10 + n, 20 + n];
                let both = keys.map(|key| table.try_acquire(&key, holder(1), DAY).unwrap());
                is_pending(&mut waits[n as usize]);
                let [one, other] = both;
                if table.waiters(&keys[0]).is_empty() {
                    drop(other);
                    one
                } else {
                    drop(one);
                    other
                }
            })
            .collect();
        let counts: Vec<_> = (0..6).map(|_| Count::new()).collect();
        for (n, wait) in waits.iter_mut().enumerate() {
            let (count, inner) = (counts[n].0.clone(), table.downgrade());
            let waker = odd(Op::Wake, move || {
                count.0.fetch_add(1, SeqCst);
                let _ = inner.upgrade().map(|table| table.sweep(1));
                if n % 2 == 0 {
                    planned_panic();
                }
            });
            let polled: Poll<Result<Vec<_>, WaitError>> = poll_by(wait, &waker);
            assert!(polled.is_pending() || polled.is_ready());
        }
        let hold_one = (0..6).filter(|n| {
            [10 + n, 20 + n].iter().any(|key| holder_of(&table, *key) == Some(holder(2 + n)))
        });
        let hold_one = hold_one.count() as u64;
        clock.advance(TERM);
        sweep_all(&table, 10);
        let woken: u64 = counts.iter().map(|(count, _)| count.get()).sum();
        assert_eq!(woken, hold_one);
    });
}
