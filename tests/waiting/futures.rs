//! Futures that are dropped, forgotten, or polled by another task.

use leasehold::{Revoke, WaitError};

use super::common::ends::sweep_all;
use super::*;

/// A waker that does something when it is woken, the first time.
pub(super) struct On(std::sync::Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl On {
    pub(super) fn wake(run: impl FnOnce() + Send + 'static) -> Waker {
        Waker::from(Arc::new(Self(std::sync::Mutex::new(Some(Box::new(run))))))
    }
}

impl Wake for On {
    fn wake(self: Arc<Self>) {
        let run = self.0.lock().unwrap().take();
        if let Some(run) = run {
            run();
        }
    }
}

/// At which point a future is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    NeverPolled,
    Pending,
    /// First in the queue, in the middle, and last.
    First,
    Last,
    Granted,
    GrantedAndWoken,
    /// At the deadline's tick, where it is over and cannot be taken over yet.
    GrantedAndExpired,
    GrantedAndLapsed,
    GrantedAndPassedOn,
    Closed,
}

const POINTS: [At; 10] = [
    At::NeverPolled,
    At::Pending,
    At::First,
    At::Last,
    At::Granted,
    At::GrantedAndWoken,
    At::GrantedAndExpired,
    At::GrantedAndLapsed,
    At::GrantedAndPassedOn,
    At::Closed,
];

