//! Guards, and leases as plain values.
//!
//! - 9: a guard dropped after its lease went to another releases nothing.
//! - 36: a forgotten guard's lease lapses at its deadline.
//! - 37: a panic while holding releases.
//! - 39: guards dropped in destructors of thread-locals, and after the last handle of the table.
//!
//! Also: grants by value, to and fro; of another table, and of one that is gone.
#![cfg(not(leasehold_loom))]

mod common;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::*;
use leasehold::{
    DefaultHashBuilder, Lease, Lost, ManualClock, OwnedLease, RenewError, Revoke, Status,
};

type Owned = OwnedLease<u64, DefaultHashBuilder, ManualClock>;

#[test]
fn inv_09_a_late_drop_releases_nobody_else() {
    let (table, clock) = table();
    let late = table.try_acquire(&1, holder(1), TERM).unwrap();
    let late_owned = table.try_acquire_owned(&2, holder(1), TERM).unwrap();
    clock.advance(TERM + TICK);
    let heirs: Vec<_> = [1, 2].map(|key| table.try_acquire(&key, holder(2), TERM).unwrap()).into();
    drop(late);
    drop(late_owned);
    for heir in &heirs {
        assert_eq!(heir.check(), Ok(heir.token()));
        assert_eq!(heir.remaining(), TERM);
    }
    assert_eq!((table.stats().releases, table.stats().stale, table.len()), (0, 2, 2));
}

#[test]
fn inv_09_also_when_the_page_was_replaced_and_the_slot_reused() {
    for forgotten in [false, true] {
        let (table, clock) = table();
        let late = table.try_acquire_owned(&0, holder(1), TERM).unwrap();
        clock.advance(TERM + TICK);
        for round in 1..10 {
            replace_pages(&table, &clock, 1000 * round);
        }
        if !forgotten {
            std::mem::forget(table.try_acquire(&0, holder(2), HOUR).unwrap());
            assert!(matches!(late.check(), Err(Lost::Gone | Lost::Taken { .. })));
        }
        let before = (table.len(), table.stats().releases);
        drop(late);
        assert_eq!((table.len(), table.stats().releases), before);
    }
}

#[test]
fn a_guard_dropped_late_still_releases_what_nobody_took() {
    let (table, clock) = table();
    let late = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(DAY);
    assert_eq!(late.release(), Ok(()), "nobody was granted in between");
    assert_eq!(table.stats().releases, 1);
}

#[test]
fn inv_36_a_forgotten_guard_blocks_until_its_deadline_and_no_longer() {
    let (table, clock) = table();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    std::mem::forget(table.try_acquire_owned(&2, holder(1), TERM).unwrap());
    clock.advance(TERM);
    for key in [1, 2] {
        assert_eq!(refusal(table.try_acquire(&key, holder(2), TERM)).retry_after, TICK);
    }
    clock.advance_ticks(1);
    for key in [1, 2] {
        assert!(table.try_acquire(&key, holder(2), TERM).is_ok());
    }
    assert_eq!(table.stats().lapses, 2);
}

#[test]
fn inv_37_a_panic_while_holding_releases() {
    let (table, _clock) = table();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _one = table.try_acquire(&1, holder(1), HOUR).unwrap();
        let _two = table.try_acquire_owned(&2, holder(1), HOUR).unwrap();
        common::keys::planned_panic();
    }));
    assert!(panicked.is_err());
    for key in [1, 2] {
        assert!(table.try_acquire(&key, holder(2), TERM).is_ok());
    }
    let other = table.clone();
    let thread = std::thread::spawn(move || {
        let _lease = other.try_acquire(&3, holder(1), HOUR).unwrap();
        common::keys::planned_panic();
    });
    assert!(thread.join().is_err());
    assert!(table.try_acquire(&3, holder(2), TERM).is_ok());
}

thread_local! {
    static KEPT: RefCell<Vec<Owned>> = const { RefCell::new(Vec::new()) };
    static LATE: RefCell<Option<LateUser>> = const { RefCell::new(None) };
}

/// Uses a table when the thread's locals are dropped.
struct LateUser(Table);

impl Drop for LateUser {
    fn drop(&mut self) {
        for key in 100..100 + 3 * SLOTS {
            let lease = self.0.try_acquire(&key, holder(1), TERM).unwrap();
            assert_eq!(lease.check(), Ok(lease.token()));
            lease.renew(2 * TERM).unwrap();
        }
    }
}

/// Whichever local is dropped first: the guards', the table's own, or the collector's.
#[test]
fn inv_39_guards_dropped_in_destructors_of_thread_locals() {
    for touch_first in [false, true] {
        let (table, _clock) = table();
        let other = table.clone();
        let thread = std::thread::spawn(move || {
            if touch_first {
                other.try_acquire(&1, holder(1), TERM).unwrap().release().unwrap();
            }
            LATE.set(Some(LateUser(other.clone())));
            KEPT.with_borrow_mut(|kept| {
                kept.push(other.try_acquire_owned(&1, holder(1), TERM).unwrap());
                kept.push(other.try_acquire_owned(&2, holder(1), TERM).unwrap());
            });
        });
        thread.join().expect("a destructor panicked");
        assert_eq!(table.len(), 0);
        assert_eq!(table.stats().releases, u64::from(touch_first) + 2 + 3 * SLOTS);
    }
}

