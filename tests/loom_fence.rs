//! Every interleaving of a few admissions. Run with `RUSTFLAGS="--cfg leasehold_loom"`.
#![cfg(leasehold_loom)]

use std::sync::atomic::AtomicBool;

use leasehold::{Fence, Token};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// Two tokens race: the higher one is always admitted, and the mark ends at it.
#[test]
fn the_highest_of_two_stays() {
    // The standard library's: they outlive each run of the model.
    static REFUSED: AtomicBool = AtomicBool::new(false);
    static ADMITTED: AtomicBool = AtomicBool::new(false);

    loom::model(|| {
        let fence = Arc::new(Fence::new());
        let low = {
            let fence = fence.clone();
            thread::spawn(move || fence.admit(token(7)))
        };
        assert_eq!(fence.admit(token(8)), Ok(()));
        assert_eq!(fence.highest(), Some(token(8)));
        match low.join().unwrap() {
            Ok(()) => ADMITTED.store(true, Relaxed),
            Err(error) => {
                assert_eq!((error.offered, error.highest), (token(7), token(8)));
                REFUSED.store(true, Relaxed);
            }
        }
        assert_eq!(fence.highest(), Some(token(8)));
        assert!(fence.admit(token(7)).is_err());
    });
    assert!(REFUSED.load(Relaxed) && ADMITTED.load(Relaxed), "one outcome of the race never came");
}

/// Whoever is refused or reads the mark sees what the admitted thread did before.
#[test]
fn an_admission_publishes_what_came_before_it() {
    // The reader is the spawned thread: loom does not try all orders for the first load of the other.
    loom::model(|| {
        let shared = Arc::new((Fence::new(), AtomicU64::new(0)));
        let low = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (fence, before) = &*shared;
                // Relaxed: the fence orders it.
                if fence.admit(token(7)).is_err() {
                    assert_eq!(before.load(Relaxed), 1);
                }
                if fence.highest() == Some(token(8)) {
                    assert_eq!(before.load(Relaxed), 1);
                }
            })
        };
        let (fence, before) = &*shared;
        before.store(1, Relaxed);
        fence.admit(token(8)).unwrap();
        low.join().unwrap();
    });
}
