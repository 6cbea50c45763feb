//! Two threads and one lease: who wins, and what the loser is told.

use leasehold::{AcquireError, HolderId, Lease, Lost, ManualClock, RenewError, Revoke};
use loom::thread;

use crate::support::{TERM, Table, explore, holder, table};

/// A table in which resource 1 is known and vacant.
fn known(clock: &ManualClock) -> Table {
    let table = table(clock);
    table.try_acquire(&1, holder(9), TERM).unwrap().release().unwrap();
    table
}

fn granted(table: &Table, key: u64, who: HolderId) -> bool {
    match table.try_acquire(&key, who, TERM) {
        Ok(lease) => {
            assert!(lease.check().is_ok());
            lease.into_grant();
            true
        }
        Err(AcquireError::Held(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn two_creators_of_one_key() {
    explore(2, &["first", "second"], |outcomes| {
        let table = table(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || granted(&other, 1, holder(2)));
        let first = granted(&table, 1, holder(1));
        let second = thread.join().unwrap();
        assert_ne!(first, second, "one of them is granted");
        assert_eq!(table.resources(), 1, "in one slot");
        let winner = if first { 1 } else { 2 };
        assert_eq!(table.inspect(&1).unwrap().holder, Some(holder(winner)));
        outcomes.reach(if first { "first" } else { "second" });
    });
}

#[test]
fn grant_against_grant() {
    explore(3, &["first", "second"], |outcomes| {
        let table = known(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || granted(&other, 1, holder(2)));
        let first = granted(&table, 1, holder(1));
        let second = thread.join().unwrap();
        assert_ne!(first, second, "one of them is granted");
        outcomes.reach(if first { "first" } else { "second" });
    });
}

/// What the winner of a lease wrote under it is seen by the next one: a lease is a lock, too.
#[test]
fn release_hands_over() {
    explore(3, &["refused", "took over"], |outcomes| {
        let table = known(&ManualClock::new());
        let data = loom::sync::Arc::new(loom::cell::UnsafeCell::new(0));
        let (other, theirs) = (table.clone(), data.clone());
        let thread = thread::spawn(move || {
            let lease = other.try_acquire(&1, holder(2), TERM).ok()?;
            // SAFETY: under the lease, which does not lapse in this model.
            theirs.with_mut(|data| unsafe { *data += 1 });
            lease.release().unwrap();
            Some(())
        });
        if let Ok(lease) = table.try_acquire(&1, holder(1), TERM) {
            // SAFETY: as above.
            data.with_mut(|data| unsafe { *data += 1 });
            lease.release().unwrap();
        }
        let done = thread.join().unwrap().is_some();
        // SAFETY: the other thread is gone.
        let both = done && data.with(|data| unsafe { *data }) == 2;
        outcomes.reach(if both { "took over" } else { "refused" });
    });
}

#[test]
fn renew_against_takeover() {
    explore(3, &["renewed", "taken"], |outcomes| {
        let clock = ManualClock::new();
        let table = known(&clock);
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        clock.advance(TERM / 2);
        let (other, later) = (table.clone(), clock.clone());
        let thread = thread::spawn(move || {
            // Past the deadline, but not past the one that a renewal gives.
            later.advance(TERM / 2);
            later.advance_ticks(1);
            granted(&other, 1, holder(2))
        });
        let renewed = lease.renew(TERM);
        let taken = thread.join().unwrap();
        match (renewed, taken) {
            (Ok(()), false) => {
                assert_eq!(table.inspect(&1).unwrap().token, lease.token());
                outcomes.reach("renewed");
            }
            (Ok(()), true) => panic!("both have it"),
            (Err(RenewError::Lost(_)), true) => {
                // The slot's stamps are used up by then: it says how the lease ended, and no more.
                assert_eq!(lease.check(), Err(Lost::Expired));
                outcomes.reach("taken");
            }
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn release_against_takeover() {
    explore(3, &["released first", "taken first"], |outcomes| {
        let clock = ManualClock::new();
        let table = known(&clock);
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let token = lease.token();
        clock.advance(TERM);
        clock.advance_ticks(1);
        let other = table.clone();
        let thread = thread::spawn(move || granted(&other, 1, holder(2)));
        let released = lease.release();
        assert!(thread.join().unwrap(), "a lapsed lease is no obstacle");
        let now = table.inspect(&1).unwrap();
        assert!(now.token > token && now.holder == Some(holder(2)), "the release did not end it");
        outcomes.reach(if released.is_ok() { "released first" } else { "taken first" });
        let stats = table.stats();
        assert_eq!(stats.lapses, u64::from(released.is_err()), "one end, counted once");
    });
}

#[test]
fn revoke_against_renew() {
    explore(3, &["renewed first", "revoked first"], |outcomes| {
        let table = known(&ManualClock::new());
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let other = table.clone();
        let thread = thread::spawn(move || other.revoke(&1, Revoke::Now).unwrap());
        let renewed = lease.renew(TERM * 2);
        thread.join().unwrap();
        assert_eq!(lease.check(), Err(Lost::Revoked), "no renewal undoes it");
        outcomes.reach(match renewed {
            Ok(()) => "renewed first",
            Err(RenewError::Lost(Lost::Revoked)) => "revoked first",
            Err(other) => panic!("{other}"),
        });
    });
}

/// Two stamps are left when the model starts: they are used up under it, and the resource moves on.
#[test]
fn stamp_exhaustion() {
    explore(2, &["both", "first", "second"], |outcomes| {
        let table = known(&ManualClock::new());
        let other = table.clone();
        let cycle = |table: &Table, who| {
            let lease = table.try_acquire(&1, holder(who), TERM).ok()?;
            let token = lease.token();
            lease.release().unwrap();
            Some(token)
        };
        let last = cycle(&table, 1).unwrap();
        let thread = thread::spawn(move || cycle(&other, 2));
        let first = cycle(&table, 1);
        let second = thread.join().unwrap();
        assert!(first.is_none_or(|token| token > last), "tokens rise over a slot's end");
        assert!(second.is_none_or(|token| token > last));
        assert_ne!(first, second);
        assert!(table.resources() <= 1, "its dead slots do not count");
        outcomes.reach(match (first, second) {
            (Some(_), Some(_)) => "both",
            (Some(_), None) => "first",
            (None, _) => "second",
        });
    });
}

/// A key that is created, against a look-up that compares it.
#[test]
fn creation_against_look_up() {
    explore(2, &["absent", "vacant", "held"], |outcomes| {
        let table = table(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || match other.inspect(&1) {
            Some(info) => {
                assert!(info.holder.is_none_or(|who| who == holder(1)));
                "held"
            }
            None if other.resources() == 0 => "absent",
            None => "vacant",
        });
        granted(&table, 1, holder(1));
        outcomes.reach(thread.join().unwrap());
    });
}

/// One key, put into one slot: without what follows an insertion.
#[test]
fn two_resolvers_of_one_key() {
    explore(2, &["one slot"], |outcomes| {
        let table = table(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || other.resource(&1).unwrap());
        let mine = table.resource(&1).unwrap();
        let theirs = thread.join().unwrap();
        assert_eq!(table.resources(), 1);
        mine.try_acquire(holder(1), TERM).unwrap().into_grant();
        assert!(theirs.try_acquire(holder(2), TERM).is_err());
        outcomes.reach("one slot");
    });
}

/// An incarnation that was drawn for an insertion that came too late is not used: the key may have
/// lived, and used up its slot, since.
#[test]
fn tokens_rise_over_a_late_creation() {
    explore(1, &["before", "after", "refused"], |outcomes| {
        let table = table(&ManualClock::new());
        let other = table.clone();
        let thread = thread::spawn(move || {
            let cycle = || {
                let lease = other.try_acquire(&1, holder(2), TERM).ok()?;
                let token = lease.token();
                lease.release().unwrap();
                Some(token)
            };
            // Two grants use up a slot.
            cycle().max(cycle())
        });
        let mine = table.try_acquire(&1, holder(1), TERM);
        let mine = mine.ok().map(|lease| lease.into_grant().token());
        let theirs = thread.join().unwrap();
        // Mine stays: what they had, they had before.
        assert!(mine.is_none() || theirs < mine, "tokens rise");
        outcomes.reach(match (mine, theirs) {
            (None, _) => "refused",
            (_, None) => "before",
            _ => "after",
        });
    });
}

/// A lease that ends, and whose slot is granted anew, before its winner told who it is.
#[test]
fn late_teller_against_takeover() {
    explore(2, &["not granted yet", "revoked"], |outcomes| {
        let table = table(&ManualClock::new());
        table.resource(&1).unwrap();
        let other = table.clone();
        let thread = thread::spawn(move || {
            let revoked = other.revoke(&1, Revoke::Now).is_ok();
            revoked.then(|| granted(&other, 1, holder(1)))
        });
        let lease = table.try_acquire(&1, holder(2), TERM).unwrap();
        let now = match thread.join().unwrap() {
            Some(granted) => {
                assert!(granted, "what was revoked is no obstacle");
                outcomes.reach("revoked");
                holder(1)
            }
            None => {
                outcomes.reach("not granted yet");
                holder(2)
            }
        };
        let info = table.inspect(&1).unwrap();
        assert_eq!(info.holder, Some(now), "who has it told last");
        assert_eq!(info.token == lease.token(), now == holder(2));
        lease.into_grant();
    });
}

/// A grant that is taken up while its lease ends and another begins in its slot.
#[test]
fn grant_taken_up_against_takeover() {
    explore(2, &["taken up", "lost"], |outcomes| {
        let table = table(&ManualClock::new());
        table.resource(&1).unwrap();
        let grant = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
        let other = table.clone();
        let thread = thread::spawn(move || {
            other.revoke(&1, Revoke::Now).unwrap();
            assert!(granted(&other, 1, holder(2)));
        });
        let lease = Lease::from_grant(&table, grant);
        thread.join().unwrap();
        outcomes.reach(match lease {
            Ok(lease) => {
                assert!(lease.release().is_err(), "it is not the other's lease");
                "taken up"
            }
            Err(_) => "lost",
        });
        assert_eq!(table.inspect(&1).unwrap().holder, Some(holder(2)));
    });
}
