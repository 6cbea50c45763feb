//! Waiting for a lease, against all that ends or changes the lease that is waited for.

use std::task::Poll;

use leasehold::{ManualClock, Revoke, WaitError};
use loom::thread;

use crate::support::{TERM, explore, holder};
use crate::waiters::{Waiter, assert_free, block_on, held, pass_term, patient, sweep, try_acquire};

/// A task that waits finds the lease released, or it is handed over.
#[test]
fn first_waiter_against_release() {
    explore(3, &["released first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let old = lease.token();
        let other = table.clone();
        let thread = thread::spawn(move || {
            let lease = block_on(other.acquire_async(&1, holder(2), TERM)).unwrap();
            assert!(lease.check().is_ok());
            lease.into_grant()
        });
        lease.release().unwrap();
        let grant = thread.join().unwrap();
        assert!(grant.token() > old, "tokens rise");
        assert_eq!(table.inspect(&1).unwrap().holder, Some(holder(2)));
        let stats = table.stats();
        assert_eq!(stats.waits, stats.hand_overs);
        outcomes.reach(if stats.waits == 1 { "handed over" } else { "released first" });
        table.release(grant).unwrap();
        assert_free(&table);
    });
}

/// The same for a thread, which parks.
#[test]
fn blocked_thread_against_release() {
    explore(3, &["released first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let other = table.clone();
        let thread = thread::spawn(move || {
            let lease = other.acquire(&1, holder(2), TERM).unwrap();
            lease.release().unwrap();
        });
        lease.release().unwrap();
        thread.join().unwrap();
        let waited = table.stats().hand_overs == 1;
        outcomes.reach(if waited { "handed over" } else { "released first" });
        assert_free(&table);
    });
}

/// What the holder wrote is seen by who is handed the lease, as by who takes it.
#[test]
fn hand_over_hands_over() {
    explore(3, &["handed over", "released first"], |outcomes| {
        let table = patient(&ManualClock::new());
        let data = loom::sync::Arc::new(loom::cell::UnsafeCell::new(0));
        let lease = held(&table);
        let (other, theirs) = (table.clone(), data.clone());
        let thread = thread::spawn(move || {
            let lease = block_on(other.acquire_async(&1, holder(2), TERM)).unwrap();
            // SAFETY: under the lease, which does not lapse in this model.
            theirs.with_mut(|data| unsafe { *data += 1 });
            lease.release().unwrap();
        });
        // SAFETY: as above.
        data.with_mut(|data| unsafe { *data += 1 });
        lease.release().unwrap();
        thread.join().unwrap();
        let waited = table.stats().hand_overs == 1;
        outcomes.reach(if waited { "handed over" } else { "released first" });
    });
}

/// A lease that lapses while somebody comes to wait for it is passed on by the sweep, or found lapsed.
#[test]
fn first_waiter_against_lapse() {
    explore(3, &["swept", "found lapsed"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let lease = held(&table);
        assert_eq!(sweep(&table), 0);
        let mut waiter = Waiter::new(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || {
            pass_term(&clock);
            sweep(&other)
        });
        let at_once = waiter.ask();
        let swept = thread.join().unwrap();
        outcomes.reach(if at_once.is_some() { "found lapsed" } else { "swept" });
        let new = at_once.unwrap_or_else(|| waiter.granted());
        assert!(lease.check().is_err() && new.token() > lease.token());
        assert!(swept <= 1 && table.stats().lapses == 1, "one end");
        new.release().unwrap();
        assert_free(&table);
    });
}

/// A third one that takes over what lapsed comes before who waits only if it came first.
#[test]
fn first_waiter_against_takeover() {
    explore(3, &["waiter first", "third first"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let old = held(&table);
        let mut waiter = Waiter::new(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || {
            pass_term(&clock);
            try_acquire(&other, 3).ok()
        });
        let at_once = waiter.ask();
        let third = thread.join().unwrap();
        assert!(old.check().is_err() && table.stats().lapses == 1);
        outcomes.reach(if third.is_some() { "third first" } else { "waiter first" });
        if let Some(third) = third {
            assert!(at_once.is_none() && waiter.look().is_none(), "one holder");
            third.release().unwrap();
        }
        at_once.unwrap_or_else(|| waiter.granted()).release().unwrap();
        assert_free(&table);
    });
}

