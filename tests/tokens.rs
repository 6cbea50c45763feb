//! Fencing tokens, and what a handle with the wrong one can do: nothing.
//!
//! - 2: the tokens of a resource rise: over release, lapse, eviction, page replacement, slot reuse and
//!   re-creation; also when the stamps of its slot are used up. With threads: `stress.rs`.
//! - 3: an act with a token that is not the current one is an error and changes nothing.
//! - 10: the same holder granted again has a new token, and its earlier handle is lost.
//! - 11: a stale handle on a slot that was reused, even for the same key, is rejected.
#![cfg(not(leasehold_loom))]

mod common;

use common::*;
use leasehold::{Grant, Lost, ManualClock, RenewError, Revoke, Token};

/// Everything that a table shows of a resource.
fn look(table: &Table, key: u64) -> impl PartialEq + std::fmt::Debug + use<> {
    (table.inspect(&key), table.len(), table.resources(), table.stats().grants)
}

/// Nothing that can be done with a grant that is over has an effect.
#[track_caller]
fn assert_powerless(table: &Table, key: u64, old: Grant) {
    let before = look(table, key);
    assert!(matches!(table.renew(old, TERM_MAX), Err(RenewError::Lost(_))));
    assert!(table.release(old).is_err());
    assert!(table.check(old).is_err());
    assert!(leasehold::Lease::from_grant(table, old).is_err());
    assert!(leasehold::OwnedLease::from_grant(table, old).is_err());
    assert_eq!(look(table, key), before);
}

#[test]
fn inv_02_tokens_rise_over_every_way_a_lease_can_end() {
    let (table, clock) = table();
    let mut newest: Option<Token> = None;
    let mut old: Vec<Grant> = Vec::new();
    let mut rng = Rng::new(2);
    for round in 1..2000 {
        let lease = table.try_acquire(&0, holder(1), TERM).unwrap();
        assert!(Some(lease.token()) > newest, "round {round}");
        newest = Some(lease.token());
        let grant = lease.into_grant();
        match rng.below(7) {
            0 => table.release(grant).unwrap(),
            1 => clock.advance(TERM + TICK),
            2 => drop(table.revoke(&0, Revoke::Now).unwrap()),
            3 => {
                table.revoke(&0, Revoke::After(SEC)).unwrap();
                clock.advance(SEC + TICK);
            }
            // Evicted and created anew.
            4 => {
                table.release(grant).unwrap();
                replace_pages(&table, &clock, 1000 * round);
            }
            5 => {
                churn(&table, 1000 * round, 4 * SLOTS);
                table.release(grant).unwrap();
            }
            // Superseded by the next round.
            _ => {}
        }
        old.push(grant);
    }
    let lease = table.try_acquire(&0, holder(1), TERM).unwrap();
    for grant in old {
        assert!(grant.token() < lease.token());
        assert_powerless(&table, 0, grant);
    }
    assert_eq!(lease.remaining(), TERM);
}

/// The first acquirer of a forgotten resource cannot know the earlier tokens, and yet is above them.
#[test]
fn inv_02_tokens_rise_over_eviction_and_re_creation() {
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.shards(1).capacity_max(1));
    let mut newest = [None; 3];
    for round in 0..1000 {
        let key = round % 3;
        // Room for one resource: each acquisition forgets the one before.
        let lease = table.try_acquire(&key, holder(1), TERM).unwrap();
        let newest = &mut newest[key as usize];
        assert!(Some(lease.token()) > *newest);
        *newest = Some(lease.token());
        assert_eq!(table.resources(), 1);
    }
    assert_eq!(table.stats().evictions, 999);
}

/// More grants than one slot has stamps: the resource goes on elsewhere, and nobody sees it.
#[test]
fn inv_02_tokens_rise_when_the_stamps_are_used_up() {
    let (table, _clock) = table();
    let resource = table.resource(&7).unwrap();
    let mut newest = table.try_acquire(&7, holder(1), TERM).unwrap().into_grant();
    let kept = newest;
    for n in 0..2 * STAMP_MAX + STAMP_MAX / 2 {
        let by_key = n % 3 == 0;
        let lease = if by_key {
            table.try_acquire(&7, holder(1), TERM)
        } else {
            resource.try_acquire(holder(1), TERM)
        };
        let lease = lease.unwrap();
        assert!(lease.token() > newest.token());
        if n % (STAMP_MAX / 3) == 0 {
            assert_powerless(&table, 7, newest);
            assert_powerless(&table, 7, kept);
        }
        newest = lease.into_grant();
        if n % 2 == 0 {
            table.release(newest).unwrap();
        }
    }
    let _held = table.try_acquire(&7, holder(1), TERM).unwrap();
    assert_eq!(table.resources(), 1, "dead slots are no resources");
}

