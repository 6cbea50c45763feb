//! Two threads at one moment, thousands of times.
//!
//! - 6: a renewal races a takeover: exactly one wins, and the loser is told what is true.
//! - 14: creators of one absent key end in one slot, also while its page is being replaced.
//! - 3, 9: a guard made of a grant that ends meanwhile takes up nothing that came after.
//! - 10: two threads of one holder.
#![cfg(not(leasehold_loom))]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use common::*;
use leasehold::{AcquireError, Grant, Lease, Lost, ManualClock, OwnedLease, RenewError};

type Owned = OwnedLease<u64, leasehold::DefaultHashBuilder, ManualClock>;

/// Lets threads begin a round together, closely enough that they race: they spin, and yield in case
/// they share a processor.
struct Start {
    arrived: AtomicU64,
    threads: u64,
}

impl Start {
    fn of(threads: u64) -> Self {
        Self { arrived: AtomicU64::new(0), threads }
    }

    /// Waits for all in this round; every thread calls it once a round.
    fn wait(&self) {
        let before = self.arrived.fetch_add(1, SeqCst);
        let goal = (before / self.threads + 1) * self.threads;
        let (since, mut spins) = (Instant::now(), 0_u32);
        while self.arrived.load(SeqCst) < goal {
            spins += 1;
            if spins.is_multiple_of(64) {
                std::thread::yield_now();
                assert!(since.elapsed() < Duration::from_secs(60), "another thread failed");
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// For a random while, so that neither of two threads is always the first.
fn dawdle(rng: &mut Rng) {
    if rng.one_in(20) {
        (0..rng.below(4)).for_each(|_| std::thread::yield_now());
    } else {
        (0..rng.below(300)).for_each(|_| std::hint::spin_loop());
    }
}

#[test]
fn inv_06_a_renewal_races_a_takeover_and_one_wins() {
    let rounds = 5_000;
    let (table, clock) = table();
    let (start, lease) = (Start::of(2), Mutex::new(None::<Owned>));
    let taken: Mutex<Option<Result<Owned, AcquireError>>> = Mutex::new(None);
    let wins = std::thread::scope(|s| {
        s.spawn(|| {
            // For this thread the deadline has just passed.
            let _ahead = ManualClock::skew_this_thread(2);
            let mut rng = Rng::new(1);
            for _ in 0..rounds {
                start.wait();
                dawdle(&mut rng);
                let outcome = table.try_acquire_owned(&0, holder(2), TERM);
                *taken.lock().unwrap() = Some(outcome);
                start.wait();
            }
        });
        let mut rng = Rng::new(2);
        let mut wins = [0, 0];
        for round in 0..rounds {
            let mine = table.try_acquire_owned(&0, holder(1), TERM).unwrap();
            clock.advance(TERM - TICK);
            if round % 16 == 0 {
                churn(&table, 1000 * (round + 1), SLOTS / 2);
            }
            start.wait();
            dawdle(&mut rng);
            let renewed = mine.renew(TERM);
            start.wait();
            let taken = taken.lock().unwrap().take().expect("the other thread is done");
            wins[usize::from(renewed.is_ok())] += 1;
            judge(&mine, renewed, taken);
            *lease.lock().unwrap() = None;
            drop(mine);
        }
        wins
    });
    assert!(wins.iter().all(|&n| n > 0), "one outcome never came: {wins:?}");
}

fn judge(mine: &Owned, renewed: Result<(), RenewError>, taken: Result<Owned, AcquireError>) {
    match (renewed, taken) {
        (Ok(()), Err(AcquireError::Held(held))) => {
            assert_eq!((held.token, held.holder), (mine.token(), Some(holder(1))));
            assert_eq!(mine.check(), Ok(mine.token()));
        }
        (Err(RenewError::Lost(lost)), Ok(theirs)) => {
            match lost {
                Lost::Taken { token, .. } => assert!(token.is_none_or(|t| t == theirs.token())),
                // It lay in a slot without stamps, which does not know where the resource went on.
                Lost::Expired | Lost::Gone if cfg!(leasehold_tiny) => {}
                other => panic!("{other}"),
            }
            assert!(theirs.token() > mine.token());
            assert_eq!(theirs.check(), Ok(theirs.token()));
            assert!(mine.check().is_err());
        }
        (renewed, taken) => panic!("{renewed:?} and {taken:?}"),
    }
}

/// Every round, all threads create the same keys. `fill` makes pages full first.
fn create_together(threads: u64, rounds: u64, fill: u64) {
    let (table, clock) = table();
    let (start, granted) = (Start::of(threads), Mutex::new(Vec::new()));
    std::thread::scope(|s| {
        for number in 0..threads {
            let (table, clock, start, granted) = (&table, &clock, &start, &granted);
            s.spawn(move || {
                for round in 0..rounds {
                    if number == 0 {
                        clock.advance(11 * SEC);
                        churn(table, 1_000_000 * (round + 1), fill);
                    }
                    start.wait();
                    for key in 10 * round..10 * round + 4 {
                        match table.try_acquire(&key, holder(1 + number), HOUR) {
                            Ok(lease) => granted.lock().unwrap().push((key, lease.into_grant())),
                            Err(AcquireError::Held(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                    start.wait();
                }
            });
        }
    });
    let granted = granted.into_inner().unwrap();
    let keys: std::collections::HashSet<u64> = granted.iter().map(|(key, _)| *key).collect();
    assert_eq!((granted.len(), keys.len() as u64), (keys.len(), 4 * rounds), "one winner a key");
    let live: Vec<_> = granted.iter().filter(|(_, grant)| table.check(*grant).is_ok()).collect();
    // Rounds are eleven seconds apart, and leases an hour long.
    assert!(live.len() as u64 >= 4 * rounds.min(3600 / 11 - 1));
    for (key, grant) in live {
        let info = table.inspect(key).expect("it is live");
        assert_eq!((info.token, info.holder), (grant.token(), Some(grant.holder())));
    }
}

#[test]
fn inv_14_creators_of_one_key_end_in_one_slot() {
    create_together(2, 1000, 0);
    create_together(4, 300, 0);
}

#[test]
fn inv_14_also_while_the_page_is_replaced() {
    for almost_full in [SLOTS - 2, SLOTS - 1, SLOTS, SLOTS + 1] {
        create_together(3, 150, almost_full);
    }
}

/// One thread ends and grants anew, the other makes guards of what it last saw.
#[test]
fn inv_03_a_guard_of_an_ended_grant_takes_up_nothing_later() {
    let (table, _clock) = table();
    let first: Grant = table.try_acquire(&0, holder(1), TERM).unwrap().into_grant();
    let (last, newest, done) = (Mutex::new(first), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..100_000 {
                let old = *last.lock().unwrap();
                // The other thread may have released it already.
                let _ = table.release(old);
                let next = table.try_acquire(&0, holder(2 + n % 2), TERM).unwrap().into_grant();
                newest.store(next.token().get(), SeqCst);
                *last.lock().unwrap() = next;
            }
            done.store(true, SeqCst);
        });
        let mut made = 0;
        while !done.load(SeqCst) {
            let grant = *last.lock().unwrap();
            let Ok(lease) = Lease::from_grant(&table, grant) else { continue };
            let before = newest.load(SeqCst);
            let valid = lease.check().is_ok();
            assert!(!valid || before <= grant.token().get(), "{grant:?} found {before} valid");
            made += 1;
            if made % 2 == 0 {
                let before = newest.load(SeqCst);
                let released = lease.release().is_ok();
                assert!(!released || before <= grant.token().get(), "{grant:?} released {before}");
            } else {
                let _ = lease.into_grant();
            }
        }
    });
    let stats = table.stats();
    assert_eq!(stats.grants, stats.releases + stats.superseded + table.len() as u64, "{stats:?}");
}

#[test]
fn inv_10_two_threads_of_one_holder_have_one_lease() {
    let (table, _clock) = table();
    let rounds = 20_000;
    let start = Start::of(2);
    let granted = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                start.wait();
                for _ in 0..rounds {
                    // Refused for the moment in which the other was granted and has yet to say so.
                    if let Ok(lease) = table.try_acquire(&0, holder(1), TERM) {
                        granted.lock().unwrap().push(lease.into_grant());
                    }
                }
            });
        }
    });
    let granted = granted.into_inner().unwrap();
    assert!(granted.len() as u64 > rounds);
    let live: Vec<_> = granted.iter().filter(|grant| table.check(**grant).is_ok()).collect();
    let newest = granted.iter().map(|grant| grant.token()).max();
    assert_eq!(live.iter().map(|grant| Some(grant.token())).collect::<Vec<_>>(), [newest]);
    assert_eq!(table.stats().superseded, granted.len() as u64 - 1);
}
