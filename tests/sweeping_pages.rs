//! What sweeps do with pages: how many, in which order, those that cannot be finished, and what is left
//! behind.
//!
//! - 8: a sweep that stalls between its look and its exchange ends nothing that is live.
//! - 15: eviction takes nothing that is held.
//! - 23: a sweep that is suspended costs lateness, and nothing else.
//! - 27: pages that are split or replaced between filing and visit.
//! - 38: a key whose code panics in one page does not hold up others.
//! - 43: ten million hour-long leases, granted and released: memory stays flat.
#![cfg(not(leasehold_loom))]

mod common;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};

use common::ends::{received, sweep_all};
use common::keys::{Census, Odd, Op, planned_panic};
use common::*;
use leasehold::{Causes, EndCause, Grant, Lost, ManualClock, Subscription, Sweeping};

fn lapses() -> Causes {
    Causes::of(EndCause::Lapsed)
}

fn told(clock: &ManualClock, shards: usize) -> (FixedTable, Subscription<u64>) {
    let table = build_fixed(clock, |setup| setup.shards(shards).events(lapses()));
    let ends = table.subscribe(100_000).unwrap();
    (table, ends)
}

/// A lease that lapses unless somebody acts on it.
fn hold(table: &FixedTable, key: u64, ticks: u64) -> Grant {
    table.try_acquire(&key, holder(1), ticks as u32 * TICK).expect("nobody holds it").into_grant()
}

#[test]
fn a_budget_bounds_each_call_and_the_oldest_comes_first() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 64);
    let mut rng = Rng::new(1);
    for key in 0..500 {
        hold(&table, key, 1_000_000 + rng.below(1_000_000));
    }
    sweep_all(&table, 1000);
    clock.advance(5 * SEC);
    let (mut visits, mut latest) = (0, SEC);
    loop {
        let swept = table.sweep(1).unwrap();
        assert!(swept.pages <= 1);
        let lates: Vec<_> = received(&mut ends).into_iter().map(|ended| ended.late).collect();
        assert_eq!(lates.len() as u64, swept.lapsed, "a visit ends all that lapsed in a page");
        let oldest = lates.into_iter().max().map(|late| 5 * SEC - late);
        assert!(oldest.is_none_or(|deadline| deadline >= latest), "{oldest:?} after {latest:?}");
        latest = oldest.unwrap_or(latest);
        visits += 1;
        if !swept.more {
            break;
        }
    }
    assert_eq!(table.stats().lapses, 500);
    assert!((50..500).contains(&visits), "{visits}");
}

/// More pages were filed since the last sweep than it files at once.
#[test]
fn the_oldest_comes_first_however_many_were_filed() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 256);
    for key in 0..200 {
        hold(&table, key, 1000 + key);
    }
    clock.advance(SEC);
    let _ = table.sweep(1).unwrap();
    let first = received(&mut ends).into_iter().next().expect("a page was visited");
    assert_eq!(first.key, 0, "what is due for longest");
}

#[test]
fn a_place_that_was_split_is_not_visited_beyond_the_budget() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 1);
    hold(&table, 0, 1000);
    sweep_all(&table, 10);
    for key in 1..20 * SLOTS {
        hold(&table, key, 2000);
    }
    clock.advance(SEC);
    loop {
        let swept = table.sweep(2).unwrap();
        assert!(swept.pages <= 2, "{} pages", swept.pages);
        if !swept.more {
            break;
        }
    }
    assert_eq!(received(&mut ends).len() as u64, 20 * SLOTS);
}

#[test]
fn a_page_that_is_always_due_starves_no_other() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 64);
    for key in 1..200 {
        hold(&table, key, 1000);
    }
    sweep_all(&table, 100);
    clock.advance(SEC);
    let mut calls = 0;
    let mut waiting = 199;
    while waiting > 0 {
        // Over before the next sweep, each time.
        if table.inspect(&0).is_none() {
            hold(&table, 0, 1);
        }
        clock.advance(2 * TICK);
        let _ = table.sweep(1).unwrap();
        waiting -= received(&mut ends).into_iter().filter(|ended| ended.key != 0).count();
        calls += 1;
        assert!(calls < 1000, "{waiting} still wait");
    }
}

