//! A queue outlives the slot that it waits for, and the page; and leaves nothing behind.

use leasehold::AcquireError;

use super::common::ends::sweep_all;
use super::*;

/// Pages are replaced and split while some wait.
#[test]
fn inv_15_pages_that_are_replaced_keep_their_queues() {
    let (table, clock) = by_hand();
    let leases: Vec<_> =
        (0..5).map(|key| table.try_acquire(&key, holder(1), HOUR).unwrap()).collect();
    let mut waits: Vec<_> =
        (0..20).map(|n| table.acquire_async(&(n % 5), holder(10 + n), HOUR)).collect();
    for (n, wait) in waits.iter_mut().enumerate() {
        is_pending(wait);
        replace_pages(&table, &clock, 1000 + 1000 * n as u64);
    }
    assert!(table.stats().evictions > 0);
    for key in 0..5 {
        let expected: Vec<_> = (0..4).map(|n| holder(10 + 5 * n + key)).collect();
        assert_eq!(queue(&table, key), expected);
        assert_eq!(refusal(table.try_acquire(&key, holder(1), TERM)).waiters, 4);
    }
    drop(leases);
    for n in 0..20 {
        replace_pages(&table, &clock, 100_000 + 1000 * n as u64);
        let lease = granted(&mut waits[n]);
        assert_eq!(lease.holder(), holder(10 + n as u64));
        waits.iter_mut().skip(n + 5).step_by(5).for_each(is_pending);
        lease.release().unwrap();
    }
    assert!(table.is_empty() && table.waiting().is_empty());
}

/// What lapsed in a page that is replaced is passed on, not left behind.
#[test]
fn inv_15_a_lapsed_lease_that_is_waited_for_is_not_left_behind() {
    let (table, clock) = by_hand();
    let mut waits: Vec<_> = (0..3).map(|key| table.acquire_async(&key, holder(2), HOUR)).collect();
    for key in 0..3 {
        std::mem::forget(table.try_acquire(&key, holder(1), TERM).unwrap());
        is_pending(&mut waits[key as usize]);
    }
    clock.advance(HOUR);
    for round in 0..5 {
        replace_pages(&table, &clock, 1000 + 1000 * round);
    }
    sweep_all(&table, 10);
    for wait in &mut waits {
        assert_eq!(granted(wait).holder(), holder(2));
    }
}

/// A holder that uses up its slot's stamps again and again, with others in the queue all the time.
#[test]
fn inv_35_stamps_that_run_out_keep_the_queue() {
    let (table, _clock) = by_hand();
    let rounds = if cfg!(leasehold_tiny) { 300 } else { 3 * STAMP_MAX };
    let mut lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut last = lease.token();
    let mut next = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut next);
    for n in 3..rounds {
        let mut behind = table.acquire_async(&1, holder(n), TERM);
        is_pending(&mut behind);
        lease.release().unwrap();
        lease = granted(&mut next);
        assert!(lease.holder() == holder(n - 1) && lease.token() > last, "round {n}");
        last = lease.token();
        next = behind;
    }
    assert_eq!(queue(&table, 1), [holder(rounds - 1)]);
    assert_eq!(table.stats().hand_overs, rounds - 3);
}

/// As above with many in the queue at once, so that all of them move to another slot.
#[test]
fn inv_35_all_who_wait_move_to_the_new_slot_in_their_order() {
    let (table, clock) = by_hand();
    let waiting = if cfg!(leasehold_tiny) { 3 * STAMP_MAX } else { 10 };
    let mut lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    // To its last stamp but four.
    while lease.token().get() & STAMP_MAX < STAMP_MAX - 4 {
        lease.release().unwrap();
        lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    }
    let mut waits: Vec<_> =
        (0..waiting).map(|n| table.acquire_async(&1, holder(10 + n), TERM)).collect();
    waits.iter_mut().for_each(is_pending);
    for (n, wait) in waits.iter_mut().enumerate() {
        // By each of the three ways.
        let token = lease.token();
        match n % 3 {
            0 => lease.release().unwrap(),
            1 => _ = table.revoke(&1, leasehold::Revoke::Now).unwrap(),
            _ => {
                std::mem::forget(lease);
                clock.advance(TERM + TICK);
                assert_eq!(sweep_all(&table, 10).lapsed, 1);
            }
        }
        let left: Vec<_> = (n as u64 + 1..waiting).map(|m| holder(10 + m)).collect();
        assert_eq!(queue(&table, 1), left);
        lease = granted(wait);
        assert!(lease.token() > token && lease.remaining() == TERM);
    }
}

