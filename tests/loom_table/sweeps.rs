//! Sweeps by hand, against what other threads do meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::{EndCause, Grant, LeaseTable, ManualClock, Revoke};
use loom::thread;

use crate::support::{Identity, TERM, Table, explore, holder};

/// A table of so many pages as `capacity` takes, that leaves nothing behind for being idle.
fn lasting(clock: &ManualClock, capacity: usize) -> Table {
    let builder = LeaseTable::builder().shards(1).capacity(capacity).retention(TERM * 1000);
    builder.hasher(Identity).clock(clock.clone()).build().unwrap()
}

fn take(table: &Table, key: u64, who: u64, term: Duration) {
    table.try_acquire(&key, holder(who), term).unwrap().into_grant();
}

/// Sweeps until nothing is due, and says how many leases it ended.
fn sweep(table: &Table) -> u64 {
    let mut lapsed = 0;
    loop {
        let swept = table.sweep(4).unwrap();
        lapsed += swept.lapsed;
        if !swept.more {
            return lapsed;
        }
    }
}

/// To the first tick at which what was due within that time has lapsed.
fn pass(clock: &ManualClock, time: Duration) {
    clock.advance(time);
    clock.advance_ticks(1);
}

/// A table in which 1 is leased by the first holder, for a term from now. The sweeper looks at its slot
/// alone when that is over, or at its page as a whole.
fn leased(clock: &ManualClock, alone: bool) -> (Table, Grant) {
    let table = lasting(clock, 1);
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    if alone {
        take(&table, 3, 9, TERM * 100);
        assert_eq!(sweep(&table), 0);
        table.renew(lease, TERM * 2).unwrap();
        pass(clock, TERM);
        table.renew(lease, TERM).unwrap();
    }
    assert_eq!(sweep(&table), 0);
    (table, lease)
}

/// A renewal in time keeps the lease, and moves its end, though nobody files it; otherwise it ends once.
fn against_renew(alone: bool) {
    explore(3, &["renewed", "lapsed"], move |outcomes| {
        let clock = ManualClock::new();
        let (table, lease) = leased(&clock, alone);
        clock.advance(TERM / 2);
        let (other, later) = (table.clone(), clock.clone());
        let thread = thread::spawn(move || {
            pass(&later, TERM / 2);
            sweep(&other)
        });
        let renewed = table.renew(lease, TERM);
        let swept = thread.join().unwrap();
        if renewed.is_ok() {
            assert_eq!((swept, table.stats().lapses), (0, 0), "it is not over");
            assert_eq!(table.check(lease), Ok(lease.token()));
            clock.advance(TERM / 2);
            assert_eq!(sweep(&table), 1, "at the later deadline it is");
        } else {
            assert_eq!(swept, 1, "whoever says so first, the sweep ends it");
        }
        assert_eq!(sweep(&table), 0);
        assert!(table.check(lease).is_err());
        assert_eq!(table.stats().lapses, 1, "counted once");
        outcomes.reach(if renewed.is_ok() { "renewed" } else { "lapsed" });
    });
}

#[test]
fn sweep_against_renew() {
    against_renew(false);
}

#[test]
fn look_at_a_slot_against_renew() {
    against_renew(true);
}

fn against_takeover(alone: bool) {
    explore(3, &["swept first", "taken first"], move |outcomes| {
        let clock = ManualClock::new();
        let (table, old) = leased(&clock, alone);
        pass(&clock, TERM);
        let other = table.clone();
        let thread = thread::spawn(move || sweep(&other));
        let new = table.try_acquire(&1, holder(2), TERM).expect("a lapsed lease is no obstacle");
        let swept = thread.join().unwrap();
        assert!(new.token() > old.token());
        assert!(table.check(old).is_err() && new.check().is_ok(), "the old one is over");
        assert_eq!(table.inspect(&1).unwrap().token, new.token());
        assert_eq!(table.stats().lapses, 1, "one end, counted once");
        outcomes.reach(if swept == 1 { "swept first" } else { "taken first" });
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "the new one was filed");
    });
}

#[test]
fn sweep_against_takeover() {
    against_takeover(false);
}

#[test]
fn look_at_a_slot_against_takeover() {
    against_takeover(true);
}

fn against_release(alone: bool) {
    explore(3, &["swept first", "released first"], move |outcomes| {
        let clock = ManualClock::new();
        let (table, lease) = leased(&clock, alone);
        pass(&clock, TERM);
        let other = table.clone();
        let thread = thread::spawn(move || sweep(&other));
        let released = table.release(lease).is_ok();
        let swept = thread.join().unwrap();
        assert_eq!(swept, u64::from(!released), "one of them ended it");
        assert_eq!(table.stats().lapses, swept);
        outcomes.reach(if released { "released first" } else { "swept first" });
    });
}

#[test]
fn sweep_against_release() {
    against_release(false);
}

#[test]
fn look_at_a_slot_against_release() {
    against_release(true);
}