/// Who waits already comes first, whoever finds that the lease lapsed: a sweep, or a third one that asks.
#[test]
fn takeover_against_sweep_of_what_is_waited_for() {
    explore(3, &["swept", "asked for"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let old = held(&table);
        assert_eq!(sweep(&table), 0);
        let mut waiter = Waiter::queued(&table, 2);
        pass_term(&clock);
        let other = table.clone();
        let thread = thread::spawn(move || sweep(&other));
        let third = try_acquire(&table, 3).map(drop).expect_err("it does not come first");
        assert_eq!(third.waiters, 0, "by then nobody waits any more");
        let swept = thread.join().unwrap();
        assert_eq!(table.stats().lapses, 1, "one end");
        outcomes.reach(if swept == 1 { "swept" } else { "asked for" });
        let new = waiter.granted();
        assert!(old.check().is_err() && new.check().is_ok());
        new.release().unwrap();
        assert_free(&table);
    });
}

/// A renewal neither loses the mark nor is lost with it.
#[test]
fn first_waiter_against_renewal() {
    explore(3, &["waits"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let lease = held(&table);
        let mut waiter = Waiter::new(&table, 2);
        let thread = thread::spawn(move || {
            assert!(waiter.ask().is_none(), "it is held");
            waiter
        });
        lease.renew(TERM * 2).unwrap();
        let mut waiter = thread.join().unwrap();
        pass_term(&clock);
        assert_eq!((sweep(&table), lease.check()), (0, Ok(lease.token())), "it was renewed");
        assert!(waiter.look().is_none());
        lease.release().unwrap();
        waiter.granted().release().unwrap();
        assert_free(&table);
        outcomes.reach("waits");
    });
}

/// A renewal in time, against the sweep that would pass the lease on.
#[test]
fn renewal_against_hand_over() {
    explore(3, &["renewed", "passed on"], |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let lease = held(&table);
        assert_eq!(sweep(&table), 0);
        let mut waiter = Waiter::queued(&table, 2);
        let (other, later) = (table.clone(), clock.clone());
        let thread = thread::spawn(move || {
            pass_term(&later);
            sweep(&other)
        });
        let renewed = lease.renew(TERM * 2);
        let swept = thread.join().unwrap();
        assert_eq!(swept, u64::from(renewed.is_err()));
        outcomes.reach(if renewed.is_ok() { "renewed" } else { "passed on" });
        if renewed.is_ok() {
            assert!(waiter.look().is_none());
            lease.release().unwrap();
        }
        waiter.granted().release().unwrap();
        assert_free(&table);
    });
}

/// Two come to wait, and one lease is released: both are granted, one after the other.
#[test]
fn two_waiters_and_one_release() {
    explore(2, &["second waits", "third waits", "second first", "third first"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let ask = |who| {
            let mut waiter = Waiter::new(&table, who);
            thread::spawn(move || {
                let got = waiter.ask();
                (waiter, got)
            })
        };
        let (second, third) = (ask(2), ask(3));
        lease.release().unwrap();
        let mut both = [second.join().unwrap(), third.join().unwrap()];
        let pending = [both[0].1.is_none(), both[1].1.is_none()];
        for (waiter, got) in &mut both {
            if got.is_none() {
                *got = waiter.look().transpose().unwrap();
            }
        }
        let has = [both[0].1.is_some(), both[1].1.is_some()];
        assert_ne!(has[0], has[1], "one of them is granted");
        outcomes.reach(match (pending, has[0]) {
            ([true, true], true) => "second first",
            ([true, true], false) => "third first",
            ([true, false], _) => "second waits",
            ([false, true], _) => "third waits",
            ([false, false], _) => panic!("both were granted at once"),
        });
        let [first, last] = if has[0] { [0, 1] } else { [1, 0] };
        both[first].1.take().unwrap().release().unwrap();
        both[last].0.granted().release().unwrap();
        assert_free(&table);
    });
}

