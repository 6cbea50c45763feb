//! What a table tells about itself, and the handles of a resource.
//!
//! - Iteration and `len` while others insert: a lease that is live all the while is seen exactly once.
//! - Statistics are exact once the threads are joined.
//! - A `Resource` goes on over page replacement, eviction and used-up stamps (11).
//! - Labels, and what `Debug` prints.
#![cfg(not(leasehold_loom))]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::*;
use leasehold::{AcquireError, ManualClock, Status};

#[test]
fn iteration_shows_what_is_live() {
    let (table, clock) = table();
    let mut kept = BTreeMap::new();
    for key in 0..1000 {
        let lease = table.try_acquire_owned(&key, holder(1 + key), TERM).unwrap();
        if key % 3 == 0 {
            kept.insert(key, lease);
        }
    }
    let seen: BTreeMap<u64, _> = table.iter().collect();
    assert_eq!(seen.len(), table.iter().count(), "each key once");
    assert_eq!(seen.keys().collect::<Vec<_>>(), kept.keys().collect::<Vec<_>>());
    for (key, info) in &seen {
        assert_eq!((info.holder, info.token), (Some(holder(1 + key)), kept[key].token()));
        assert_eq!((info.remaining, info.closing), (TERM, false));
        assert_eq!(table.inspect(key), Some(*info));
    }
    assert_eq!(table.len(), kept.len());
    assert_eq!((&table).into_iter().count(), kept.len());
    clock.advance(TERM);
    assert_eq!((table.len(), table.iter().count(), table.is_empty()), (0, 0, true));
    assert!(table.resources() >= kept.len(), "lapsed, not forgotten");
}

/// Inserts, releases and re-inserts until told to stop.
fn disturb(table: &Table, first: u64, stop: &AtomicBool) {
    let mut round = 0;
    while !stop.load(Relaxed) {
        churn(table, first + round * SLOTS, SLOTS);
        round += 1;
    }
}

#[test]
fn iteration_sees_each_lasting_lease_once_while_others_insert() {
    let n = 50 * SLOTS;
    let (table, _clock) = table();
    for key in 0..n {
        std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap());
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for first in [1_000_000_000, 2_000_000_000] {
            let (table, stop) = (&table, &stop);
            s.spawn(move || disturb(table, first, stop));
        }
        for _ in 0..20 {
            let mut lasting: Vec<u64> =
                table.iter().map(|(key, _)| key).filter(|&key| key < n).collect();
            lasting.sort_unstable();
            assert!(lasting.iter().copied().eq(0..n), "{} of {n}", lasting.len());
            assert!(table.len() as u64 >= n && table.resources() as u64 >= n);
        }
        stop.store(true, Relaxed);
    });
    assert_eq!(table.len() as u64, n);
}

#[test]
fn an_iterator_survives_its_table() {
    let (table, _clock) = table();
    for key in 0..3 * SLOTS {
        std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap());
    }
    let mut iter = table.iter();
    assert!(iter.next().is_some());
    drop(table);
    assert_eq!(iter.count() as u64, 3 * SLOTS - 1);
}

/// One worker's operations, and how often it did what.
fn work(table: &Table, worker: u64) -> [u64; 5] {
    let mut rng = Rng::new(worker);
    let [mut grants, mut refusals, mut renewals, mut releases, mut stale] = [0; 5];
    for _ in 0..5000 {
        match table.try_acquire(&rng.below(20), holder(1 + worker), HOUR) {
            Ok(lease) => {
                grants += 1;
                if rng.one_in(2) {
                    renewals += u64::from(lease.renew(HOUR).is_ok());
                }
                if rng.one_in(50) {
                    std::mem::forget(lease);
                } else {
                    let grant = lease.into_grant();
                    releases += u64::from(table.release(grant).is_ok());
                    stale += u64::from(table.release(grant).is_err());
                }
            }
            Err(AcquireError::Held(_)) => refusals += 1,
            Err(other) => panic!("{other}"),
        }
    }
    [grants, refusals, renewals, releases, stale]
}