#[test]
fn inv_39_a_destructor_may_be_the_tables_last_user() {
    let (table, _clock) = table();
    let thread = std::thread::spawn(move || {
        let lease = table.try_acquire_owned(&1, holder(1), TERM).unwrap();
        LATE.set(Some(LateUser(table)));
        KEPT.with_borrow_mut(|kept| kept.push(lease));
    });
    thread.join().expect("a destructor panicked");
}

#[test]
fn inv_39_an_owned_lease_outlives_the_last_handle() {
    let (table, clock) = table();
    let lease = table.try_acquire_owned(&1, holder(1), TERM).unwrap();
    let resource = table.resource(&2).unwrap();
    churn(&table, 100, 4 * SLOTS);
    drop(table);
    assert_eq!(lease.renew(2 * TERM), Ok(()));
    clock.advance(TERM);
    assert_eq!(lease.status(), Status::Held { remaining: TERM });
    assert_eq!(lease.key(), Some(1));
    drop(lease);
    let last = resource.try_acquire_owned(holder(1), TERM).unwrap();
    drop(resource);
    assert!(last.check().is_ok());
    std::thread::spawn(move || drop(last)).join().unwrap();
}

#[test]
fn a_lease_goes_to_a_value_and_back() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let token = lease.token();
    let grant = lease.into_grant();
    assert_eq!((grant.token(), grant.holder(), grant.table()), (token, holder(1), table.id()));
    assert_eq!(table.check(grant), Ok(token), "it was not released");
    clock.advance(SEC);
    table.renew(grant, TERM).unwrap();
    let owned = OwnedLease::from_grant(&table, grant).unwrap();
    assert_eq!((owned.token(), owned.holder(), owned.key()), (token, holder(1), Some(1)));
    assert_eq!(owned.remaining(), TERM);
    let again = owned.into_grant();
    assert_eq!(again, grant);
    let one = Lease::from_grant(&table, grant).unwrap();
    let two = Lease::from_grant(&table, grant).unwrap();
    assert_eq!(one.release(), Ok(()));
    assert_eq!(two.check(), Err(Lost::Released));
    assert_eq!(two.release(), Err(Lost::Released));
}

#[test]
fn a_grant_survives_the_replacement_of_its_page() {
    let (table, clock) = table();
    let grant = table.try_acquire(&0, holder(1), HOUR).unwrap().into_grant();
    for round in 1..20 {
        replace_pages(&table, &clock, 1000 * round);
        assert_eq!(table.check(grant), Ok(grant.token()));
    }
    let lease = Lease::from_grant(&table, grant).unwrap();
    replace_pages(&table, &clock, 1_000_000);
    assert_eq!(lease.key(), Some(0));
    assert_eq!(lease.release(), Ok(()));
}

#[test]
fn a_grant_that_is_over_makes_no_guard() {
    let (table, clock) = table();
    let released = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    table.release(released).unwrap();
    let revoked = table.try_acquire(&2, holder(1), TERM).unwrap().into_grant();
    table.revoke(&2, Revoke::Now).unwrap();
    let lapsed = table.try_acquire(&3, holder(1), TERM).unwrap().into_grant();
    clock.advance(TERM);
    for (grant, why) in
        [(released, Lost::Released), (revoked, Lost::Revoked), (lapsed, Lost::Expired)]
    {
        assert_eq!(Lease::from_grant(&table, grant).err(), Some(why));
    }
    for round in 1..4 {
        replace_pages(&table, &clock, 1000 * round);
    }
    for grant in [released, revoked, lapsed] {
        assert_eq!(OwnedLease::from_grant(&table, grant).err(), Some(Lost::Gone));
        assert_eq!(table.release(grant), Err(Lost::Gone));
    }
}

#[test]
fn a_grant_of_another_table_is_refused_as_such() {
    let (one, _) = table();
    let (other, _) = table();
    let grant = one.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    let twin = other.try_acquire(&1, holder(1), TERM).unwrap();
    assert_ne!(one.id(), other.id());
    assert_eq!(other.check(grant), Err(Lost::ForeignTable));
    assert_eq!(other.renew(grant, TERM), Err(RenewError::Lost(Lost::ForeignTable)));
    assert_eq!(other.release(grant), Err(Lost::ForeignTable));
    assert_eq!(Lease::from_grant(&other, grant).err(), Some(Lost::ForeignTable));
    assert_eq!(OwnedLease::from_grant(&other, grant).err(), Some(Lost::ForeignTable));
    assert!(twin.check().is_ok());
    // Nor does a grant whose table is gone mean anything to a later one.
    drop(one);
    let (later, _) = table::<u64>();
    assert_eq!(later.check(grant), Err(Lost::ForeignTable));
}