#[test]
fn inv_27_pages_that_were_split_or_replaced_since_they_were_filed() {
    for (seed, shards) in [(0, 1), (1, 1), (2, 4), (3, 16)] {
        let clock = ManualClock::new();
        let (table, mut ends) = told(&clock, shards);
        let mut rng = Rng::new(seed);
        let mut deadlines = BTreeMap::new();
        let mut fresh = 1_000_000;
        for round in 0..40 {
            for key in round * 20..(round + 1) * 20 {
                let ticks = rng.of_bits(27);
                hold(&table, key, ticks);
                deadlines.insert(key, elapsed(&clock) + ticks);
            }
            sweep_all(&table, 3);
            churn(&table, fresh, rng.below(3 * SLOTS));
            fresh += 1000;
            let next_in = sweep_all(&table, 3).next_in.expect("resources are known");
            clock.advance(next_in.min(SEC));
            check_told(&mut ends, &mut deadlines, &clock);
        }
        while let Some(next_in) = sweep_all(&table, 3).next_in {
            check_told(&mut ends, &mut deadlines, &clock);
            clock.advance(next_in);
        }
        check_told(&mut ends, &mut deadlines, &clock);
        assert!(deadlines.is_empty(), "{} were forgotten", deadlines.len());
        assert_eq!(table.resources(), 0, "all idle, for long");
    }
}

fn check_told(ends: &mut Subscription<u64>, all: &mut BTreeMap<u64, u64>, clock: &ManualClock) {
    for ended in received(ends) {
        let deadline = all.remove(&ended.key).expect("it lapses once");
        assert!(deadline < elapsed(clock), "{ended:?}");
        assert!(ended.late <= TICK, "{ended:?}");
    }
}

/// The page is replaced by the sweep itself, to forget what is idle. What is held in it has a deadline.
#[test]
fn a_sweep_that_replaced_a_page_says_when_to_come_back() {
    let clock = ManualClock::new();
    let (table, mut ends) = told(&clock, 1);
    hold(&table, 0, 60_000_000);
    churn(&table, 1, SLOTS / 2);
    assert_eq!(sweep_all(&table, 10).next_in, Some(10 * SEC + TICK), "their leases' deadline");
    let mut replaced = 0;
    for _ in 0..10 {
        let swept = sweep_all(&table, 10);
        replaced += swept.replaced;
        let next_in = swept.next_in.expect("a lease is held, whose page was replaced");
        clock.advance(next_in);
        if elapsed(&clock) > 60_000_000 {
            break;
        }
    }
    assert_eq!((replaced, table.resources()), (1, 1));
    assert_eq!(sweep_all(&table, 10).lapsed, 1);
    assert_eq!(received(&mut ends).pop().map(|ended| (ended.key, ended.late)), Some((0, TICK)));
}

#[test]
fn inv_15_what_is_idle_goes_between_one_and_two_retentions_and_nothing_that_is_held() {
    for seed in 0..5 {
        let clock = ManualClock::new();
        let (table, _ends) = told(&clock, 1 << seed);
        let mut rng = Rng::new(seed);
        let held: Vec<_> =
            (0..20).map(|key| table.try_acquire(&key, holder(1), DAY).unwrap()).collect();
        let mut used: Vec<(u64, Grant)> = Vec::new();
        for key in 1000..2000 {
            let grant = hold(&table, key, 1 + rng.below(1000));
            table.release(grant).unwrap();
            used.push((elapsed(&clock), grant));
            clock.advance_ticks(rng.below(100_000));
            sweep_all(&table, 3);
            if !key.is_multiple_of(50) {
                continue;
            }
            let now = elapsed(&clock);
            for &(at, grant) in &used {
                let idle = (now - at) as u32 * TICK;
                match table.check(grant) {
                    Err(Lost::Gone) => assert!(idle > 10 * SEC, "forgotten after {idle:?}"),
                    other => {
                        assert_eq!(other, Err(Lost::Released));
                        assert!(idle <= 20 * SEC + 8 * TICK, "known after {idle:?}");
                    }
                }
            }
            assert!(held.iter().all(|lease| lease.check().is_ok()));
        }
        assert!(table.stats().evictions > 100);
        clock.advance(30 * SEC);
        sweep_all(&table, 3);
        assert_eq!(table.resources(), 20);
        let bytes = table.memory_bytes();
        churn(&table, 5000, 100);
        assert_eq!(table.memory_bytes(), bytes, "the pages were handed back");
    }
}

