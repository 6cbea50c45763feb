//! The thread that sweeps a table. Real time is unavoidable here: these tests wait for what must happen,
//! up to a minute, and never claim that something happened soon.
//!
//! - 20: on a clock that stands still, it does not spin.
//! - 28: a shorter term granted while it sleeps: it wakes in time.
//! - 37: a listener that panics: the next end is told.
//! - 39: a lease that is dropped after the last table handle.
//! - 40: it ends with the table, also if that is dropped from this very thread.
#![cfg(not(leasehold_loom))]

mod common;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use common::keys::{Census, Odd, Op, planned_panic};
use common::*;
use leasehold::{
    Builder, Causes, Clock, EndCause, LeaseTable, ManualClock, Revoke, Sweeper, TickRate,
};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let give_up = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < give_up, "waited for: {what}");
        std::thread::sleep(MS);
    }
}

/// How many threads of this process have that name.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

/// Elsewhere only what the thread holds is observed.
#[cfg(not(target_os = "linux"))]
fn threads_named(_: &str) -> usize {
    0
}

fn swept(name: &'static str) -> Builder<u64> {
    LeaseTable::builder().shards(1).sweeper(Sweeper::new().name(name))
}

#[test]
fn inv_28_it_is_woken_for_an_earlier_deadline() {
    let table = swept("t-woken").events(Causes::of(EndCause::Lapsed)).build().unwrap();
    let mut ends = table.subscribe(100).unwrap();
    std::mem::forget(table.try_acquire(&0, holder(1), DAY).unwrap());
    for round in 1..=20_u64 {
        // So that it sleeps until tomorrow, as a rule; nothing rests on it.
        std::thread::sleep(5 * MS);
        let lease = table.try_acquire(&round, holder(1), if round % 2 == 0 { DAY } else { 2 * MS });
        std::mem::forget(lease.unwrap());
        if round % 2 == 0 {
            std::thread::sleep(5 * MS);
            table.revoke(&round, Revoke::After(2 * MS)).unwrap();
        }
        let ended = ends.recv_timeout(LONG).expect("it lapses long before tomorrow");
        assert_eq!((ended.key, ended.cause), (round, EndCause::Lapsed));
    }
    assert!(table.inspect(&0).is_some());
}

#[test]
fn it_is_woken_for_the_listener() {
    let heard = Arc::new(AtomicU64::new(0));
    let hears = heard.clone();
    let table = swept("t-listener").listener(move |_| _ = hears.fetch_add(1, SeqCst));
    let table = table.build().unwrap();
    for round in 1..=20 {
        std::thread::sleep(3 * MS);
        drop(table.try_acquire(&1, holder(1), DAY).unwrap());
        wait_for("the listener", || heard.load(SeqCst) == round);
    }
}

#[test]
fn inv_37_it_survives_callbacks_and_keys_that_panic() {
    let census = Census::new();
    let heard = Arc::new(AtomicU64::new(0));
    let hears = heard.clone();
    let table = LeaseTable::<Odd>::builder()
        .sweeper(Sweeper::new().name("t-panics"))
        .listener(move |ended| {
            hears.fetch_add(1, SeqCst);
            if ended.key.id % 3 == 0 {
                planned_panic();
            }
        })
        .build()
        .unwrap();
    let drops = AtomicU64::new(0);
    let (thread, dropped) = (std::thread::current().id(), Arc::new(AtomicU64::new(0)));
    let panicked = dropped.clone();
    census.plan(move |op, id| {
        let elsewhere = std::thread::current().id() != thread;
        if op == Op::Drop && elsewhere && id % 3 == 1 && drops.fetch_add(1, SeqCst) < 5 {
            panicked.fetch_add(1, SeqCst);
            planned_panic();
        }
    });
    for id in 0..50 {
        let lease = table.try_acquire(&Odd::new(id, &census), holder(1), 2 * MS).unwrap();
        if id % 2 == 0 { drop(lease) } else { std::mem::forget(lease) }
    }
    wait_for("all ends", || heard.load(SeqCst) == 50);
    assert!(dropped.load(SeqCst) > 0, "no drop panicked");
    census.unplan();
    std::mem::forget(table.try_acquire(&Odd::new(100, &census), holder(1), 2 * MS).unwrap());
    wait_for("one more", || heard.load(SeqCst) == 51);
    drop(table);
    wait_for("the keys", || census.alive() == 0);
    wait_for("its end", || threads_named("t-panics") == 0);
    census.assert_all_gone();
}

/// What a listener holds until it is dropped.
fn witness() -> (Arc<()>, Weak<()>) {
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    (held, seen)
}

