//! Threads that wait, and time-outs. A time-out is by the system's clock, whatever the table's does.

use std::time::Instant;

use leasehold::{LeaseTable, Revoke, WaitError};

use super::common::ends::sweep_all;
use super::*;

#[track_caller]
fn timed_out<T>(outcome: Result<T, WaitError>) -> leasehold::Held {
    match outcome {
        Err(WaitError::TimedOut(held)) => held,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("granted"),
    }
}

/// The table's clock stands still all the while, and so does the sweep.
#[test]
fn inv_20_time_outs_fire_on_a_clock_that_stands_still() {
    watched(|| {
        let (table, _clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let resource = table.resource(&1).unwrap();
        let before = Instant::now();
        for timeout in [Duration::ZERO, NANO, MS, 20 * MS] {
            for outcome in [
                table.acquire_for(&1, holder(2), TERM, timeout),
                resource.acquire_for(holder(2), TERM, timeout),
                table.acquire_until(&1, holder(2), TERM, Instant::now() + timeout),
                resource.acquire_until(holder(2), TERM, Instant::now() + timeout),
            ] {
                let held = timed_out(outcome);
                assert_eq!((held.token, held.waiters), (lease.token(), 0));
            }
            let held = timed_out(table.acquire_all_for(&[1, 2], holder(2), TERM, timeout));
            assert_eq!(held.token, lease.token());
            assert!(table.inspect(&2).is_none());
        }
        // Not too soon.
        assert!(before.elapsed() >= 5 * 20 * MS);
        // An instant in the past asks once, as zero does.
        let past = before.checked_sub(SEC).unwrap_or(before);
        timed_out(table.acquire_until(&1, holder(2), TERM, past));
        timed_out(resource.acquire_until(holder(2), TERM, past));
        assert_eq!(table.acquire_until(&3, holder(2), TERM, past).unwrap().holder(), holder(2));
        assert!(table.waiting().is_empty() && lease.check().is_ok());
    });
}

/// One that is too long to be told is none.
#[test]
fn inv_21_the_longest_time_out_is_none() {
    watched(|| {
        let (table, _clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        std::thread::scope(|scope| {
            let one = scope.spawn(|| {
                table.acquire_for(&1, holder(2), TERM, Duration::MAX).map(|it| it.holder())
            });
            let all = scope.spawn(|| {
                let all = table.acquire_all_for(&[1, 2], holder(3), TERM, Duration::MAX);
                all.map(|leases| leases.len())
            });
            wait_for("both", || table.waiters(&1).len() == 2);
            lease.release().unwrap();
            assert_eq!(one.join().unwrap(), Ok(holder(2)));
            assert_eq!(all.join().unwrap(), Ok(2));
        });
        assert!(table.is_empty());
    });
}

#[test]
fn inv_16_the_term_counts_from_the_grant() {
    watched(|| {
        let (table, clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), 2 * HOUR).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let lease = table.acquire(&1, holder(2), TERM).unwrap();
                (lease.remaining(), lease.check().is_ok())
            });
            wait_for("its place", || table.waiters(&1).len() == 1);
            clock.advance(HOUR);
            lease.release().unwrap();
            assert_eq!(waits.join().unwrap(), (TERM, true));
        });
    });
}

/// The clock runs on by more than a term between each grant and the look at it: the grants are passed on, and
/// whoever returns does so with a lease that was valid then.
#[test]
fn inv_16_a_thread_that_comes_too_late_waits_anew() {
    watched(|| {
        let (table, clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..3)
                .map(|n| {
                    let (table, clock) = (&table, &clock);
                    scope.spawn(move || {
                        let before = leasehold::Clock::now(clock);
                        let lease = table.acquire(&1, holder(2 + n), TERM).unwrap();
                        // Valid at some moment during the call, which the deadline tells.
                        let info = table.inspect(&1);
                        assert!(leasehold::Clock::now(clock) >= before);
                        drop((info, lease));
                    })
                })
                .collect();
            wait_for("their places", || table.waiters(&1).len() == 3);
            lease.release().unwrap();
            let (give_up, mut pause) = (Instant::now() + LONG, Duration::ZERO);
            while waits.iter().any(|wait| !wait.is_finished()) {
                clock.advance(TERM + TICK);
                sweep_all(&table, 10);
                // Ever more time to be in time: on the slowest machine, it is enough in the end.
                std::thread::sleep(pause);
                pause += MS / 4;
                assert!(Instant::now() < give_up);
            }
            waits.into_iter().for_each(|wait| wait.join().unwrap());
        });
        assert!(table.waiting().is_empty());
    });
}