#[test]
fn inv_38_a_key_that_panics_in_one_page_holds_up_no_other() {
    let clock = ManualClock::new();
    let census = Census::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(64).events(lapses()));
    let mut ends = table.subscribe(10_000).unwrap();
    for id in 0..400 {
        let lease = table.try_acquire(&Odd::new(id, &census), holder(1), SEC).unwrap();
        std::mem::forget(lease);
    }
    sweep_all(&table, 1000);
    clock.advance(2 * SEC);
    census.plan(|op, id| {
        if op == Op::Clone && id == 7 {
            planned_panic();
        }
    });
    let swept = sweep_all(&table, 3);
    assert_eq!(swept.panics, 1);
    assert_eq!(table.stats().lapses, 399, "all but itself");
    assert!(swept.next_in.is_some_and(|next| next <= SEC + 2 * TICK), "it is tried again");
    census.unplan();
    clock.advance(2 * SEC);
    sweep_all(&table, 3);
    let mut ids: Vec<u64> = received(&mut ends).iter().map(|ended| ended.key.id).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..400), "each once");
    drop((table, ends));
    census.assert_all_gone();
}

/// What is told is dropped by the sweep.
#[test]
fn inv_38_a_key_that_panics_when_its_end_was_told_is_counted() {
    let clock = ManualClock::new();
    let census = Census::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listens = seen.clone();
    let listener = move |ended: &leasehold::Ended<Odd>| listens.lock().unwrap().push(ended.key.id);
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).listener(listener));
    for id in 0..SLOTS / 2 {
        let lease = table.try_acquire(&Odd::new(id, &census), holder(1), SEC).unwrap();
        if id % 2 == 0 { drop(lease) } else { std::mem::forget(lease) }
    }
    clock.advance(2 * SEC);
    census.plan(|op, id| {
        if op == Op::Drop && (id == 1 || id == 0) {
            planned_panic();
        }
    });
    let swept = sweep_all(&table, 3);
    census.unplan();
    assert_eq!(swept.panics, 2);
    let mut ids = seen.lock().unwrap().clone();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..SLOTS / 2), "each once");
    drop(table);
    census.assert_all_gone();
}

thread_local! {
    static NESTED: Cell<bool> = const { Cell::new(false) };
}

/// The sweep clones the key between its look and its exchange: that is where it stalls.
#[test]
fn inv_08_a_sweep_that_stalls_ends_nothing_that_is_live() {
    let clock = ManualClock::new();
    let census = Census::new();
    let table: Table<Odd> = build(&clock, |setup| setup.shards(1).events(Causes::ALL));
    let mut ends = table.subscribe(100).unwrap();
    let key = Odd::new(1, &census);
    let first = table.try_acquire_owned(&key, holder(1), SEC).unwrap();
    sweep_all(&table, 10);
    clock.advance(2 * SEC);
    let (sender, tokens) = mpsc::channel();
    let (other, other_clock, births) = (table.clone(), clock.clone(), census.clone());
    census.plan(move |op, _| {
        if op == Op::Clone && !NESTED.replace(true) {
            other_clock.advance(HOUR);
            let lease = other.try_acquire(&Odd::new(1, &births), holder(2), SEC).unwrap();
            sender.send(lease.token()).unwrap();
            std::mem::forget(lease);
        }
    });
    assert_eq!(table.sweep(10).unwrap().lapsed, 0, "it was too late for the one");
    census.unplan();
    let second = tokens.recv().unwrap();
    assert_eq!(table.inspect(&key).map(|info| info.token), Some(second));
    let told: Vec<_> = received(&mut ends).iter().map(|e| (e.token, e.cause)).collect();
    assert_eq!(told, [(first.token(), EndCause::Lapsed)]);
    clock.advance(2 * SEC);
    assert_eq!(sweep_all(&table, 10).lapsed, 1);
}

