//! Leases that are waited for, in slots that can be granted no more: those who wait go on in another slot.

use std::sync::{Arc, Mutex};

use leasehold::{ManualClock, Revoke, WaitError};
use loom::thread;

use crate::support::{TERM, explore, holder};
use crate::waiters::{
    Waiter, assert_free, block_on, held, held_last, pass_term, patient, sweep, try_acquire,
};

/// A third one, who asks while those who wait have no slot, does not come before them, and may be the one who
/// finds them another.
#[test]
fn third_against_an_orphan() {
    explore(2, &["before", "after"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let old = lease.token();
        let mut waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || lease.release().unwrap());
        let third = try_acquire(&table, 3).map(drop).expect_err("it does not come first");
        thread.join().unwrap();
        outcomes.reach(if third.token == old { "before" } else { "after" });
        let new = waiter.granted();
        assert!(new.token() > old, "tokens rise over the end of a slot");
        new.release().unwrap();
        assert_free(&table);
    });
}

/// Whoever comes to wait meanwhile is behind those who waited before.
#[test]
fn waiter_against_an_orphan() {
    explore(2, &["before", "after"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let mut first = Waiter::queued(&table, 2);
        let mut second = Waiter::new(&table, 3);
        let thread = thread::spawn(move || lease.release().unwrap());
        assert!(second.ask().is_none(), "it does not come first");
        // Not handed over yet, or to the first.
        let before = table.inspect(&1).is_none_or(|info| info.holder == Some(holder(1)));
        thread.join().unwrap();
        outcomes.reach(if before { "before" } else { "after" });
        assert!(second.look().is_none());
        first.granted().release().unwrap();
        second.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Two who wait keep their order, whoever finds them another slot.
#[test]
fn third_against_an_orphan_of_two() {
    explore(2, &["before", "after"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let old = lease.token();
        let [mut first, mut second] = [2, 3].map(|who| Waiter::queued(&table, who));
        let thread = thread::spawn(move || lease.release().unwrap());
        let third = try_acquire(&table, 4).map(drop).expect_err("it does not come first");
        thread.join().unwrap();
        outcomes.reach(if third.token == old { "before" } else { "after" });
        let new = first.granted();
        assert!(second.look().is_none(), "one holder");
        new.release().unwrap();
        second.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Two who would end the lease: one of them does, and one hand-over comes of it.
#[test]
fn two_ends_before_an_orphan() {
    explore(2, &["released", "revoked"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || lease.release());
        let revoked = table.revoke(&1, Revoke::Now);
        let released = thread.join().unwrap();
        assert_eq!(table.stats().hand_overs, 1);
        match (released, revoked) {
            (Ok(()), Err(_)) => {
                outcomes.reach("released");
                waiter.granted().release().unwrap();
            }
            (Err(_), Ok(_)) => {
                outcomes.reach("revoked");
                waiter.granted().release().unwrap();
            }
            // What was handed over was revoked then.
            (Ok(()), Ok(info)) => {
                assert_ne!(info.holder, Some(holder(1)));
                outcomes.reach("released");
                drop(waiter);
            }
            (Err(_), Err(_)) => panic!("nobody ended it"),
        }
        assert_free(&table);
    });
}

/// A sweep that passes on what lapsed, against a third one that asks for it.
#[test]
fn lapse_before_an_orphan() {
    explore(2, &["swept", "asked for"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let _lease = held_last(&table);
        assert_eq!(sweep(&table), 0);
        let mut waiter = Waiter::queued(&table, 2);
        pass_term(&clock);
        let other = table.clone();
        let thread = thread::spawn(move || sweep(&other));
        assert!(try_acquire(&table, 3).is_err(), "it does not come first");
        let swept = thread.join().unwrap();
        outcomes.reach(if swept == 1 { "swept" } else { "asked for" });
        assert_eq!(table.stats().lapses, 1);
        waiter.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Who leaves while it has no slot is not looked for another one in vain.
#[test]
fn leaving_against_an_orphan() {
    explore(2, &["left first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || drop(waiter));
        lease.release().unwrap();
        thread.join().unwrap();
        let handed = table.stats().hand_overs == 1;
        outcomes.reach(if handed { "handed over" } else { "left first" });
        assert_free(&table);
    });
}

/// The same with a third one, who may find a slot that was made for nobody.
#[test]
fn leaving_and_a_third_against_an_orphan() {
    explore(1, &["granted", "refused"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let waiter = Waiter::queued(&table, 2);
        let other = table.clone();
        let leaving = thread::spawn(move || drop(waiter));
        let third =
            thread::spawn(move || try_acquire(&other, 3).map(|lease| lease.release().unwrap()));
        lease.release().unwrap();
        leaving.join().unwrap();
        let third = third.join().unwrap();
        outcomes.reach(if third.is_ok() { "granted" } else { "refused" });
        assert_free(&table);
    });
}

#[test]
fn close_against_an_orphan() {
    explore(2, &["closed first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || other.close());
        lease.release().unwrap();
        thread.join().unwrap();
        let done = waiter.look().expect("nobody waits any more");
        outcomes.reach(if done.is_ok() { "handed over" } else { "closed first" });
        match done {
            Ok(lease) => lease.release().unwrap(),
            Err(error) => assert_eq!(error, WaitError::Closed),
        }
        assert!(table.inspect(&1).is_none() && table.waiting().is_empty());
    });
}

/// Another key that is put in while somebody has no slot may look as if it was waited for: it is not.
#[test]
fn other_key_against_an_orphan() {
    explore(2, &["granted"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let mut waiter = Waiter::queued(&table, 2);
        let thread = thread::spawn(move || lease.release().unwrap());
        let two = table.try_acquire(&2, holder(3), TERM).expect("nobody else wants it");
        thread.join().unwrap();
        assert_eq!(table.waiters(&2).len(), 0);
        two.release().unwrap();
        waiter.granted().release().unwrap();
        assert_free(&table);
        outcomes.reach("granted");
    });
}

/// A key that finds a slot for itself only at its second try: by then somebody may wait for one, and is granted
/// first.
#[test]
fn reused_claim_against_an_orphan() {
    explore(2, &["first", "refused"], |outcomes| {
        let table = patient(&ManualClock::new());
        let other = table.clone();
        let waiter = Arc::new(Mutex::new(None));
        let theirs = waiter.clone();
        let thread = thread::spawn(move || {
            let Ok(lease) = other.try_acquire_owned(&1, holder(1), TERM) else { return false };
            lease.release().unwrap();
            let Ok(lease) = try_acquire(&other, 1) else { return false };
            *theirs.lock().unwrap() = Some(Waiter::queued(&other, 2));
            lease.release().unwrap();
            true
        });
        let mine = try_acquire(&table, 3);
        let whole = thread.join().unwrap();
        let waiter = waiter.lock().unwrap().take();
        outcomes.reach(if mine.is_ok() { "first" } else { "refused" });
        match (mine, waiter) {
            (Ok(mine), None) => assert!(!whole && mine.check().is_ok()),
            (Ok(_), Some(_)) => panic!("it came before one who waits"),
            (Err(_), Some(mut waiter)) => waiter.granted().release().unwrap(),
            (Err(_), None) => {}
        }
    });
}

/// A waiter that parks, in a slot that is at its end at each hand-over.
#[test]
fn blocked_threads_over_the_ends_of_slots() {
    explore(1, &["0 wait", "1 waits", "2 wait"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held_last(&table);
        let threads = [2, 3].map(|who| {
            let other = table.clone();
            thread::spawn(move || {
                block_on(other.acquire_async(&1, holder(who), TERM)).unwrap().release().unwrap();
            })
        });
        lease.release().unwrap();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        outcomes.reach(match table.stats().hand_overs {
            0 => "0 wait",
            1 => "1 waits",
            _ => "2 wait",
        });
        assert_free(&table);
    });
}

/// A page that is replaced while those who wait for what was in it have no slot.
#[test]
fn replacement_against_an_orphan() {
    explore(1, &["handed over"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        table.try_acquire(&2, holder(9), TERM).unwrap().release().unwrap();
        let _ = held(&table).release();
        let lease = held(&table);
        let mut waiter = Waiter::queued(&table, 2);
        clock.advance_ticks(8);
        let other = table.clone();
        // There is room neither for another slot of 1 nor for 3.
        let thread = thread::spawn(move || {
            other.try_acquire(&3, holder(3), TERM).unwrap().into_grant();
        });
        lease.release().unwrap();
        thread.join().unwrap();
        waiter.granted().release().unwrap();
        assert_free(&table);
        outcomes.reach("handed over");
    });
}