/// A revocation ends the lease for who waits, or is before who comes to wait.
#[test]
fn first_waiter_against_revocation() {
    explore(3, &["revoked first", "handed over"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let mut waiter = Waiter::new(&table, 2);
        let thread = thread::spawn(move || {
            let at_once = waiter.ask();
            (waiter, at_once)
        });
        let info = table.revoke(&1, Revoke::Now).unwrap();
        assert_eq!(info.token, lease.token(), "nothing else was there yet");
        let (mut waiter, at_once) = thread.join().unwrap();
        assert!(lease.check().is_err() && table.stats().revocations == 1);
        outcomes.reach(if at_once.is_some() { "revoked first" } else { "handed over" });
        at_once.unwrap_or_else(|| waiter.granted()).release().unwrap();
        assert_free(&table);
    });
}

/// With a grace: neither loses the other's bit. The lease ends when its holder lets go, or the grace is over.
fn against_grace(released: bool) {
    explore(3, &["waits"], move |outcomes| {
        let clock = ManualClock::new();
        let table = patient(&clock);
        let lease = held(&table);
        assert_eq!(sweep(&table), 0);
        let mut waiter = Waiter::new(&table, 2);
        let thread = thread::spawn(move || {
            assert!(waiter.ask().is_none(), "it is held until the grace is over");
            waiter
        });
        let info = table.revoke(&1, Revoke::After(TERM / 2)).unwrap();
        assert!(info.closing && info.token == lease.token());
        let mut waiter = thread.join().unwrap();
        assert!(lease.renew(TERM).is_err(), "it is closing");
        assert!(waiter.look().is_none());
        if released {
            lease.release().unwrap();
        } else {
            clock.advance(TERM / 2);
            clock.advance_ticks(1);
            assert_eq!(sweep(&table), 1);
        }
        waiter.granted().release().unwrap();
        assert_free(&table);
        outcomes.reach("waits");
    });
}

#[test]
fn first_waiter_against_closing_that_is_released() {
    against_grace(true);
}

#[test]
fn first_waiter_against_closing_that_lapses() {
    against_grace(false);
}

/// Its own holder takes a lease anew as long as nobody waits.
#[test]
fn first_waiter_against_superseding() {
    explore(3, &["superseded", "refused"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let mut waiter = Waiter::new(&table, 2);
        let thread = thread::spawn(move || {
            assert!(waiter.ask().is_none(), "it is held");
            waiter
        });
        let anew = try_acquire(&table, 1);
        let mut waiter = thread.join().unwrap();
        assert!(waiter.look().is_none());
        outcomes.reach(if anew.is_ok() { "superseded" } else { "refused" });
        match anew {
            Ok(anew) => {
                assert!(lease.check().is_err());
                anew.release().unwrap();
            }
            Err(held) => {
                assert_eq!((held.token, held.holder), (lease.token(), Some(holder(1))));
                lease.release().unwrap();
            }
        }
        waiter.granted().release().unwrap();
        assert_free(&table);
    });
}

/// A table that is closed sends those away who wait, and those who come to wait.
#[test]
fn close_against_first_waiter() {
    explore(3, &["closed first", "sent away"], |outcomes| {
        let table = patient(&ManualClock::new());
        let lease = held(&table);
        let mut waiter = Waiter::new(&table, 2);
        let other = table.clone();
        let thread = thread::spawn(move || other.close());
        let at_once = waiter.poll();
        thread.join().unwrap();
        outcomes.reach(if at_once.is_ready() { "closed first" } else { "sent away" });
        let done = match at_once {
            Poll::Ready(done) => done,
            Poll::Pending => waiter.look().expect("nobody waits"),
        };
        assert_eq!(done.map(drop), Err(WaitError::Closed));
        assert!(table.waiting().is_empty());
        lease.renew(TERM * 2).unwrap();
        lease.release().unwrap();
        assert!(table.inspect(&1).is_none(), "and is not handed over");
    });
}
