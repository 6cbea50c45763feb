//! What operations without a pin find when the page that they look at begins another life.

use std::sync::{Arc, Mutex};

use leasehold::{AcquireError, LeaseTable, ManualClock, Revoke};
use loom::thread;

use crate::support::{Collide, Hooked, TERM, Table, explore, holder, table, table_with};

/// Ticks after which what was used before is no longer recent.
const STALE: u64 = 8;

fn take(table: &Table, key: u64, who: u64) {
    table.try_acquire(&key, holder(who), TERM).unwrap().into_grant();
}

fn touch(table: &Table, key: u64) {
    table.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
}

/// A table whose page's predecessor is ready for another life: 1 is held, and its page is full.
fn held(clock: &ManualClock) -> Table {
    let table = table(clock);
    take(&table, 1, 9);
    touch(&table, 2);
    clock.advance_ticks(STALE);
    touch(&table, 3);
    clock.advance_ticks(STALE);
    table
}

/// Who is refused without a pin is told of the lease that refused it, not of what its slot became.
#[test]
fn refusal_against_reuse() {
    explore(1, &["refused"], |outcomes| {
        let clock = ManualClock::new();
        let table = held(&clock);
        let token = table.inspect(&1).unwrap().token;
        let other = table.clone();
        let thread = thread::spawn(move || {
            touch(&other, 5);
            clock.advance_ticks(STALE);
            touch(&other, 6);
        });
        match table.try_acquire(&1, holder(2), TERM) {
            Err(AcquireError::Held(held)) => {
                assert_eq!(held.token, token, "the token of that lease");
                assert_eq!(held.holder, Some(holder(9)), "and its holder");
            }
            other => panic!("{:?}", other.map(drop)),
        }
        thread.join().unwrap();
        outcomes.reach("refused");
    });
}

/// A grant without a pin, against replacements that would take its page before its winner is done.
#[test]
fn grant_against_reuse() {
    explore(1, &["kept", "created anew"], |outcomes| {
        let clock = ManualClock::new();
        let table = table(&clock);
        touch(&table, 1);
        touch(&table, 2);
        clock.advance_ticks(STALE);
        touch(&table, 3);
        let before = table.try_acquire(&4, holder(9), TERM).unwrap();
        let incarnation = before.token().get() >> 18;
        before.release().unwrap();
        clock.advance_ticks(STALE);
        // 4 is in the second slot. What is kept of its page goes to the first, and what comes then to
        // the second.
        let other = table.clone();
        let thread = thread::spawn(move || {
            touch(&other, 5);
            clock.advance_ticks(STALE);
            // Twice, so that it has the stamp that 4 is granted with.
            touch(&other, 6);
            take(&other, 6, 1);
        });
        let lease = table.try_acquire(&4, holder(2), TERM).unwrap();
        thread.join().unwrap();
        let told = table.inspect(&6).unwrap().holder;
        assert!(told.is_none() || told == Some(holder(1)), "nobody else is named");
        assert_eq!(lease.check(), Ok(lease.token()));
        let seen = table.inspect(&4).unwrap();
        assert_eq!(seen.token, lease.token());
        assert!(seen.holder.is_none() || seen.holder == Some(holder(2)));
        outcomes.reach(if lease.token().get() >> 18 == incarnation {
            "kept"
        } else {
            "created anew"
        });
        lease.into_grant();
    });
}

/// A resource that was resolved in a page which is now a draft, with a copy of it in the same slot: if
/// it were granted there, that would be lost, as the draft is thrown away. The hasher is asked in the
/// midst of filling the draft, and another thread's operations are made then, so that one execution
/// is enough.
fn acquire_in_a_draft(is_held: bool) {
    let clock = ManualClock::new();
    let hooked = Hooked::default();
    let table: LeaseTable<u64, Hooked, _> = table_with(hooked.clone(), &clock);
    let take = |key| table.try_acquire(&key, holder(9), TERM).unwrap().into_grant();
    let resource = table.resource(&1).unwrap();
    let before = take(1);
    table.try_acquire(&2, holder(9), TERM).unwrap().release().unwrap();
    clock.advance_ticks(STALE);
    // 1 goes on to another page, and where it was is ready to be used again.
    take(3);
    clock.advance_ticks(STALE);
    if !is_held {
        table.release(before).unwrap();
    }
    let lease = Arc::new(Mutex::new(None));
    let (got, other) = (lease.clone(), table.clone());
    // Both are kept, so the page is split, and 1 is copied before 3 is hashed.
    hooked.when(3, move || {
        *got.lock().unwrap() = Some(resource.try_acquire_owned(holder(9), TERM).unwrap());
        other.try_acquire(&5, holder(9), TERM).unwrap().into_grant();
    });
    take(4);
    let lease = lease.lock().unwrap().take().expect("3 was hashed");
    assert_eq!(lease.check(), Ok(lease.token()), "not in what was thrown away");
    assert_eq!(table.inspect(&1).unwrap().token, lease.token(), "the table agrees");
    // Nobody replaced the draft, so that its page is given back once: no two pages are one.
    for key in 6..14 {
        take(key);
    }
    assert_eq!(table.len(), 12);
    assert!((3..14).all(|key| table.inspect(&key).is_some()));
    assert_eq!(lease.check(), Ok(lease.token()));
    core::mem::forget(lease);
}