#[test]
fn inv_40_it_ends_with_the_table() {
    let (held, seen) = witness();
    let table = swept("t-ends").listener(move |_| _ = &held).build().unwrap();
    drop(table.try_acquire(&1, holder(1), DAY).unwrap());
    let other = table.clone();
    drop(table);
    std::thread::sleep(5 * MS);
    assert!(seen.upgrade().is_some(), "there is a handle");
    drop(other);
    wait_for("the table", || seen.upgrade().is_none());
    wait_for("the thread", || threads_named("t-ends") == 0);
}

#[test]
fn inv_40_also_if_the_last_handle_is_dropped_in_that_thread() {
    for lapses in [false, true] {
        let (held, seen) = witness();
        let last: Arc<Mutex<Option<LeaseTable<u64>>>> = Arc::default();
        let drops = last.clone();
        let listener = move |_: &_| {
            let _ = &held;
            drop(drops.lock().unwrap().take());
        };
        let table = swept("t-itself").listener(listener).build().unwrap();
        *last.lock().unwrap() = Some(table.clone());
        let lease = table.try_acquire(&1, holder(1), if lapses { 20 * MS } else { DAY }).unwrap();
        if lapses {
            std::mem::forget(lease);
        } else {
            drop(lease);
        }
        drop(table);
        wait_for("the table", || seen.upgrade().is_none());
        wait_for("the thread", || threads_named("t-itself") == 0);
    }
}

#[test]
fn inv_39_a_lease_keeps_the_table_and_ends_it() {
    let (held, seen) = witness();
    let table = swept("t-lease").listener(move |_| _ = &held).build().unwrap();
    let lease = table.try_acquire_owned(&1, holder(1), DAY).unwrap();
    drop(table);
    std::thread::sleep(5 * MS);
    assert!(lease.check().is_ok() && seen.upgrade().is_some());
    drop(lease);
    wait_for("the table", || seen.upgrade().is_none());
    wait_for("the thread", || threads_named("t-lease") == 0);
}

#[test]
fn inv_40_a_table_that_is_dropped_at_once_leaves_no_thread() {
    for round in 0..if full() { 5000 } else { 300 } {
        let table = swept("t-at-once").build().unwrap();
        if round % 3 == 0 {
            std::mem::forget(table.try_acquire(&1, holder(1), DAY).unwrap());
        }
        if round % 5 == 0 {
            std::thread::yield_now();
        }
    }
    wait_for("all threads", || threads_named("t-at-once") == 0);
}

/// A manual clock that counts how often it is asked.
#[derive(Clone)]
struct Asked(ManualClock, Arc<AtomicU64>);

impl Clock for Asked {
    fn now(&self) -> u64 {
        self.1.fetch_add(1, SeqCst);
        self.0.now()
    }

    fn rate(&self) -> TickRate {
        self.0.rate()
    }
}

#[test]
fn inv_20_it_does_not_spin_on_a_clock_that_stands_still() {
    for term in [TICK, 3 * MS, HOUR] {
        let asked = Asked(ManualClock::new(), Arc::default());
        let table = LeaseTable::<u64>::builder()
            .clock(asked.clone())
            .sweeper(Sweeper::new().name("t-manual"))
            .build()
            .unwrap();
        for key in 0..10 {
            std::mem::forget(table.try_acquire(&key, holder(1), term).unwrap());
        }
        let (begun, before) = (Instant::now(), asked.1.load(SeqCst));
        std::thread::sleep(200 * MS);
        let calls = asked.1.load(SeqCst) - before;
        // It sleeps for a millisecond at least. A machine that is slow makes it fewer.
        let most = 20 * (begun.elapsed().as_millis() as u64 + 10);
        assert!(calls < most, "{calls} readings, of {most}, with terms of {term:?}");
        assert_eq!(table.stats().lapses, 0);
        asked.0.advance(2 * term);
        if term < SEC {
            wait_for("the lapses", || table.stats().lapses == 10);
        }
    }
}

#[test]
fn any_interval_and_budget_will_do() {
    for interval in [Duration::ZERO, Duration::from_nanos(1), MS, 20 * MS] {
        for budget in [0, 1, usize::MAX] {
            let sweeper = Sweeper::new().interval(interval).budget(budget).name("t-any");
            let table = LeaseTable::<u64>::builder().sweeper(sweeper).build().unwrap();
            for key in 0..200 {
                std::mem::forget(table.try_acquire(&key, holder(1), MS).unwrap());
            }
            wait_for("the lapses", || table.stats().lapses == 200);
        }
    }
    // One that sleeps for ever does no harm, and can be ended.
    let sweeper = Sweeper::new().interval(Duration::MAX).name("t-any");
    let table = LeaseTable::<u64>::builder().sweeper(sweeper).build().unwrap();
    drop(table.try_acquire(&1, holder(1), MS).unwrap());
    drop(table);
    wait_for("all threads", || threads_named("t-any") == 0);
}