/// The grant comes first, then the time-out: what was granted by then is returned, and is held by nobody else.
#[test]
fn inv_33_granted_or_timed_out_and_never_both() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::builder().shards(1).build().unwrap();
        let table = &table;
        let (granted, late) = (AtomicU64::new(0), AtomicU64::new(0));
        let rounds = 300;
        for round in 0..rounds {
            let first = table.try_acquire(&1, holder(1), HOUR).unwrap();
            std::thread::scope(|scope| {
                let timeout = Duration::from_micros(20 + round % 60);
                let waits = scope.spawn(move || table.acquire_for(&1, holder(2), HOUR, timeout));
                let until = Instant::now() + timeout;
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                first.release().unwrap();
                match waits.join().unwrap() {
                    Ok(lease) => {
                        assert_eq!(lease.check(), Ok(lease.token()));
                        assert_eq!(table.inspect(&1).unwrap().holder, Some(holder(2)));
                        granted.fetch_add(1, SeqCst);
                    }
                    Err(WaitError::TimedOut(_)) => _ = late.fetch_add(1, SeqCst),
                    Err(other) => panic!("{other}"),
                }
            });
            // Held by nobody then, not by one who has gone.
            assert!(table.inspect(&1).is_none(), "round {round}");
            assert!(table.waiting().is_empty(), "round {round}");
        }
        assert_eq!(granted.into_inner() + late.into_inner(), rounds);
    });
}

/// The same with many, so that what one gave up goes to the next.
#[test]
fn inv_33_many_time_outs_lose_no_lease() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::builder().shards(1).build().unwrap();
        let (inside, granted) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (table, inside, granted) = (&table, &inside, &granted);
                scope.spawn(move || {
                    for n in 0..500 {
                        let id = holder(1 + thread);
                        let timeout = Duration::from_micros((n * 7 + thread * 13) % 50);
                        match table.acquire_for(&1, id, HOUR, timeout) {
                            Ok(lease) => {
                                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                                granted.fetch_add(1, SeqCst);
                                std::thread::yield_now();
                                assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                                lease.release().unwrap();
                            }
                            Err(WaitError::TimedOut(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        assert!(table.is_empty() && table.waiting().is_empty());
        assert_eq!(table.stats().releases, table.stats().grants);
        assert!(granted.into_inner() > 0);
    });
}

/// What lapses is passed on by the thread that the first wait starts.
#[test]
fn inv_29_a_lapse_is_passed_on_with_nobody_who_asks() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::new();
        std::mem::forget(table.try_acquire(&1, holder(1), MS).unwrap());
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..5)
                .map(|n| {
                    let table = &table;
                    scope.spawn(move || {
                        // Forgotten, too: so each of them waits for a lapse.
                        std::mem::forget(table.acquire(&1, holder(2 + n), 50 * MS).unwrap());
                    })
                })
                .collect();
            waits.into_iter().for_each(|wait| wait.join().unwrap());
        });
        assert!(table.stats().lapses >= 5 - 1);
    });
}

/// Spurious wake-ups of a thread: it looks again, and waits on.
#[test]
fn inv_29_a_thread_that_is_unparked_for_nothing_waits_on() {
    watched(|| {
        let (table, _clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let lease = table.acquire(&1, holder(2), TERM).unwrap();
                lease.check().unwrap();
                lease.holder()
            });
            wait_for("its place", || table.waiters(&1).len() == 1);
            for _ in 0..100 {
                waits.thread().unpark();
                std::thread::yield_now();
            }
            assert!(!waits.is_finished() && table.waiters(&1).len() == 1);
            table.revoke(&1, Revoke::Now).unwrap();
            assert_eq!(waits.join().unwrap(), holder(2));
        });
        assert!(lease.check().is_err());
    });
}

/// What `threads` of the first sketch did: exclusion, and everybody is served.
#[test]
fn inv_35_threads_in_a_loop_are_all_served() {
    watched(|| {
        let table: LeaseTable<u64> = LeaseTable::new();
        let (total, inside) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (table, total, inside) = (&table, &total, &inside);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let lease = table.acquire(&1, holder(1 + n), HOUR).unwrap();
                        assert_eq!(inside.fetch_add(1, SeqCst), 0);
                        total.fetch_add(1, SeqCst);
                        assert_eq!(inside.fetch_sub(1, SeqCst), 1);
                        lease.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4000);
        assert!(table.is_empty() && table.waiting().is_empty());
    });
}
