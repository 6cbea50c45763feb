//! First come, first served.

use std::time::Duration;

use leasehold::{Causes, ClockGap, EndCause, GapPolicy, Revoke, WaitError};

use super::common::ends::{received, sweep_all};
use super::*;

/// How the lease that is waited for ends.
const ENDS: [fn(&Table, &ManualClock, Guard<'_>); 6] = [
    |_, _, lease| lease.release().unwrap(),
    |_, _, lease| drop(lease),
    |table, _, _| _ = table.revoke(&1, Revoke::Now).unwrap(),
    |table, clock, lease| {
        std::mem::forget(lease);
        table.revoke(&1, Revoke::After(SEC)).unwrap();
        clock.advance(SEC + TICK);
        assert_eq!(sweep_all(table, 10).lapsed, 1);
    },
    |table, clock, lease| {
        std::mem::forget(lease);
        clock.advance(TERM + TICK);
        assert_eq!(sweep_all(table, 10).lapsed, 1);
    },
    // Somebody else finds out that it lapsed. It is told whose it is now.
    |table, clock, lease| {
        std::mem::forget(lease);
        let next = queue(table, 1)[0];
        let waiters = queue(table, 1).len();
        clock.advance(TERM + TICK);
        let held = refusal(table.try_acquire(&1, holder(999), TERM));
        assert_eq!((held.holder, held.waiters), (Some(next), waiters - 1));
    },
];

#[test]
fn inv_35_each_end_of_a_lease_grants_it_to_the_first_who_waits() {
    for (way, end) in ENDS.into_iter().enumerate() {
        let (table, clock) = by_hand();
        let mut lease = table.try_acquire(&1, holder(100), TERM).unwrap();
        let counts: Vec<_> = (0..5).map(|_| Count::new()).collect();
        let mut waits: Vec<_> =
            (0..5).map(|n| table.acquire_async(&1, holder(n + 1), TERM)).collect();
        for (wait, (_, waker)) in waits.iter_mut().zip(&counts) {
            assert!(poll_by(wait, waker).is_pending());
        }
        for n in 0..5 {
            end(&table, &clock, lease);
            // 34: one is woken, and the others wait in their order.
            let woken: Vec<u64> = counts.iter().map(|(count, _)| count.get()).collect();
            let expected: Vec<u64> = (0..5).map(|m| u64::from(m <= n)).collect();
            assert_eq!(woken, expected, "way {way}");
            assert_eq!(holder_of(&table, 1), Some(holder(n as u64 + 1)));
            let left: Vec<_> = (n as u64 + 1..5).map(|m| holder(m + 1)).collect();
            assert_eq!(queue(&table, 1), left);
            for (wait, (_, waker)) in waits.iter_mut().zip(&counts).skip(n + 1) {
                assert!(poll_by(wait, waker).is_pending());
            }
            lease = granted(&mut waits[n]);
            // 16: its term is from the grant on, however long it waited.
            assert_eq!(lease.remaining(), TERM);
            assert_eq!(lease.check(), Ok(lease.token()));
        }
        lease.release().unwrap();
        assert_eq!((table.stats().waits, table.stats().hand_overs), (5, 5));
        assert!(table.is_empty() && table.waiting().is_empty());
        assert!(table.try_acquire(&1, holder(7), TERM).is_ok());
    }
}

/// Threads and tasks in one queue.
#[test]
fn inv_35_threads_and_tasks_are_served_in_one_order() {
    let (table, _clock) = by_hand();
    let first = table.try_acquire(&1, holder(100), TERM).unwrap();
    let (tell, order) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut waits = Vec::new();
        for n in 0..10_u64 {
            if n % 2 == 0 {
                let (table, tell) = (&table, tell.clone());
                scope.spawn(move || {
                    let lease = table.acquire(&1, holder(n + 1), TERM).unwrap();
                    tell.send(lease.holder()).unwrap();
                    lease.release().unwrap();
                });
            } else {
                let (tell, waker) = (tell.clone(), futures::On::wake(move || {}));
                let mut wait = table.acquire_async(&1, holder(n + 1), TERM);
                assert!(poll_by(&mut wait, &waker).is_pending());
                waits.push((wait, tell));
            }
            // The next one comes after it.
            wait_for("its place in the queue", || table.waiters(&1).len() as u64 == n + 1);
        }
        first.release().unwrap();
        for (mut wait, tell) in waits {
            let me = loop {
                match poll(&mut wait) {
                    Poll::Ready(lease) => break lease.unwrap(),
                    Poll::Pending => std::thread::yield_now(),
                }
            };
            tell.send(me.holder()).unwrap();
            me.release().unwrap();
        }
    });
    drop(tell);
    let served: Vec<_> = order.iter().collect();
    assert_eq!(served, (1..=10).map(holder).collect::<Vec<_>>());
}