/// A page that is due, though nothing in it is, as what was due was renewed: 1 is vacant.
fn due_for_nothing(clock: &ManualClock, capacity: usize) -> Table {
    let table = lasting(clock, capacity);
    table.resource(&1).unwrap();
    let lease = table.try_acquire(&3, holder(9), TERM).unwrap();
    assert_eq!(sweep(&table), 0);
    lease.renew(TERM * 100).unwrap();
    lease.into_grant();
    pass(clock, TERM);
    table
}

/// A lease that `change` makes end before all else in its page, while that is visited: the visit finds it,
/// or it is filed (P12).
fn against_visit(change: impl Fn(&Table) + Send + Sync + Copy + 'static) {
    explore(3, &["found or taken", "filed"], move |outcomes| {
        let clock = ManualClock::new();
        let table = due_for_nothing(&clock, 1);
        let other = table.clone();
        let thread = thread::spawn(move || change(&other));
        assert_eq!(sweep(&table), 0);
        thread.join().unwrap();
        outcomes.reach(if table.filed_pages() == 0 { "found or taken" } else { "filed" });
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "it is known when it is over");
    });
}

#[test]
fn visit_against_an_earlier_deadline() {
    against_visit(|table| take(table, 1, 1, TERM));
}

#[test]
fn visit_against_superseding_for_less() {
    against_visit(|table| take(table, 3, 9, TERM));
}

#[test]
fn visit_against_closing() {
    against_visit(|table| {
        table.revoke(&3, Revoke::After(TERM)).unwrap();
    });
}

/// The same, of a lease that takes over one which the visit would end.
#[test]
fn visit_against_an_earlier_takeover() {
    explore(2, &["found or taken", "filed"], |outcomes| {
        let clock = ManualClock::new();
        let table = lasting(&clock, 1);
        take(&table, 1, 9, TERM);
        take(&table, 3, 9, TERM * 100);
        assert_eq!(sweep(&table), 0);
        pass(&clock, TERM);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 1, 1, TERM));
        let swept = sweep(&table);
        thread.join().unwrap();
        outcomes.reach(if table.filed_pages() == 0 { "found or taken" } else { "filed" });
        assert!(swept <= 1 && table.stats().lapses == 1);
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "it is known when it is over");
    });
}

/// A page that two threads file at once, while what is filed is taken.
#[test]
fn two_filers_against_taking() {
    explore(2, &["taken", "on the stack"], |outcomes| {
        let clock = ManualClock::new();
        let table = lasting(&clock, 1);
        table.resource(&1).unwrap();
        table.resource(&3).unwrap();
        assert_eq!(sweep(&table), 0);
        let (first, second) = (table.clone(), table.clone());
        let first = thread::spawn(move || take(&first, 1, 1, TERM));
        let second = thread::spawn(move || take(&second, 3, 2, TERM / 2));
        assert_eq!(sweep(&table), 0);
        first.join().unwrap();
        second.join().unwrap();
        let filed = table.filed_pages();
        assert!(filed <= 1, "one page, once");
        outcomes.reach(if filed == 0 { "taken" } else { "on the stack" });
        pass(&clock, TERM / 2);
        assert_eq!(sweep(&table), 1, "the first");
        clock.advance(TERM / 2);
        assert_eq!(sweep(&table), 1, "and the second");
    });
}

/// A page that is filed again as soon as it was taken, while another was taken with it.
#[test]
fn filing_against_taking_two_pages() {
    explore(3, &["taken", "on the stack"], |outcomes| {
        let clock = ManualClock::new();
        let table = lasting(&clock, 3);
        // 1 and 3 are in one page, 2 in the other.
        for key in [1, 3, 2] {
            table.resource(&key).unwrap();
        }
        assert_eq!(sweep(&table), 0);
        take(&table, 2, 9, TERM);
        take(&table, 1, 9, TERM);
        assert_eq!(table.filed_pages(), 2);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 3, 1, TERM / 2));
        assert_eq!(sweep(&table), 0);
        thread.join().unwrap();
        let filed = table.filed_pages();
        assert!(filed <= 1, "the other page was not filed again");
        outcomes.reach(if filed == 0 { "taken" } else { "on the stack" });
        pass(&clock, TERM / 2);
        assert_eq!(sweep(&table), 1, "what was filed late");
        clock.advance(TERM / 2);
        assert_eq!(sweep(&table), 2, "what was filed early, in both pages");
    });
}

/// A page that is split while it is visited for what lapsed in it: each lease ends once, in the page or in
/// its half.
#[test]
fn visit_of_lapsed_leases_against_a_split() {
    explore(1, &["none", "one", "both"], |outcomes| {
        let clock = ManualClock::new();
        let table = lasting(&clock, 1);
        take(&table, 1, 9, TERM);
        take(&table, 2, 9, TERM);
        assert_eq!(sweep(&table), 0);
        pass(&clock, TERM);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 3, 1, TERM));
        let at_once = table.sweep(1).unwrap().lapsed;
        thread.join().unwrap();
        assert_eq!(at_once + sweep(&table), 2, "each once");
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "and what was granted in a half");
        assert_eq!(table.stats().lapses, 3);
        outcomes.reach(["none", "one", "both"][at_once as usize]);
    });
}