#[test]
fn vacant_resource_in_a_draft() {
    explore(0, &["granted"], |outcomes| {
        acquire_in_a_draft(false);
        outcomes.reach("granted");
    });
}

/// Its own holder acquires it anew.
#[test]
fn held_resource_in_a_draft() {
    explore(0, &["granted"], |outcomes| {
        acquire_in_a_draft(true);
        outcomes.reach("granted");
    });
}

/// The same, raced: whose resource is in what another thread is filling goes by the directory, replaces
/// the page itself, and leaves the draft to the one whose it is.
#[test]
fn resource_against_a_lost_draft() {
    explore(1, &["one draft", "two drafts"], |outcomes| {
        let clock = ManualClock::new();
        let hooked = Hooked::default();
        let table: LeaseTable<u64, Hooked, _> = table_with(hooked.clone(), &clock);
        let take = |key| table.try_acquire(&key, holder(9), TERM).unwrap().into_grant();
        let touch = |key| table.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
        let resource = table.resource(&1).unwrap();
        take(1);
        touch(2);
        clock.advance_ticks(STALE);
        // 1 goes on to another page, and where it was is ready to be used again.
        touch(3);
        clock.advance_ticks(STALE);
        // Its key is hashed once for each draft.
        let (again, twice) = (hooked.clone(), Arc::new(Mutex::new(false)));
        let mark = twice.clone();
        hooked.when(1, move || again.when(1, move || *mark.lock().unwrap() = true));
        let thread = thread::spawn(move || resource.try_acquire_owned(holder(9), TERM).unwrap());
        take(4);
        let lease = thread.join().unwrap();
        outcomes.reach(if *twice.lock().unwrap() { "two drafts" } else { "one draft" });
        assert_eq!(lease.check(), Ok(lease.token()), "not in what was thrown away");
        assert_eq!(table.len(), 2);
        // 2 and 3 were left behind. A draft that was replaced would have left 1 behind, too: its time is
        // beyond the deadline.
        let stats = table.stats();
        assert_eq!((stats.evictions, stats.lapses), (2, 0), "nobody replaces a draft");
        core::mem::forget(lease);
    });
}

/// Two keys with one hash: the slot that was looked at because of the one becomes the other's.
#[test]
fn refusal_of_an_equal_hash() {
    explore(1, &["refused"], |outcomes| {
        let clock = ManualClock::new();
        let table: LeaseTable<u64, Collide, _> = table_with(Collide, &clock);
        let take = |key| table.try_acquire(&key, holder(9), TERM).unwrap().into_grant().token();
        take(7);
        take(2);
        table.revoke(&7, Revoke::Now).unwrap();
        table.revoke(&2, Revoke::Now).unwrap();
        clock.advance_ticks(STALE);
        take(1);
        let token = take(101);
        let other = table.clone();
        let thread = thread::spawn(move || {
            let touch = |key| other.try_acquire(&key, holder(9), TERM).unwrap().release().unwrap();
            other.revoke(&1, Revoke::Now).unwrap();
            clock.advance_ticks(STALE);
            touch(3);
            clock.advance_ticks(STALE);
            // 101 is in the first slot of its page, then of the one that it was in before, where 1 was.
            touch(6);
        });
        let Err(AcquireError::Held(held)) = table.try_acquire(&101, holder(2), TERM) else {
            panic!("9 has it")
        };
        assert_eq!(held.token, token, "the other key's lease does not refuse");
        thread.join().unwrap();
        outcomes.reach("refused");
    });
}

/// A resource that two threads share goes with its page: what the one found again, the other sees
/// initialised.
#[test]
fn shared_resource_moves() {
    explore(1, &["superseded"], |outcomes| {
        let table = table(&ManualClock::new());
        let resource = Arc::new(table.resource(&1).unwrap());
        take(&table, 1, 9);
        take(&table, 2, 9);
        let shared = resource.clone();
        let thread = thread::spawn(move || {
            let refused = shared.try_acquire(holder(2), TERM);
            assert!(matches!(refused, Err(AcquireError::Held(_))));
        });
        // To pages that nobody has used.
        take(&table, 3, 1);
        resource.try_acquire(holder(9), TERM).unwrap().into_grant();
        thread.join().unwrap();
        outcomes.reach("superseded");
    });
}