#[test]
fn inv_35_nobody_who_just_asks_comes_first() {
    let (table, clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let resource = table.resource(&1).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut wait);
    // Not even who holds it, in whatever way it asks.
    for asks in [1, 2, 3] {
        let held = refusal(table.try_acquire(&1, holder(asks), TERM));
        assert_eq!((held.waiters, held.token), (1, lease.token()));
        assert_eq!(held.retry_after, TERM + TICK);
        let held = refusal(table.try_acquire_owned(&1, holder(asks), TERM));
        assert_eq!((held.waiters, held.token), (1, lease.token()));
        let held = refusal(resource.try_acquire(holder(asks), TERM));
        assert_eq!((held.waiters, held.token), (1, lease.token()));
        let held = refusal(resource.try_acquire_owned(holder(asks), TERM));
        assert_eq!((held.waiters, held.token), (1, lease.token()));
        let timed_out = table.acquire_for(&1, holder(asks), TERM, Duration::ZERO);
        assert!(matches!(timed_out, Err(WaitError::TimedOut(held)) if held.waiters == 1));
    }
    assert!(lease.check().is_ok());
    assert_eq!(queue(&table, 1), [holder(2)]);
    // It may renew all the same, and waiting goes on.
    clock.advance(SEC);
    lease.renew(TERM).unwrap();
    assert_eq!(lease.remaining(), TERM);
    assert_eq!(refusal(table.try_acquire(&1, holder(3), TERM)).waiters, 1);
    drop(lease);
    assert_eq!(granted(&mut wait).holder(), holder(2));
}

/// A loop that releases and asks again at once, in the same thread, so that it would win every race.
#[test]
fn inv_35_nobody_starves_under_a_loop_of_acquisitions() {
    let (table, _clock) = by_hand();
    let mut lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    for round in 0..if cfg!(leasehold_tiny) { 300 } else { 1000 } {
        let mut wait = table.acquire_async(&1, holder(2), TERM);
        is_pending(&mut wait);
        lease.release().unwrap();
        assert_eq!(refusal(table.try_acquire(&1, holder(1), TERM)).holder, Some(holder(2)));
        let mut again = table.acquire_async(&1, holder(1), TERM);
        is_pending(&mut again);
        let other = granted(&mut wait);
        assert_eq!(other.remaining(), TERM, "round {round}");
        other.release().unwrap();
        lease = granted(&mut again);
    }
}

/// Once those who waited have left, all is as if they never had.
#[test]
fn inv_35_who_holds_it_may_ask_anew_when_nobody_waits_any_more() {
    let (table, _clock) = by_hand();
    for way in 0..3 {
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let mut wait = table.acquire_async(&1, holder(2), TERM);
        is_pending(&mut wait);
        assert_eq!(refusal(table.try_acquire(&1, holder(1), TERM)).waiters, 1);
        drop(wait);
        assert_eq!(refusal(table.try_acquire(&1, holder(3), TERM)).waiters, 0);
        let again = match way {
            0 => table.try_acquire(&1, holder(1), TERM).unwrap(),
            1 => table.acquire_for(&1, holder(1), TERM, Duration::ZERO).unwrap(),
            _ => granted(&mut table.acquire_async(&1, holder(1), TERM)),
        };
        assert!(again.token() > lease.token() && lease.check().is_err());
        // One that is being revoked is refused to everybody, as without waiters.
        let mut wait = table.acquire_async(&1, holder(2), TERM);
        is_pending(&mut wait);
        drop(wait);
        table.revoke(&1, Revoke::After(SEC)).unwrap();
        assert_eq!(refusal(table.try_acquire(&1, holder(1), TERM)).token, again.token());
    }
}