#[test]
fn a_sweep_from_the_listener_is_refused() {
    let clock = ManualClock::new();
    let handle: Arc<Mutex<Option<Table>>> = Arc::default();
    let refusals = Arc::new(Mutex::new(Vec::new()));
    let (mine, told) = (handle.clone(), refusals.clone());
    let table = build(&clock, |setup| {
        setup.listener(move |_| {
            let table = mine.lock().unwrap().clone().unwrap();
            told.lock().unwrap().push(table.sweep(10));
        })
    });
    *handle.lock().unwrap() = Some(table.clone());
    std::mem::forget(table.try_acquire(&1, holder(1), SEC).unwrap());
    drop(table.try_acquire(&2, holder(1), SEC).unwrap());
    clock.advance(2 * SEC);
    sweep_all(&table, 10);
    assert_eq!(*refusals.lock().unwrap(), [Err(Sweeping); 2]);
    // And it works again afterwards.
    assert!(table.sweep(10).is_ok());
    *handle.lock().unwrap() = None;
}

#[test]
fn inv_23_a_suspended_sweep_costs_only_lateness() {
    let clock = ManualClock::new();
    let (entered, is_suspended) = mpsc::channel();
    let (resume, goes_on) = mpsc::channel::<()>();
    let (entered, goes_on) = (Mutex::new(entered), Mutex::new(goes_on));
    let count = Arc::new(Mutex::new(0_u64));
    let counts = count.clone();
    let table: Table = build(&clock, |setup| {
        setup.shards(4).listener(move |_| {
            *counts.lock().unwrap() += 1;
            if *counts.lock().unwrap() == 1 {
                entered.lock().unwrap().send(()).unwrap();
                goes_on.lock().unwrap().recv().unwrap();
            }
        })
    });
    (0..50).for_each(|key| std::mem::forget(table.try_acquire(&key, holder(1), SEC).unwrap()));
    clock.advance(2 * SEC);
    std::thread::scope(|s| {
        // Dropped if this panics, so that the sweep does not wait for ever.
        let resume = resume;
        s.spawn(|| sweep_all(&table, 10));
        is_suspended.recv().unwrap();
        for round in 0..100 {
            assert_eq!(table.sweep(10), Err(Sweeping));
            for key in 0..50 {
                // What lapsed is granted at once, ended or not.
                let lease = table.try_acquire(&key, holder(2 + round), SEC).unwrap();
                lease.renew(2 * SEC).unwrap();
                if key % 3 == 0 { lease.release().unwrap() } else { std::mem::forget(lease) }
            }
            clock.advance(3 * SEC);
        }
        resume.send(()).unwrap();
    });
    sweep_all(&table, 10);
    assert_eq!((*count.lock().unwrap(), table.stats().grants), (5050, 5050));
}

#[test]
fn inv_43_hour_long_leases_of_one_resource_leave_memory_flat() {
    let clock = ManualClock::new();
    let (table, _ends) = told(&clock, 1);
    let mut bytes = 0;
    for n in 0..if full() { 10_000_000 } else { 300_000_u64 } {
        drop(table.try_acquire(&(n % 3), holder(1), HOUR).unwrap());
        if n == 100_000 {
            bytes = table.memory_bytes();
        }
        if n.is_multiple_of(1000) && n > 200_000 {
            assert!(table.sweep(10).unwrap().pages <= 2);
        }
    }
    assert!(table.memory_bytes() <= 2 * bytes, "{} after {bytes}", table.memory_bytes());
}