/// Drops a future at that point. Whoever waits behind it is served all the same, and nothing stays.
fn drops_at<F>(at: At, make: impl Fn(&Table, u64) -> F)
where
    F: Future<Output = Result<Owned, WaitError>> + Unpin,
{
    let (table, clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut before = make(&table, 2);
    let mut victim = make(&table, 3);
    let mut behind = make(&table, 4);
    let (count, waker) = Count::new();
    let (victims_count, victims_waker) = Count::new();
    let is_before = matches!(at, At::Pending | At::Last);
    if is_before {
        is_pending(&mut before);
    }
    if at != At::NeverPolled {
        assert!(poll_by(&mut victim, &victims_waker).is_pending());
    }
    if at != At::Last {
        assert!(poll_by(&mut behind, &waker).is_pending());
    }
    let is_granted = format!("{at:?}").starts_with("Granted");
    if is_granted {
        table.revoke(&1, Revoke::Now).unwrap();
        assert_eq!((holder_of(&table, 1), victims_count.get()), (Some(holder(3)), 1));
    }
    match at {
        At::GrantedAndExpired => clock.advance(TERM),
        At::GrantedAndLapsed => clock.advance(TERM + TICK),
        At::GrantedAndPassedOn => {
            clock.advance(TERM + TICK);
            assert_eq!((sweep_all(&table, 10).lapsed, count.get()), (1, 1));
        }
        At::Closed => table.close(),
        _ => {}
    }
    drop(victim);
    assert!(!queue(&table, 1).contains(&holder(3)), "{at:?}");
    if at == At::Closed {
        assert!(matches!(poll(&mut behind), Poll::Ready(Err(WaitError::Closed))));
        return;
    }
    if is_granted {
        // Passed on, if it was not before.
        assert_eq!((holder_of(&table, 1), count.get()), (Some(holder(4)), 1), "{at:?}");
    } else {
        assert_eq!((lease.check(), count.get()), (Ok(lease.token()), 0), "{at:?}");
    }
    drop(lease);
    if is_before {
        granted(&mut before).release().unwrap();
    }
    let last = granted(&mut behind);
    assert_eq!((last.holder(), last.remaining()), (holder(4), TERM), "{at:?}");
    drop(last);
    assert!(table.is_empty() && table.waiting().is_empty() && queue(&table, 1).is_empty());
    assert!(table.try_acquire(&1, holder(9), TERM).is_ok());
}

#[test]
fn inv_30_a_future_may_be_dropped_at_any_point() {
    for at in POINTS {
        drops_at(at, |table, id| table.acquire_owned_async(&1, holder(id), TERM));
        drops_at(at, |table, id| table.resource(&1).unwrap().acquire_owned_async(holder(id), TERM));
    }
}

/// The same for those that borrow the table, all at once.
#[test]
fn inv_29_whoever_is_dropped_passes_it_on_to_one_who_lives() {
    let (table, _clock) = by_hand();
    let resource = table.resource(&1).unwrap();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut waits: Vec<_> = (0..40).map(|n| resource.acquire_async(holder(10 + n), TERM)).collect();
    waits.iter_mut().for_each(is_pending);
    drop(lease);
    // Each is granted it as the one before goes.
    for (n, wait) in waits.drain(..39).enumerate() {
        assert_eq!(holder_of(&table, 1), Some(holder(10 + n as u64)));
        drop(wait);
    }
    assert_eq!(granted(&mut waits[0]).holder(), holder(49));
}

#[test]
fn inv_36_what_a_forgotten_future_was_granted_lapses() {
    let (table, clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut forgotten = table.acquire_async(&1, holder(2), TERM);
    let mut never = table.acquire_async(&1, holder(9), TERM);
    let mut behind = table.acquire_async(&1, holder(3), TERM);
    is_pending(&mut forgotten);
    is_pending(&mut behind);
    std::mem::forget(forgotten);
    drop(lease);
    is_pending(&mut behind);
    clock.advance(TERM + TICK);
    is_pending(&mut behind);
    sweep_all(&table, 10);
    assert_eq!(granted(&mut behind).remaining(), TERM);
    // Given back by the drop above.
    granted(&mut never).release().unwrap();
    assert!(table.is_empty());
}

/// Whoever is polled too late waits anew, behind those who wait by then.
#[test]
fn inv_16_a_lease_that_is_over_is_never_returned() {
    for late in [TERM, TERM + TICK, HOUR] {
        let (table, clock) = by_hand();
        let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
        let mut late_one = table.acquire_async(&1, holder(2), TERM);
        let mut behind = table.acquire_async(&1, holder(3), TERM);
        is_pending(&mut late_one);
        is_pending(&mut behind);
        lease.release().unwrap();
        clock.advance(late);
        is_pending(&mut late_one);
        assert_eq!(table.waiters(&1).last().unwrap().holder, holder(2), "{late:?}");
        clock.advance(TICK);
        sweep_all(&table, 10);
        let other = granted(&mut behind);
        assert!(other.check().is_ok());
        is_pending(&mut late_one);
        other.release().unwrap();
        let lease = granted(&mut late_one);
        assert_eq!(lease.remaining(), TERM);
        assert!(lease.check().is_ok());
    }
}

/// One that was revoked between its grant and the poll is not returned either.
#[test]
fn inv_16_a_lease_that_was_revoked_unseen_is_never_returned() {
    let (table, _clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut wait);
    lease.release().unwrap();
    let token = table.revoke(&1, Revoke::Now).unwrap().token;
    let lease = granted(&mut wait);
    assert!(lease.token() > token && lease.check().is_ok());
}

#[test]
fn inv_31_the_waker_of_the_last_poll_is_woken() {
    let (table, _clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    let wakers: Vec<_> = (0..5).map(|_| Count::new()).collect();
    for (_, waker) in &wakers {
        assert!(poll_by(&mut wait, waker).is_pending());
    }
    // Those that were replaced are kept by nobody.
    for (count, _) in &wakers[..4] {
        assert_eq!(Arc::strong_count(count), 2);
    }
    assert_eq!(Arc::strong_count(&wakers[4].0), 3);
    // The same one again is not kept twice.
    assert!(poll_by(&mut wait, &wakers[4].1).is_pending());
    assert_eq!(Arc::strong_count(&wakers[4].0), 3);
    drop(lease);
    let woken: Vec<_> = wakers.iter().map(|(count, _)| count.get()).collect();
    assert_eq!(woken, [0, 0, 0, 0, 1]);
    assert_eq!(Arc::strong_count(&wakers[4].0), 2);
    assert_eq!(granted(&mut wait).holder(), holder(2));
}

/// Granted in the very moment in which a waker is replaced.
#[test]
fn inv_31_granted_while_the_waker_is_cloned() {
    let (table, _clock) = by_hand();
    let lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    is_pending(&mut wait);
    let inner = table.clone();
    let waker = wakers::odd(wakers::Op::Clone, move || {
        _ = inner.revoke(&1, Revoke::Now);
    });
    let got = poll_by(&mut wait, &waker);
    assert!(matches!(got, Poll::Ready(Ok(got)) if got.holder() == holder(2)));
    drop(lease);
}

#[test]
fn a_future_that_is_done_is_not_polled_again() {
    let (table, _clock) = by_hand();
    let mut wait = table.acquire_async(&1, holder(2), TERM);
    drop(granted(&mut wait));
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(poll(&mut wait))));
    assert!(again.is_err());
    assert!(table.is_empty());
}

/// Bad terms are refused when it is polled, and take no place.
#[test]
fn inv_21_terms_of_any_length_have_a_defined_result() {
    let (table, _clock) = by_hand();
    let _lease = table.try_acquire(&1, holder(1), TERM).unwrap();
    for (key, term) in [(1, Duration::ZERO), (2, NANO), (1, TERM_MAX + NANO), (2, Duration::MAX)] {
        let outcome = poll(&mut table.acquire_async(&key, holder(2), term)).map_ok(drop);
        assert!(matches!(outcome, Poll::Ready(Err(WaitError::Refused(_)))), "{term:?}");
        let outcome = table.acquire_for(&key, holder(2), term, Duration::ZERO).map(drop);
        assert!(matches!(outcome, Err(WaitError::Refused(_))), "{term:?}");
        assert!(matches!(table.acquire(&key, holder(2), term), Err(WaitError::Refused(_))));
        let all = poll(&mut table.acquire_all_async(&[key], holder(2), term)).map_ok(drop);
        assert!(matches!(all, Poll::Ready(Err(WaitError::Refused(_)))), "{term:?}");
        assert!(matches!(table.acquire_all(&[key], holder(2), term), Err(WaitError::Refused(_))));
    }
    assert!(table.waiting().is_empty());
    for term in [TICK, TERM_MAX] {
        let mut wait = table.acquire_async(&1, holder(2), term);
        is_pending(&mut wait);
        table.revoke(&1, Revoke::Now).unwrap();
        assert_eq!(granted(&mut wait).remaining(), term);
        std::mem::forget(table.try_acquire(&1, holder(1), TERM).unwrap());
    }
}
