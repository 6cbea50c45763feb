//! Leases that are ended from outside, at once or with a grace.
//!
//! Also 3, 5 and 10 for a lease that is closing: it can be released, not renewed, and not even its own
//! holder is granted anew.
#![cfg(not(leasehold_loom))]

mod common;

use std::time::Duration;

use common::*;
use leasehold::{Lost, NotHeld, RenewError, Revoke, Status};

#[test]
fn a_revocation_at_once_frees_the_resource() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(SEC);
    let info = table.revoke(&1, Revoke::Now).unwrap();
    assert_eq!((info.holder, info.token), (Some(holder(1)), lease.token()));
    assert_eq!((info.remaining, info.closing), (TERM - SEC, false), "as it was");
    assert_eq!(lease.check(), Err(Lost::Revoked));
    assert_eq!(lease.renew(TERM), Err(RenewError::Lost(Lost::Revoked)));
    assert_eq!(table.revoke(&1, Revoke::Now), Err(NotHeld));
    let next = table.try_acquire(&1, holder(2), TERM).unwrap();
    assert!(next.token() > lease.token());
    let stats = table.stats();
    assert_eq!((stats.revocations, stats.releases, stats.lapses), (1, 0, 0));
}

#[test]
fn a_revocation_at_once_returns_a_closing_lease_as_it_was() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    table.revoke(&1, Revoke::After(TERM)).unwrap();
    clock.advance(SEC);
    let before = table.inspect(&1).unwrap();
    assert_eq!((before.remaining, before.closing), (TERM - SEC, true));
    assert_eq!(table.revoke(&1, Revoke::Now), Ok(before));
    assert_eq!(lease.check(), Err(Lost::Revoked));
}

#[test]
fn a_grace_lets_the_holder_finish() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    let info = table.revoke(&1, Revoke::After(TERM)).unwrap();
    assert_eq!((info.token, info.remaining, info.closing), (lease.token(), TERM, true));
    clock.advance(SEC);
    let remaining = TERM - SEC;
    assert_eq!(lease.status(), Status::Closing { remaining });
    assert_eq!(lease.check(), Ok(lease.token()));
    assert_eq!(lease.renew(HOUR), Err(RenewError::Closing { remaining }));
    assert_eq!(lease.remaining(), remaining);
    assert!(table.inspect(&1).unwrap().closing);
    assert_eq!(lease.release(), Ok(()));
    assert_eq!((table.stats().releases, table.stats().revocations), (1, 0));
}

#[test]
fn inv_05_a_closing_lease_ends_by_the_same_rule() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    table.revoke(&1, Revoke::After(TERM)).unwrap();
    clock.advance(TERM - TICK);
    assert!(lease.check().is_ok());
    assert_eq!(refusal(table.try_acquire(&1, holder(2), TERM)).retry_after, 2 * TICK);
    clock.advance_ticks(1);
    assert_eq!(refusal(table.try_acquire(&1, holder(2), TERM)).retry_after, TICK);
    assert_eq!(lease.check(), Err(Lost::Expired));
    clock.advance_ticks(1);
    assert!(table.try_acquire(&1, holder(2), TERM).is_ok());
    assert_eq!(table.stats().lapses, 1);
}

#[test]
fn inv_10_no_holder_is_granted_what_is_closing() {
    let (table, clock) = table();
    let resource = table.resource(&1).unwrap();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    table.revoke(&1, Revoke::After(TERM)).unwrap();
    for asking in [1, 2] {
        assert_eq!(refusal(table.try_acquire(&1, holder(asking), TERM)).token, lease.token());
        assert_eq!(refusal(resource.try_acquire(holder(asking), TERM)).holder, Some(holder(1)));
    }
    assert_eq!(lease.check(), Ok(lease.token()));
    clock.advance(TERM + TICK);
    assert!(table.try_acquire(&1, holder(1), TERM).unwrap().token() > lease.token());
}