/// The same, for nothing: what the copies are due for is known when it is due.
#[test]
fn visit_against_a_split() {
    explore(1, &["taken", "on the stack"], |outcomes| {
        let clock = ManualClock::new();
        let table = due_for_nothing(&clock, 1);
        take(&table, 1, 9, TERM * 3);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 2, 1, TERM));
        assert_eq!(sweep(&table), 0);
        thread.join().unwrap();
        outcomes.reach(if table.filed_pages() == 0 { "taken" } else { "on the stack" });
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "2");
        clock.advance(TERM * 2);
        assert_eq!(sweep(&table), 1, "1");
        clock.advance(TERM * 100);
        assert_eq!(sweep(&table), 1, "3");
    });
}

/// Ticks after which what was used before is no longer recent, in a table that retains nothing.
const STALE: u64 = 8;

/// A page that was filed begins other lives while it is on the stack, and while it is taken off.
#[test]
fn taking_against_another_life() {
    explore(1, &["taken", "on the stack"], |outcomes| {
        let clock = ManualClock::new();
        let table = crate::support::table(&clock);
        let touch = |table: &Table, key: u64| {
            table.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
        };
        take(&table, 1, 9, TERM);
        touch(&table, 2);
        clock.advance_ticks(STALE);
        touch(&table, 3);
        clock.advance_ticks(STALE);
        // 1 is in the second page, and the first is ready for another life, and filed.
        assert_eq!(table.filed_pages(), 2);
        let (other, later) = (table.clone(), clock.clone());
        let thread = thread::spawn(move || {
            touch(&other, 5);
            later.advance_ticks(STALE);
            touch(&other, 6);
        });
        let swept = table.sweep(1).unwrap();
        thread.join().unwrap();
        assert!(table.filed_pages() <= 2, "there are two pages");
        outcomes.reach(if table.filed_pages() == 0 { "taken" } else { "on the stack" });
        let at_once = swept.lapsed + sweep(&table);
        assert_eq!(at_once, 0);
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 1, "of whatever life its page is");
        assert_eq!(table.stats().lapses, 1);
    });
}

/// As above, but that life is of half the hashes: the sweeper finds the place of the life whose due tick it
/// finds, or the half is filed again.
#[test]
fn taking_against_a_life_as_a_half() {
    explore(1, &["taken", "on the stack"], |outcomes| {
        let clock = ManualClock::new();
        let table = crate::support::table(&clock);
        take(&table, 1, 9, TERM);
        table.try_acquire(&4, holder(9), TERM).unwrap().release().unwrap();
        clock.advance_ticks(STALE);
        // The first page is ready for another life, and filed. 1 and 3 are of one half, 2 of the other.
        take(&table, 2, 9, TERM);
        let other = table.clone();
        let thread = thread::spawn(move || take(&other, 3, 1, TERM));
        assert_eq!(table.sweep(1).unwrap().lapsed, 0);
        thread.join().unwrap();
        outcomes.reach(if table.filed_pages() == 0 { "taken" } else { "on the stack" });
        pass(&clock, TERM);
        assert_eq!(sweep(&table), 3, "in both halves");
    });
}

/// Three threads that would end one lapsed lease: one of them does, and it is told once.
#[test]
fn three_ends_of_one_lease() {
    explore(2, &["released", "lapsed", "revoked"], |outcomes| {
        let clock = ManualClock::new();
        let counts = Arc::new([const { AtomicU64::new(0) }; 3]);
        let told = counts.clone();
        let table = LeaseTable::<u64>::builder()
            .shards(1)
            .retention(TERM * 1000)
            .hasher(Identity)
            .clock(clock.clone())
            .listener(move |ended| {
                let cause = match ended.cause {
                    EndCause::Released => 0,
                    EndCause::Lapsed => 1,
                    _ => 2,
                };
                told[cause].fetch_add(1, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let grant = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
        sweep(&table);
        let (releaser, sweeper) = (table.clone(), table.clone());
        let releaser = thread::spawn(move || releaser.release(grant).is_ok());
        let sweeper = thread::spawn(move || {
            pass(&clock, TERM);
            sweep(&sweeper) == 1
        });
        // Whoever finds that it lapsed does not revoke it.
        let revoked = table.revoke(&1, Revoke::Now).is_ok();
        let (released, lapsed) = (releaser.join().unwrap(), sweeper.join().unwrap());
        // What the others ended is told now.
        sweep(&table);
        let told = [0, 1, 2].map(|cause| counts[cause].load(Ordering::Relaxed));
        assert_eq!(told.iter().sum::<u64>(), 1, "one end is told once");
        let stats = table.stats();
        assert_eq!(stats.lapses, told[1]);
        assert!(!released || told == [1, 0, 0]);
        assert!(!lapsed || told == [0, 1, 0]);
        assert!(!revoked || told == [0, 0, 1]);
        outcomes.reach(match told {
            [1, ..] => "released",
            [_, 1, _] => "lapsed",
            _ => "revoked",
        });
    });
}