/// The boundary grant by grant: around the last stamp, in each way to go from one grant to the next.
#[test]
fn inv_02_the_last_stamp_is_a_lease_like_any() {
    for step in 0..4 {
        let (table, clock) = table();
        for _ in 0..STAMP_MAX - 3 {
            table.try_acquire(&0, holder(1), TERM).unwrap().release().unwrap();
        }
        let mut before = table.try_acquire(&0, holder(1), TERM).unwrap().into_grant();
        for _ in 0..6 {
            match step {
                0 => table.release(before).unwrap(),
                1 => clock.advance(TERM + TICK),
                2 => drop(table.revoke(&0, Revoke::Now).unwrap()),
                _ => assert!(table.renew(before, 2 * TERM).is_ok()),
            }
            let next = table.try_acquire(&0, holder(1), TERM).unwrap().into_grant();
            assert!(next.token() > before.token());
            assert_powerless(&table, 0, before);
            assert_eq!(refusal(table.try_acquire(&0, holder(2), TERM)).token, next.token());
            assert_eq!(table.inspect(&0).unwrap().token, next.token());
            assert_eq!((table.resources(), table.len()), (1, 1));
            before = next;
        }
        let stats = table.stats();
        let ended = stats.releases + stats.lapses + stats.revocations + stats.superseded;
        assert_eq!(stats.grants, ended + 1, "{stats:?}");
    }
}

#[test]
fn inv_03_a_wrong_token_changes_nothing() {
    let (table, clock) = table();
    let released = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    table.release(released).unwrap();
    assert_eq!(table.check(released), Err(Lost::Released));
    assert_powerless(&table, 1, released);
    let revoked = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    table.revoke(&1, Revoke::Now).unwrap();
    assert_eq!(table.check(revoked), Err(Lost::Revoked));
    assert_powerless(&table, 1, revoked);
    let lapsed = table.try_acquire(&1, holder(1), TERM).unwrap().into_grant();
    clock.advance(TERM + TICK);
    let current = table.try_acquire(&1, holder(2), TERM).unwrap();
    for old in [released, revoked, lapsed] {
        let taken = Lost::Taken { holder: Some(holder(2)), token: Some(current.token()) };
        assert_eq!(table.check(old), Err(taken));
        assert_eq!(table.renew(old, TERM), Err(RenewError::Lost(taken)));
        assert_eq!(table.release(old), Err(taken));
        assert_powerless(&table, 1, old);
    }
    assert_eq!(current.remaining(), TERM);
    assert_eq!(current.release(), Ok(()));
}

#[test]
fn inv_03_every_refusal_of_a_stale_handle_is_counted() {
    let (table, _clock) = table();
    let lease = table.try_acquire_owned(&1, holder(1), TERM).unwrap();
    table.revoke(&1, Revoke::Now).unwrap();
    assert!(lease.renew(TERM).is_err());
    assert!(lease.check().is_err(), "asking is not counted");
    assert!(lease.release().is_err());
    assert_eq!(table.stats().stale, 2);
}

#[test]
fn inv_10_the_same_holder_granted_again_has_a_new_token() {
    let (table, clock) = table();
    let resource = table.resource(&1).unwrap();
    let first = table.try_acquire(&1, holder(1), TERM).unwrap();
    clock.advance(SEC);
    let second = resource.try_acquire(holder(1), TERM).unwrap();
    assert!(second.token() > first.token());
    assert_eq!(second.remaining(), TERM);
    let taken = Lost::Taken { holder: Some(holder(1)), token: Some(second.token()) };
    assert_eq!(first.check(), Err(taken));
    assert_eq!(first.renew(TERM), Err(RenewError::Lost(taken)));
    // The earlier guard's drop leaves the later lease alone.
    drop(first);
    assert_eq!(second.check(), Ok(second.token()));
    assert_eq!(table.stats().superseded, 1);
}

#[test]
fn inv_10_a_shorter_term_granted_again_is_the_new_lease() {
    let (table, _clock) = table();
    let long = table.try_acquire(&1, holder(1), HOUR).unwrap();
    let short = table.try_acquire(&1, holder(1), SEC).unwrap();
    assert_eq!(table.inspect(&1).unwrap().remaining, SEC);
    assert!(long.check().is_err());
    assert!(short.check().is_ok());
}

#[test]
fn inv_11_a_stale_handle_on_a_reused_slot_is_rejected() {
    // One page, used over and over: slots come back with other keys, and with the same key.
    let clock = ManualClock::new();
    let table: Table = build(&clock, |setup| setup.shards(1).capacity_max(2));
    let mut old = Vec::new();
    for round in 0..300 {
        let key = round % 3;
        let lease = table.try_acquire_owned(&key, holder(1), TERM).unwrap();
        let token = lease.token();
        for (key, stale) in &old {
            let stale: &leasehold::OwnedLease<_, _, _> = stale;
            assert!(stale.check().is_err());
            assert!(stale.renew(TERM).is_err());
            assert_eq!(stale.remaining(), std::time::Duration::ZERO);
            assert!(stale.key().is_none_or(|known| known == *key));
        }
        if round % 7 == 0 {
            old.clear();
        }
        assert_eq!(lease.check(), Ok(token), "round {round}");
        table.release(grant_of(&table, key)).unwrap();
        old.push((key, lease));
    }
    assert!(table.stats().evictions > 100);
}

/// Another handle of the lease that stands on `key`: its holder's, granted anew.
fn grant_of(table: &Table, key: u64) -> Grant {
    table.try_acquire(&key, holder(1), TERM).unwrap().into_grant()
}
