//! What a fence does, alone and under threads:
//!
//! 1. a token is admitted if and only if no higher one was;
//! 2. the mark never falls, whatever the race;
//! 3. through `Fenced`, the tokens that write never fall, and a refused closure does not run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use super::*;

const THREADS: u64 = 4;
const EACH: u64 = 100_000;

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

fn stale(offered: u64, highest: u64) -> StaleToken {
    StaleToken { offered: token(offered), highest: token(highest) }
}

#[test]
fn a_fence_admits_what_is_not_older() {
    let fence = Fence::new();
    assert_eq!(fence.highest(), None);
    for number in [5, 5, 6, u64::MAX, u64::MAX] {
        assert_eq!(fence.admit(token(number)), Ok(()));
        assert_eq!(fence.highest(), Some(token(number)));
    }
    for number in [1, 6, u64::MAX - 1] {
        assert_eq!(fence.admit(token(number)), Err(stale(number, u64::MAX)));
    }
    assert_eq!(fence.highest(), Some(token(u64::MAX)));
}

/// Runs `act` over and over on all threads at once, giving it the thread's number, 1 and up.
fn race(act: impl Fn(u64) + Sync) {
    let ready = AtomicU64::new(0);
    let run = |number| {
        // Relaxed: only brings the threads together.
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < THREADS {
            thread::yield_now();
        }
        (0..EACH).for_each(|_| act(number));
    };
    thread::scope(|s| {
        let run = &run;
        for number in 1..=THREADS {
            s.spawn(move || run(number));
        }
    });
}

/// A token just above `mark`, so that the threads contend for the next few: another for each.
fn above(mark: Option<Token>, number: u64) -> Token {
    token(mark.map_or(0, Token::get) + number)
}

#[test]
fn racing_admissions_never_lower_the_mark() {
    let fence = Fence::new();
    race(|number| {
        let before = fence.highest();
        let offered = above(before, number);
        if let Err(error) = fence.admit(offered) {
            assert!(error.offered == offered && error.highest > offered, "{error}");
        }
        let after = fence.highest();
        assert!(after >= Some(offered), "{before:?}, then {offered}, then {after:?}");
    });
}

#[test]
fn racing_writers_write_in_the_order_of_their_tokens() {
    let last = Fenced::new(None);
    race(|number| {
        let offered = above(last.highest(), number);
        let written = last.write(offered, |last| last.replace(offered));
        match written {
            Ok(before) => assert!(before <= Some(offered), "{offered} written over {before:?}"),
            Err(error) => assert!(error.highest > offered, "{error}"),
        }
    });
    assert_eq!(last.highest(), last.into_inner());
}

#[test]
fn a_refused_write_does_not_run() {
    let value = Fenced::new(1);
    assert_eq!(value.highest(), None);
    assert_eq!(value.write(token(4), |v| core::mem::replace(v, 2)), Ok(1));
    assert_eq!(value.write(token(4), |v| *v += 1), Ok(()));
    let refused = value.write(token(3), |_| unreachable!("a stale token writes nothing"));
    assert_eq!(refused, Err(stale(3, 4)));
    assert_eq!((value.read(|v| *v), value.highest()), (3, Some(token(4))));
}

#[test]
fn a_panic_leaves_token_and_value_as_they_are_and_the_lock_free() {
    let value = Fenced::new(0);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        value.write(token(9), |v| {
            *v = 5;
            resume_unwind(Box::new(()))
        })
    }));
    assert!(caught.is_err());
    assert_eq!(value.read(|v| *v), 5);
    assert_eq!(value.write(token(8), |_| ()), Err(stale(8, 9)));
    assert_eq!(value.write(token(9), |v| *v), Ok(5));
}

#[test]
fn the_owner_needs_no_token() {
    let mut value = Fenced::<String>::default();
    value.get_mut().push('x');
    assert_eq!(value.highest(), None);
    assert_eq!(value.into_inner(), "x");
}

#[test]
fn debug_shows_tokens_and_never_waits() {
    let fence = Fence::default();
    assert_eq!(format!("{fence:?}"), "Fence { highest: None }");
    let value = Fenced::new('x');
    let inside = value.write(token(3), |_| format!("{value:?}"));
    assert_eq!(inside.as_deref(), Ok("Fenced { .. }"));
    assert_eq!(format!("{value:?}"), "Fenced { highest: Some(Token(3)), value: 'x' }");
    assert_eq!(
        stale(1, 2).to_string(),
        "token 1 is stale, 2 was admitted: stop, the lease is over"
    );
}

#[test]
fn both_are_shared_between_threads() {
    fn shared<T: Send + Sync + Unpin>() {}
    shared::<Fence>();
    shared::<Fenced<core::cell::Cell<u8>>>();
}
