//! Hand-overs, against waiters that leave, time out, are sent away or polled, and pages that are replaced.

use std::time::Duration;

use leasehold::{ManualClock, WaitError};
use loom::thread;

use crate::support::{TERM, Table, explore, holder};
use crate::waiters::{
    Waiter, assert_free, block_on, held, pass_term, patient, patient_for, sweep, try_acquire,
};

/// Who leaves the queue either leaves it, or passes on what it was handed: nothing is lost.
#[test]
fn leaving_against_hand_over() {
    explore(3, &["left first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || drop(waiter));
        lease.release().unwrap();
        thread.join().unwrap();
        let handed = table.stats().hand_overs == 1;
        outcomes.reach(if handed { "handed over" } else { "left first" });
        assert_free(&table);
    });
}

/// The same with another one behind, who gets it in either case.
#[test]
fn leaving_against_hand_over_to_the_next() {
    explore(2, &["1 hand-over", "2 hand-overs"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let waiter = Waiter::queued(&table, 2);
        let mut next = Waiter::queued(&table, 3);
        let thread = thread::spawn(move || drop(waiter));
        lease.release().unwrap();
        thread.join().unwrap();
        outcomes.reach(match table.stats().hand_overs {
            1 => "1 hand-over",
            2 => "2 hand-overs",
            other => panic!("{other} hand-overs"),
        });
        next.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Two leave, and one of them may be handed the lease meanwhile; whoever is behind them gets it.
#[test]
fn two_that_leave_against_hand_over() {
    explore(2, &["1 hand-over", "2 hand-overs", "3 hand-overs"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let [first, second] = [2, 3].map(|who| Waiter::queued(&table, who));
        let mut last = Waiter::queued(&table, 4);
        let threads = [first, second].map(|waiter| thread::spawn(move || drop(waiter)));
        lease.release().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let hand_overs = table.stats().hand_overs;
        outcomes.reach(format!("{hand_overs} hand-over{}", if hand_overs == 1 { "" } else { "s" }));
        last.granted().release().unwrap();
        assert_free(&table);
    });
}

/// A time-out that ends while the lease is handed over: it is returned, or passed on to nobody.
#[test]
fn time_out_against_hand_over() {
    explore(3, &["released first", "handed over", "last look", "timed out"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let token = lease.token();
        let other = table.clone();
        let thread = thread::spawn(move || {
            // The time passes when it parks.
            let lease = other.acquire_for(&1, holder(2), TERM, Duration::from_secs(60));
            lease.map(leasehold::Lease::into_grant)
        });
        lease.release().unwrap();
        let got = thread.join().unwrap();
        let stats = table.stats();
        outcomes.reach(match (got, stats.waits, stats.hand_overs) {
            (Ok(_), 0, 0) => "released first",
            (Ok(_), 1, 1) => "handed over",
            (Ok(_), 1, 0) => "last look",
            (Err(WaitError::TimedOut(held)), 1, 0) => {
                assert_eq!((held.token, held.waiters), (token, 0));
                "timed out"
            }
            other => panic!("{other:?}"),
        });
        if let Ok(grant) = got {
            assert!(grant.token() > token);
            table.release(grant).unwrap();
        }
        assert_free(&table);
    });
}

/// With another one behind, who is next in either case.
#[test]
fn time_out_against_hand_over_to_the_next() {
    explore(2, &["first", "timed out"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let other = table.clone();
        let thread = thread::spawn(move || {
            let lease = other.acquire_for(&1, holder(2), TERM, Duration::from_secs(60));
            lease.map(leasehold::Lease::into_grant)
        });
        let mut next = Waiter::queued(&table, 3);
        lease.release().unwrap();
        let got = thread.join().unwrap();
        match got {
            Ok(grant) => {
                outcomes.reach("first");
                assert!(next.look().is_none(), "one holder");
                table.release(grant).unwrap();
            }
            Err(WaitError::TimedOut(_)) => outcomes.reach("timed out"),
            Err(other) => panic!("{other}"),
        }
        next.granted().release().unwrap();
        assert_free(&table);
    });
}

/// A table that is closed while a lease is handed over: its waiter has it, or is sent away.
#[test]
fn close_against_hand_over() {
    explore(3, &["closed first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || other.close());
        lease.release().unwrap();
        thread.join().unwrap();
        match waiter.look().expect("nobody waits any more") {
            Ok(lease) => {
                outcomes.reach("handed over");
                assert_eq!(table.inspect(&1).unwrap().token, lease.token());
                lease.release().unwrap();
            }
            Err(error) => {
                outcomes.reach("closed first");
                assert_eq!(error, WaitError::Closed);
            }
        }
        assert!(table.inspect(&1).is_none() && table.waiting().is_empty());
    });
}

/// A task that is polled by another waker is woken by that one, or finds what it was handed.
#[test]
fn other_waker_against_hand_over() {
    explore(3, &["found", "woken"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || lease.release().unwrap());
        let found = waiter.ask();
        thread.join().unwrap();
        outcomes.reach(if found.is_some() { "found" } else { "woken" });
        found.unwrap_or_else(|| waiter.granted()).release().unwrap();
        assert_free(&table);
    });
}

/// What a waiter was handed and did not see in time goes to the next; it waits anew, behind that.
#[test]
fn waiter_that_is_late() {
    explore(2, &["in time", "late"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let lease = held(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let mut next = Waiter::queued(&table, 3);
        lease.release().unwrap();
        assert_eq!(sweep(&table), 0);
        let other = table.clone();
        let thread = thread::spawn(move || {
            pass_term(&clock);
            sweep(&other)
        });
        let seen = waiter.ask();
        thread.join().unwrap();
        let late = seen.is_none();
        outcomes.reach(if late { "late" } else { "in time" });
        assert!(seen.is_none_or(|lease| lease.check().is_err()), "it is over by now");
        let new = next.granted();
        assert_eq!(table.inspect(&1).unwrap().token, new.token(), "one holder");
        new.release().unwrap();
        if late {
            waiter.granted().release().unwrap();
        }
        assert_free(&table);
    });
}

/// A table whose one page is full: 1 is held, and 2 was used and is vacant.
fn full(retention: Duration) -> (Table, crate::waiters::Owned) {
    let clock = ManualClock::new();
    let table = patient_for(retention, &clock);
    let lease = held(&table);
    table.try_acquire(&2, holder(9), TERM).unwrap().release().unwrap();
    clock.advance_ticks(8);
    (table, lease)
}

/// A page that is replaced by one, or split, between the look at the lease and the mark, or after it: the
/// mark is not lost.
fn against_replacement(retention: Duration) {
    explore(2, &["waits"], move |outcomes| {
        let (table, lease) = full(retention);
        let mut waiter = Waiter::new(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || {
            other.try_acquire(&3, holder(3), TERM).unwrap().into_grant();
        });
        assert!(waiter.ask().is_none(), "it is held");
        thread.join().unwrap();
        assert!(waiter.look().is_none());
        assert_eq!(table.waiters(&1).len(), 1);
        lease.release().unwrap();
        waiter.granted().release().unwrap();
        assert_free(&table);
        outcomes.reach("waits");
    });
}

#[test]
fn first_waiter_against_replacement() {
    against_replacement(Duration::ZERO);
}

#[test]
fn first_waiter_against_split() {
    against_replacement(TERM * 1000);
}

/// The same while the lease is handed over.
fn hand_over_and_replacement(retention: Duration) {
    explore(2, &["handed over"], move |outcomes| {
        let (table, lease) = full(retention);
        let mut waiter = Waiter::queued(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || {
            other.try_acquire(&3, holder(3), TERM).unwrap().into_grant();
        });
        lease.release().unwrap();
        thread.join().unwrap();
        let new = waiter.granted();
        let holder_of = table.inspect(&1).unwrap();
        assert_eq!((holder_of.token, holder_of.holder), (new.token(), Some(holder(2))));
        new.release().unwrap();
        assert_free(&table);
        outcomes.reach("handed over");
    });
}

#[test]
fn hand_over_against_replacement() {
    hand_over_and_replacement(Duration::ZERO);
}

#[test]
fn hand_over_against_split() {
    hand_over_and_replacement(TERM * 1000);
}

/// A lapse that is passed on, while whoever makes room for another key would leave it behind.
#[test]
fn lapse_against_replacement() {
    explore(2, &["swept"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient_for(Duration::ZERO, &clock);
        let _lease = held(&table);
        table.try_acquire(&2, holder(9), TERM).unwrap().release().unwrap();
        let mut waiter = Waiter::queued(&table, 2);
        pass_term(&clock);
        clock.advance_ticks(8);
        let other = table.clone();
        let thread = thread::spawn(move || sweep(&other));
        table.try_acquire(&3, holder(3), TERM).unwrap().into_grant();
        let swept = thread.join().unwrap();
        assert_eq!((swept, table.stats().lapses), (1, 1), "it ends once, and is not left behind");
        outcomes.reach("swept");
        waiter.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Two that want the same two, named in different orders: neither waits for the other for ever.
#[test]
fn all_of_two_against_all_of_two() {
    explore(2, &["one waited", "none waited", "two waited"], |outcomes| {
        let table = patient(&ManualClock::new());
        for key in [1, 2] {
            table.resource(&key).unwrap();
        }
        let other = table.clone();
        let take = |table: &Table, keys: [u64; 2], who| {
            let both = block_on(table.acquire_all_async(&keys, holder(who), TERM)).unwrap();
            assert!(both.len() == 2 && both.iter().all(|lease| lease.check().is_ok()));
            assert_eq!(both[0].key(), Some(keys[0]));
        };
        let thread = thread::spawn(move || take(&other, [2, 1], 2));
        take(&table, [1, 2], 1);
        thread.join().unwrap();
        outcomes.reach(match table.stats().waits {
            0 => "none waited",
            1 => "one waited",
            _ => "two waited",
        });
        assert_free(&table);
        assert!(table.is_empty());
    });
}

/// One that wants both, and gives up, against who waits for one of them.
#[test]
fn all_of_two_that_are_let_go() {
    explore(2, &["waited", "not held"], |outcomes| {
        let table = patient(&ManualClock::new());
        for key in [1, 2] {
            table.resource(&key).unwrap();
        }
        let kept = table.try_acquire_owned(&2, holder(1), TERM).unwrap();
        let other = table.clone();
        let thread = thread::spawn(move || {
            use std::future::Future;
            let mut all = other.acquire_all_async(&[1, 2], holder(2), TERM);
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::Pin::new(&mut all).poll(&mut cx).is_pending(), "2 is held");
        });
        let lease = block_on(table.acquire_owned_async(&1, holder(3), TERM)).unwrap();
        thread.join().unwrap();
        outcomes.reach(if table.stats().waits > 1 { "waited" } else { "not held" });
        assert!(try_acquire(&table, 4).is_err());
        lease.release().unwrap();
        kept.release().unwrap();
        assert_free(&table);
        assert!(table.is_empty());
    });
}
