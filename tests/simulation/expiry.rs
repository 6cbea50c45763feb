//! The same operations in a table that is swept, by random budgets and with long stretches without; and
//! what is told of each lease's end.
//!
//! - 18, 19, 27: clock jumps and steps back between sweeps.
//! - 45: each lease has one end, of the right cause, holder and times.

use leasehold::{Causes, EndCause, Ended, Lost, Subscription};

use super::common::ends::{received, sweep_all};
use super::common::*;
use super::{FRESH, Newest, Simulation, Stand, for_each_seed, micros};

struct Followed {
    all: Simulation,
    ends: Subscription<u64>,
    told: u64,
    /// For how many steps nobody sweeps.
    suspended: u64,
}

impl Followed {
    fn new(seed: u64) -> Self {
        let all = Simulation::with(seed, |setup| setup.events(Causes::ALL));
        let ends = all.table.subscribe(1 << 12).unwrap();
        Self { all, ends, told: 0, suspended: 0 }
    }

    fn step(&mut self) {
        self.all.step();
        self.follow();
        if self.suspended > 0 {
            self.suspended -= 1;
        } else if self.all.rng.one_in(100) {
            self.suspended = self.all.rng.below(200);
        } else if self.all.rng.one_in(4) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let budget = self.all.rng.below(5) as usize;
        let swept = self.all.table.sweep(budget).unwrap();
        assert!(swept.pages <= budget.max(1) && swept.panics == 0, "{swept:?}");
        assert!(swept.more || swept.next_in != Some(std::time::Duration::ZERO), "{swept:?}");
        let before = self.all.counts.lapses;
        self.follow();
        assert!(self.all.counts.lapses - before >= swept.lapsed, "it ended {}", swept.lapsed);
    }

    /// Compares what was told since the last step with what the model knows.
    fn follow(&mut self) {
        let list = received(&mut self.ends);
        self.told += list.len() as u64;
        for ended in &list {
            if ended.key >= FRESH {
                assert_eq!((ended.cause, ended.holder), (EndCause::Released, Some(holder(9999))));
            } else {
                self.judge(ended);
            }
        }
        // And nothing ended without being told.
        if let Some((key, lease)) = self.all.replaced.take() {
            assert!(lease.told, "the end of {lease:?} on {key}");
        }
        for (key, lease) in &self.all.model {
            let is_over = matches!(lease.stand, Stand::Ended(_));
            assert_eq!(lease.told, is_over, "the end of {lease:?} on {key}");
        }
        assert_eq!(self.ends.lost(), 0);
    }

    fn judge(&mut self, ended: &Ended<u64>) {
        let now = self.all.now();
        let is_it = |lease: &Newest| lease.token == ended.token;
        let replaced = self.all.replaced.as_mut();
        let replaced = replaced.filter(|(key, lease)| *key == ended.key && is_it(lease));
        let (lease, expected) = match replaced {
            Some((_, lease)) if now > lease.deadline => (lease, EndCause::Lapsed),
            Some((_, lease)) => (lease, EndCause::Superseded),
            None => {
                let lease = self.all.model.get_mut(&ended.key).expect("it was granted");
                assert!(is_it(lease), "{ended:?} is of the past: {lease:?}");
                let expected = match lease.stand {
                    Stand::Ended(Lost::Released) => EndCause::Released,
                    Stand::Ended(Lost::Revoked) => EndCause::Revoked,
                    Stand::Ended(_) => EndCause::Lapsed,
                    // Nobody acted on it: a sweep, or a page's replacement.
                    _ => {
                        assert!(now > lease.deadline, "{ended:?} at {now}: {lease:?}");
                        lease.stand = Stand::Ended(Lost::Expired);
                        self.all.counts.lapses += 1;
                        EndCause::Lapsed
                    }
                };
                (lease, expected)
            }
        };
        assert!(!std::mem::replace(&mut lease.told, true), "{ended:?} was told before");
        assert_eq!((ended.cause, ended.holder), (expected, Some(lease.holder)));
        let lapsed = expected == EndCause::Lapsed;
        let end = if lapsed { lease.deadline } else { now };
        assert_eq!(ended.held_for, micros(end.saturating_sub(lease.granted)), "{lease:?} at {now}");
        assert_eq!(ended.late, micros(now.saturating_sub(end)), "{lease:?} at {now}");
    }

    fn finish(mut self) {
        self.all.clock.advance(2 * TERM_MAX + DAY);
        sweep_all(&self.all.table, 3);
        self.follow();
        let open = self.all.model.values().filter(|lease| !lease.told).count();
        let stats = self.all.table.stats();
        assert_eq!((open, self.told), (0, stats.grants), "one end for each grant");
        self.all.latest = self.all.latest.max(self.all.now());
        self.all.finish();
    }
}

#[test]
fn inv_45_each_lease_has_the_end_that_the_model_says() {
    for_each_seed(20_000, 150, |seed| {
        let mut simulation = Followed::new(seed);
        for _ in 0..600 {
            simulation.step();
        }
        simulation.finish();
    });
}

#[test]
#[should_panic(expected = "it was granted")]
fn inv_45_an_end_of_what_was_never_granted_is_noticed() {
    let mut simulation = Followed::new(1);
    drop(simulation.all.table.try_acquire(&7777, holder(1), TERM).unwrap());
    simulation.follow();
}