/// A full table: who waits needs no room, and nobody is evicted who is held or waited for.
#[test]
fn inv_15_a_full_table_passes_on_and_forgets_nobody() {
    let clock = ManualClock::new();
    let capacity = 2 * SLOTS;
    let table: Table =
        build(&clock, |setup| setup.shards(1).sweep_by_hand().capacity_max(capacity as usize));
    let mut leases: Vec<_> =
        (0..capacity).map(|key| table.try_acquire(&key, holder(1), HOUR).unwrap()).collect();
    let mut waits: Vec<_> =
        (0..capacity).map(|key| table.acquire_async(&key, holder(2), TERM)).collect();
    waits.iter_mut().for_each(is_pending);
    let full = Err(AcquireError::Full { capacity_max: capacity as usize });
    assert_eq!(table.try_acquire(&9999, holder(1), TERM).map(drop), full);
    let mut more = table.acquire_async(&9999, holder(1), TERM);
    let refused = Poll::Ready(full.map_err(WaitError::from));
    assert_eq!(poll(&mut more).map_ok(drop), refused);
    // Every slot changes hands more often than it has stamps, in the tiny build.
    for round in 0..10 {
        leases.clear();
        for (key, wait) in waits.iter_mut().enumerate() {
            let lease = granted(wait);
            *wait = table.acquire_async(&(key as u64), holder(3 + round), TERM);
            is_pending(wait);
            leases.push(lease);
        }
        assert!(table.try_acquire(&9999, holder(1), TERM).is_err());
    }
    // What lapsed while it was waited for is not idle: it is passed on, also by who looks for room.
    std::mem::forget(std::mem::take(&mut leases));
    clock.advance(TERM + TICK);
    assert!(table.try_acquire(&9999, holder(1), TERM).is_err());
    assert_eq!(table.len() as u64, capacity);
    waits.iter_mut().for_each(|wait| assert_eq!(granted(wait).remaining(), TERM));
    assert!(table.try_acquire(&9999, holder(1), TERM).is_ok());
}

/// What was waited for, and lapsed when nobody did any more, is idle.
#[test]
fn inv_15_who_left_the_queue_keeps_nothing_from_being_forgotten() {
    let clock = ManualClock::new();
    let table: Table =
        build(&clock, |setup| setup.shards(1).sweep_by_hand().capacity_max(SLOTS as usize / 2));
    for round in 0..20 {
        for key in 0..SLOTS / 2 {
            let id = 1000 * round + key;
            std::mem::forget(table.try_acquire(&id, holder(1), TERM).unwrap());
            let mut wait = table.acquire_async(&id, holder(2), TERM);
            is_pending(&mut wait);
        }
        clock.advance(TERM + TICK);
    }
    assert!(table.waiting().is_empty());
}

/// The lists of those who wait are given back, too.
#[test]
fn inv_43_waiting_takes_no_memory_that_stays() {
    let (table, clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM_MAX).unwrap();
    let empty = table.memory_bytes();
    let round = |many: u64| {
        let mut waits: Vec<_> =
            (0..many).map(|n| table.acquire_async(&1, holder(2 + n), TERM)).collect();
        waits.iter_mut().for_each(is_pending);
        table.memory_bytes()
    };
    let most = round(10_000);
    assert!(most >= empty + 10_000 * 16, "{empty}, then {most}: it does count those who wait");
    let settled = table.memory_bytes();
    assert!(settled < empty + 100_000, "{empty} bytes, then {settled}");
    for _ in 0..20 {
        round(1000);
        table.resource(&1).unwrap().acquire_for(holder(9), TERM, Duration::ZERO).unwrap_err();
    }
    assert!(table.memory_bytes() <= settled, "{settled}, then {}", table.memory_bytes());
    drop(lease);
    // Many hand-overs, of distinct resources.
    let mut flat = 0;
    for n in 0..20_000_u64 {
        let lease = table.try_acquire(&n, holder(1), HOUR).unwrap();
        let mut wait = table.acquire_async(&n, holder(2), HOUR);
        is_pending(&mut wait);
        drop(lease);
        granted(&mut wait).release().unwrap();
        if n % 100 == 0 {
            clock.advance(SEC);
        }
        // By then the first of them are forgotten.
        if n == 4_000 {
            flat = table.memory_bytes();
        }
    }
    // Small pages go on to be split now and then; queues that nobody forgets would be three times as much, and more.
    assert!(table.memory_bytes() <= 2 * flat, "{flat}, then {}", table.memory_bytes());
}