/// Who asks for what has lapsed by then passes it on, to whoever that is.
#[test]
fn inv_34_what_is_found_lapsed_goes_to_the_first_also_if_another_queues() {
    let (table, clock) = by_hand();
    std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    let mut waits = [2, 3, 4].map(|id| table.acquire_async(&1, holder(id), TERM));
    waits[..2].iter_mut().for_each(is_pending);
    clock.advance(TERM);
    // At the deadline itself nobody has it, and nobody can.
    assert!(table.inspect(&1).is_none());
    assert_eq!(sweep_all(&table, 10).lapsed, 0);
    waits[..2].iter_mut().for_each(is_pending);
    clock.advance_ticks(1);
    is_pending(&mut waits[2]);
    assert_eq!(holder_of(&table, 1), Some(holder(2)));
    assert_eq!(queue(&table, 1), [holder(3), holder(4)]);
    assert_eq!((table.stats().lapses, table.stats().hand_overs), (1, 1));
    // A time-out, too.
    clock.advance(TERM + TICK);
    let Err(WaitError::TimedOut(held)) = table.acquire_for(&1, holder(5), TERM, Duration::ZERO)
    else {
        panic!("it is waited for");
    };
    assert_eq!((held.holder, held.waiters), (Some(holder(3)), 1));
}

/// Each end is told, once, also of those that were handed over.
#[test]
fn hand_overs_are_told_as_what_ended_the_lease() {
    let clock = ManualClock::new();
    let table = build(&clock, |setup| setup.shards(1).sweep_by_hand().events(Causes::ALL));
    let mut ends = table.subscribe(100).unwrap();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut waits = [2, 3, 4, 5].map(|id| table.acquire_async(&1, holder(id), TERM));
    waits.iter_mut().for_each(is_pending);
    lease.release().unwrap();
    table.revoke(&1, Revoke::Now).unwrap();
    clock.advance(TERM + TICK);
    sweep_all(&table, 10);
    clock.advance(TERM + TICK);
    refusal(table.try_acquire(&1, holder(6), TERM));
    let told: Vec<_> = received(&mut ends).iter().map(|it| (it.holder, it.cause)).collect();
    let lapsed = EndCause::Lapsed;
    let causes = [EndCause::Released, EndCause::Revoked, lapsed, lapsed];
    let expected = [1, 2, 3, 4].map(|id| Some(holder(id))).into_iter().zip(causes);
    assert_eq!(told, expected.collect::<Vec<_>>());
}

/// After the clock has jumped, a holder has its grace to come back, though others wait. What ended by that is
/// told, too.
#[test]
fn a_holder_that_comes_back_in_its_grace_is_first() {
    let clock = ManualClock::new();
    let table = build(&clock, |setup| {
        let setup = setup.shards(1).sweep_by_hand().events(Causes::ALL);
        setup.clock_gap(SEC, GapPolicy::Grace(TERM))
    });
    let mut ends = table.subscribe(100).unwrap();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut wait);
    sweep_all(&table, 10);
    clock.advance(HOUR);
    let gap: Option<ClockGap> = sweep_all(&table, 10).clock_gap;
    assert!(gap.is_some(), "the clock jumped");
    is_pending(&mut wait);
    assert_eq!(refusal(table.try_acquire(&1, holder(3), TERM)).waiters, 1);
    let back = table.try_acquire(&1, holder(1), TERM).unwrap();
    assert!(back.token() > lease.token());
    assert_eq!((back.remaining(), queue(&table, 1)), (TERM, vec![holder(2)]));
    back.release().unwrap();
    assert_eq!(granted(&mut wait).holder(), holder(2));
    let told: Vec<_> = received(&mut ends).iter().map(|it| (it.token, it.cause)).collect();
    let (first, second) = (lease.token(), told.len());
    assert_eq!(told[0], (first, EndCause::Lapsed), "{told:?}");
    assert_eq!(second, 3, "{told:?}");
}
