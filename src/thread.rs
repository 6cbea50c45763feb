//! Small numbers for threads: a living thread's is its own, an ended thread's is given away again.

use crate::sync::std_atomic::{AtomicU64, Ordering};

/// How many numbers there are. Threads beyond, and those whose locals are gone, have none.
pub(crate) const NUMBERS: usize = 64 * WORDS;
/// The number of a thread without one.
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
const NONE: usize = usize::MAX;
/// The number of a thread that has yet to ask.
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
const UNASKED: usize = usize::MAX - 1;
const WORDS: usize = 4;

/// A bit for each number in use.
#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
pub(crate) use local::{ask, number};
#[cfg(any(leasehold_loom, leasehold_shuttle))]
pub(crate) use modelled::{ask, number};

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
mod local {
    use core::cell::Cell;

    use super::{NONE, NUMBERS, Ordering, TAKEN, UNASKED, take};

    thread_local! {
        /// Without a destructor, so that it can be read as long as the thread runs.
        static NUMBER: Cell<usize> = const { Cell::new(UNASKED) };
        static OWNED: Owned = const { Owned };
    }

    /// Gives the number back when the thread ends.
    struct Owned;

    impl Drop for Owned {
        fn drop(&mut self) {
            let number = NUMBER.replace(NONE);
            if number < NUMBERS {
                // Release: pairs with the Acquire of the next owner, who then has all that this thread
                // wrote to its counters.
                TAKEN[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
            }
        }
    }

    /// The calling thread's number: below [`NUMBERS`] if it has one, and far above if not, or if it was not
    /// yet asked for.
    #[inline(always)]
    pub(crate) fn number() -> usize {
        NUMBER.get()
    }

    /// As [`number`], and takes one if there is none yet.
    #[cold]
    pub(crate) fn ask() -> usize {
        if NUMBER.get() == UNASKED {
            // Touched first, so that its destructor is registered; when that has run, no number is taken.
            let number = OWNED.try_with(|_| take()).ok().flatten().unwrap_or(NONE);
            NUMBER.set(number);
        }
        NUMBER.get()
    }
}

/// The threads of models take turns on one of the system's, whose locals they would share.
#[cfg(any(leasehold_loom, leasehold_shuttle))]
mod modelled {
    crate::sync::model::lazy_static! {
        static ref NEXT: super::AtomicU64 = super::AtomicU64::new(0);
    }
    crate::sync::model::thread_local! {
        // Relaxed: only that no two get one number matters.
        static NUMBER: usize = NEXT.fetch_add(1, super::Ordering::Relaxed) as usize;
    }

    pub(crate) fn number() -> usize {
        NUMBER.with(|number| *number)
    }

    pub(crate) fn ask() -> usize {
        number()
    }
}

#[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
fn take() -> Option<usize> {
    TAKEN.iter().enumerate().find_map(|(index, word)| {
        // Relaxed: the exchange checks it.
        let mut seen = word.load(Ordering::Relaxed);
        while seen != u64::MAX {
            let bit = seen.trailing_ones();
            // Acquire: pairs with the Release of the last owner. Relaxed on failure: as for the load.
            match word.compare_exchange_weak(
                seen,
                seen | 1 << bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(index * 64 + bit as usize),
                Err(found) => seen = found,
            }
        }
        None
    })
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn living_threads_have_numbers_of_their_own_and_give_them_back() {
        let mine = ask();
        assert_eq!(number(), mine);
        let others: Vec<usize> = (0..8).map(|_| std::thread::spawn(ask).join().unwrap()).collect();
        assert!(others.iter().all(|&other| other != mine));
        let barrier = std::sync::Barrier::new(8);
        let together: std::collections::HashSet<usize> = std::thread::scope(|s| {
            let asking = || {
                barrier.wait();
                let number = ask();
                barrier.wait();
                number
            };
            let threads: Vec<_> = (0..8).map(|_| s.spawn(asking)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(together.len(), 8);
    }
}