#[test]
fn statistics_are_exact_once_the_threads_are_joined() {
    let (table, _clock) = table();
    let mut sums = [0; 5];
    // More threads than one after another would have numbers of their own, in turns of four.
    for turn in 0..8 {
        let counts: Vec<[u64; 5]> = std::thread::scope(|s| {
            let table = &table;
            let spawn = |worker| s.spawn(move || work(table, worker));
            let workers: Vec<_> = (4 * turn..4 * turn + 4).map(spawn).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        for count in counts {
            sums.iter_mut().zip(count).for_each(|(sum, n)| *sum += n);
        }
    }
    let stats = table.stats();
    let counted = [stats.grants, stats.refusals, stats.renewals, stats.releases, stats.stale];
    assert_eq!(counted, sums);
    let ended = stats.releases + stats.superseded;
    assert_eq!(stats.grants, ended + table.len() as u64);
    assert_eq!((stats.lapses, stats.revocations), (0, 0));
}

#[test]
fn more_threads_than_have_counters_are_counted_too() {
    let (table, _clock) = table();
    let barrier = std::sync::Barrier::new(300);
    std::thread::scope(|s| {
        for worker in 0..300 {
            let (table, barrier) = (&table, &barrier);
            s.spawn(move || {
                // All at once, so that no thread's number is given away again.
                barrier.wait();
                churn(table, 10 * worker, 10);
                barrier.wait();
            });
        }
    });
    assert_eq!((table.stats().grants, table.stats().releases), (3000, 3000));
}

#[test]
fn inv_11_a_resource_goes_on_over_replacement_and_eviction() {
    let (table, clock) = table();
    let resource = table.resource(&7).unwrap();
    let clone = resource.clone();
    let mut newest = None;
    for round in 0..200 {
        let through = if round % 2 == 0 { &resource } else { &clone };
        let lease = through.try_acquire(holder(1), TERM).unwrap();
        assert!(Some(lease.token()) > newest);
        newest = Some(lease.token());
        assert_eq!(lease.key(), Some(7));
        assert_eq!(refusal(table.try_acquire(&7, holder(2), TERM)).token, lease.token());
        assert_eq!(refusal(clone.try_acquire(holder(2), TERM)).token, lease.token());
        match round % 4 {
            // Replaced while held; evicted after; left behind by its slot.
            0 => replace_pages(&table, &clock, 1000 * (round + 1)),
            1 => {
                lease.release().unwrap();
                replace_pages(&table, &clock, 1000 * (round + 1));
            }
            2 => {
                for _ in 0..STAMP_MAX.min(100) {
                    drop(resource.try_acquire(holder(1), TERM));
                }
            }
            _ => {}
        }
    }
    assert!(table.stats().evictions > 0);
    assert_eq!((resource.key(), clone.key()), (&7, &7));
}

#[test]
fn two_resources_of_one_key_are_one_resource() {
    let (table, _clock) = table();
    let (one, two) = (table.resource(&1).unwrap(), table.resource(&1).unwrap());
    assert_eq!(table.resources(), 1);
    let lease = one.try_acquire(holder(1), TERM).unwrap();
    assert_eq!(refusal(two.try_acquire(holder(2), TERM)).holder, Some(holder(1)));
    assert_eq!(two.inspect().unwrap().token, lease.token());
    two.revoke(leasehold::Revoke::Now).unwrap();
    assert!(lease.check().is_err());
}

#[test]
fn borrowed_keys_name_the_same_resource() {
    let (table, _clock) = table::<String>();
    let lease = table.try_acquire("a", holder(1), TERM).unwrap();
    refusal(table.try_acquire(&"a".to_owned(), holder(2), TERM));
    assert_eq!(table.inspect("a"), table.inspect(&"a".to_owned()));
    assert_eq!(lease.key().as_deref(), Some("a"));
    assert_eq!(table.resource("a").unwrap().key(), "a");
    assert!(table.revoke("a", leasehold::Revoke::Now).is_ok());
}

#[test]
fn labels_are_kept_until_taken_away() {
    let (table, _clock) = table::<u64>();
    assert_eq!(table.label_of(holder(1)), None);
    table.label(holder(1), "worker");
    table.label(holder(2), String::from("other"));
    table.clone().label(holder(1), "worker one");
    assert_eq!(table.label_of(holder(1)).as_deref(), Some("worker one"));
    assert_eq!(table.unlabel(holder(1)).as_deref(), Some("worker one"));
    assert_eq!((table.unlabel(holder(1)), table.label_of(holder(1))), (None, None));
    assert_eq!(table.label_of(holder(2)).as_deref(), Some("other"));
}

#[test]
fn debug_prints_decoded_state() {
    let (table, _clock) = table();
    let resource = table.resource(&5).unwrap();
    let lease = resource.try_acquire(holder(3), TERM).unwrap();
    let owned = table.try_acquire_owned(&6, holder(4), TERM).unwrap();
    let token = format!("{:?}", lease.token());
    for (printed, parts) in [
        (format!("{lease:?}"), ["Lease {", "HolderId(3)", "10s", &token]),
        (format!("{owned:?}"), ["OwnedLease {", "HolderId(4)", "Held", "Token("]),
        (format!("{resource:?}"), ["Resource {", "key: 5", "10s", &token]),
        (format!("{table:?}"), ["LeaseTable {", "shards: 1", "grants: 2", "id: "]),
        (format!("{:?}", owned.into_grant()), ["Grant {", "HolderId(4)", "Token(", "TableId("]),
    ] {
        assert!(parts.iter().all(|part| printed.contains(part)), "{printed}");
    }
    assert_eq!(lease.status(), Status::Held { remaining: TERM });
    assert!(format!("{:?}", ManualClock::new()).contains("3600000000"));
}