/// It closes at the present tick: the holder is lost, and the next is granted one tick later.
#[test]
fn a_grace_of_nothing_reports_the_lease_that_it_closed() {
    for grace in [Duration::ZERO, Duration::from_nanos(999)] {
        let (table, clock) = table();
        let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
        let info = table.revoke(&1, Revoke::After(grace)).expect("a live lease was closed");
        assert_eq!(
            (info.token, info.remaining, info.closing),
            (lease.token(), Duration::ZERO, true)
        );
        assert_eq!(lease.check(), Err(Lost::Expired));
        assert_eq!(table.revoke(&1, Revoke::Now), Err(NotHeld));
        assert_eq!(refusal(table.try_acquire(&1, holder(2), TERM)).retry_after, TICK);
        clock.advance_ticks(1);
        assert!(table.try_acquire(&1, holder(2), TERM).is_ok());
    }
}

#[test]
fn a_grace_beyond_the_deadline_lengthens_nothing() {
    for grace in [TERM, TERM + TICK, TERM_MAX, 1000 * DAY, Duration::MAX] {
        let (table, clock) = table();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let info = table.revoke(&1, Revoke::After(grace)).unwrap();
        assert_eq!((info.remaining, info.closing), (TERM, true));
        assert!(matches!(lease.renew(HOUR), Err(RenewError::Closing { .. })));
        clock.advance(TERM + TICK);
        assert!(table.try_acquire(&1, holder(2), TERM).is_ok());
    }
}

#[test]
fn a_second_revocation_only_shortens() {
    let (table, clock) = table();
    let lease = table.try_acquire(&1, holder(1), HOUR).unwrap();
    let after = |grace| table.revoke(&1, Revoke::After(grace)).map(|info| info.remaining);
    assert_eq!(after(10 * SEC), Ok(10 * SEC));
    assert_eq!(after(20 * SEC), Ok(10 * SEC));
    assert_eq!(after(10 * SEC), Ok(10 * SEC));
    clock.advance(SEC);
    assert_eq!(after(20 * SEC), Ok(9 * SEC));
    assert_eq!(after(5 * SEC), Ok(5 * SEC));
    assert_eq!(lease.remaining(), 5 * SEC);
    assert!(table.revoke(&1, Revoke::Now).is_ok());
    assert_eq!(lease.check(), Err(Lost::Revoked));
    assert_eq!(after(SEC), Err(NotHeld));
}

#[test]
fn what_nobody_holds_cannot_be_revoked() {
    let (table, clock) = table();
    for how in [Revoke::Now, Revoke::After(Duration::ZERO), Revoke::After(TERM)] {
        assert_eq!(table.revoke(&1, how), Err(NotHeld), "unknown");
        assert_eq!(table.resources(), 0);
    }
    table.try_acquire(&1, holder(1), TERM).unwrap().release().unwrap();
    assert_eq!(table.revoke(&1, Revoke::Now), Err(NotHeld), "released");
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(TERM);
    assert_eq!(table.revoke(&1, Revoke::After(TERM)), Err(NotHeld), "over");
    assert_eq!(lease.release(), Ok(()), "and nothing changed");
    assert_eq!(table.stats().revocations, 0);
}

#[test]
fn a_lease_closes_and_ends_across_the_replacement_of_its_page() {
    let (table, clock) = table();
    let lease = table.try_acquire(&0, holder(1), HOUR).unwrap();
    table.revoke(&0, Revoke::After(60 * SEC)).unwrap();
    replace_pages(&table, &clock, 1000);
    assert_eq!(lease.status(), Status::Closing { remaining: 49 * SEC });
    assert!(matches!(lease.renew(HOUR), Err(RenewError::Closing { .. })));
    assert!(table.try_acquire(&0, holder(1), TERM).is_err());
    replace_pages(&table, &clock, 10_000);
    assert_eq!(lease.release(), Ok(()));
}
