//! Random operations, clock jumps and steps back, against a plain map.
//!
//! - 45: every outcome of every operation, and at the end every count, is that of the model. A failure
//!   prints its seed, and `LEASEHOLD_SEED` replays it; `LEASEHOLD_FULL=1` tries many more.
//!
//! One thread, and hashes that are the same in every run: so a seed determines everything. The clock
//! steps back by less than the retention: then every page knows the whole time, and the model need not.
//! `expiry` adds sweeps, and what is told of each end.
#![cfg(not(leasehold_loom))]

#[path = "../common/mod.rs"]
mod common;
mod expiry;

use std::collections::BTreeMap;
use std::time::Duration;

use common::*;
use leasehold::{
    AcquireError, Grant, HolderId, Lease, LeaseInfo, Lost, ManualClock, NotHeld, OwnedLease,
    RenewError, Resource, Revoke, Token,
};

type Owned = OwnedLease<u64, FixedHash, ManualClock>;

const RETENTION: Duration = HOUR;
/// Resources from here on are granted and released at once.
const FRESH: u64 = 1_000_000;

/// How the newest lease of a resource stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Held,
    Closing,
    /// It was reported as expired.
    Expired,
    Ended(Lost),
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    token: Token,
    holder: HolderId,
    granted: u64,
    deadline: u64,
    stand: Stand,
    /// Whether its end was told.
    told: bool,
}

impl Newest {
    fn is_valid(&self, now: u64) -> bool {
        matches!(self.stand, Stand::Held | Stand::Closing) && now < self.deadline
    }
}

#[derive(Default)]
struct Counts {
    grants: u64,
    refusals: u64,
    renewals: u64,
    releases: u64,
    lapses: u64,
    revocations: u64,
    superseded: u64,
    stale: u64,
}

/// What a handle of a lease is, for the one who has it.
enum Handle {
    Guard(Owned),
    Value(Grant),
}

struct Simulation {
    rng: Rng,
    clock: ManualClock,
    table: FixedTable,
    resources: BTreeMap<u64, Resource<u64, FixedHash, ManualClock>>,
    model: BTreeMap<u64, Newest>,
    counts: Counts,
    handles: Vec<(u64, Token, Handle)>,
    latest: u64,
    keys: u64,
    /// What was replaced by the last grant, if anything.
    replaced: Option<(u64, Newest)>,
}

fn micros(ticks: u64) -> Duration {
    Duration::from_micros(ticks)
}

impl Simulation {
    fn new(seed: u64) -> Self {
        Self::with(seed, |setup| setup)
    }

    fn with(seed: u64, set: impl FnOnce(Setup<u64>) -> Setup<u64>) -> Self {
        let mut rng = Rng::new(seed);
        let clock = ManualClock::starting_at((rng.below(3) << 42) + ManualClock::START);
        let shards = 1 << rng.below(3);
        let table = build_fixed(&clock, |setup| set(setup.shards(shards).retention(RETENTION)));
        let resources = BTreeMap::new();
        let keys = *rng.pick(&[1, 5, 2 * SLOTS]);
        let (model, counts, handles) = (BTreeMap::new(), Counts::default(), Vec::new());
        let latest = elapsed_of(&clock);
        let replaced = None;
        Self { rng, clock, table, resources, model, counts, handles, latest, keys, replaced }
    }

    fn now(&self) -> u64 {
        elapsed_of(&self.clock)
    }

    fn key(&mut self) -> u64 {
        self.rng.below(self.keys)
    }

    /// Anything from a tick to the longest term, the short ones no less often.
    fn term(&mut self) -> u64 {
        let magnitude = self.rng.below(42);
        1 + self.rng.below(1 << magnitude)
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=6 => self.acquire(),
            7..=9 => self.renew(),
            10 | 11 => self.check(),
            12 | 13 => self.release(),
            14 => self.revoke(),
            15 => self.convert(),
            16 => self.look(),
            17 | 18 => self.move_clock(),
            _ => self.disturb(),
        }
    }

    fn acquire(&mut self) {
        let (key, ticks, now) = (self.key(), self.term(), self.now());
        let owner = holder(1 + self.rng.below(3));
        let outcome = if self.rng.one_in(2) {
            self.table.try_acquire_owned(&key, owner, micros(ticks))
        } else {
            let table = &self.table;
            let known = self.resources.entry(key).or_insert_with(|| table.resource(&key).unwrap());
            known.try_acquire_owned(owner, micros(ticks))
        };
        let newest = self.model.get(&key).copied();
        let in_the_way = newest.filter(|newest| match newest.stand {
            Stand::Ended(_) => false,
            Stand::Held if newest.holder == owner => false,
            _ => now <= newest.deadline,
        });
        if let Some(other) = in_the_way {
            let held = refusal(outcome);
            assert_eq!((held.holder, held.token), (Some(other.holder), other.token));
            assert_eq!(held.retry_after, micros(other.deadline + 1 - now));
            self.counts.refusals += 1;
            return;
        }
        let lease = outcome.expect("nobody is in the way");
        self.count_end_of(newest, now);
        self.counts.grants += 1;
        let (token, deadline) = (lease.token(), now + ticks);
        assert!(newest.is_none_or(|newest| token > newest.token), "tokens rise");
        assert_eq!((lease.remaining(), lease.key()), (micros(ticks), Some(key)));
        self.replaced = newest.map(|newest| (key, newest));
        let (granted, stand, told) = (now, Stand::Held, false);
        let newest = Newest { token, holder: owner, granted, deadline, stand, told };
        self.model.insert(key, newest);
        self.keep(key, token, Handle::Guard(lease));
    }

    fn count_end_of(&mut self, newest: Option<Newest>, now: u64) {
        match newest {
            Some(Newest { stand: Stand::Ended(_), .. }) | None => {}
            Some(newest) if now > newest.deadline => self.counts.lapses += 1,
            Some(_) => self.counts.superseded += 1,
        }
    }

    fn keep(&mut self, key: u64, token: Token, handle: Handle) {
        if self.handles.len() < 40 {
            self.handles.push((key, token, handle));
        } else {
            // Forgotten: it lapses.
            std::mem::forget(handle);
        }
    }

    fn a_handle(&mut self) -> Option<usize> {
        let n = self.handles.len() as u64;
        (n > 0).then(|| self.rng.below(n) as usize)
    }

    /// What a handle may be told of its lease now; expired ones are marked, if `tells`.
    fn verdict(&mut self, key: u64, token: Token, tells: bool) -> Result<Newest, Option<Lost>> {
        let now = self.now();
        let newest = self.model.get_mut(&key).expect("it was granted");
        if newest.token != token {
            return Err(None);
        }
        match newest.stand {
            Stand::Ended(why) => Err(Some(why)),
            Stand::Expired => Err(Some(Lost::Expired)),
            Stand::Held | Stand::Closing if now < newest.deadline => Ok(*newest),
            Stand::Held | Stand::Closing => {
                if tells {
                    newest.stand = Stand::Expired;
                }
                Err(Some(Lost::Expired))
            }
        }
    }

    /// Whether the table may give that reason. What ended may be forgotten at any time, and with it
    /// why; and what was superseded may be left in a slot whose stamps are used up.
    fn assert_reason(&self, (key, token): (u64, Token), expected: Option<Lost>, told: Lost) {
        let newest = self.model[&key];
        match (expected, told) {
            (_, Lost::Gone) => {}
            (Some(expected), told) => assert_eq!(told, expected),
            (None, Lost::Taken { token: Some(other), .. }) => {
                assert!(token < other && other <= newest.token);
            }
            // Its slot is dead, and tells no more than that.
            (None, Lost::Taken { token: None, .. }) => {}
            (None, Lost::ForeignTable) => panic!("it is of this table"),
            // Its slot was left behind, for the newest lease's.
            (None, _) => assert!(token.get() >> 18 < newest.token.get() >> 18),
        }
    }

    fn check(&mut self) {
        let Some(n) = self.a_handle() else { return };
        let (key, token) = (self.handles[n].0, self.handles[n].1);
        let told = match &self.handles[n].2 {
            Handle::Guard(lease) => lease.check(),
            Handle::Value(grant) => self.table.check(*grant),
        };
        match (self.verdict(key, token, true), told) {
            (Ok(_), told) => assert_eq!(told, Ok(token)),
            (Err(expected), Err(told)) => self.assert_reason((key, token), expected, told),
            (Err(expected), Ok(_)) => panic!("valid, but {expected:?}"),
        }
        if let Handle::Guard(lease) = &self.handles[n].2 {
            let left = self.model[&key];
            let valid = left.token == token && left.is_valid(self.now());
            let expected = if valid { left.deadline - self.now() } else { 0 };
            assert_eq!(lease.remaining(), micros(expected));
        }
    }

    fn renew(&mut self) {
        let Some(n) = self.a_handle() else { return };
        let (key, token, ticks) = (self.handles[n].0, self.handles[n].1, self.term());
        let told = match &self.handles[n].2 {
            Handle::Guard(lease) => lease.renew(micros(ticks)),
            Handle::Value(grant) => self.table.renew(*grant, micros(ticks)),
        };
        let now = self.now();
        match (self.verdict(key, token, true), told) {
            (Ok(lease), Err(RenewError::Closing { remaining })) => {
                assert_eq!(lease.stand, Stand::Closing);
                assert_eq!(remaining, micros(lease.deadline - now));
            }
            (Ok(lease), told) => {
                assert_eq!((told, lease.stand), (Ok(()), Stand::Held));
                self.counts.renewals += 1;
                let lease = self.model.get_mut(&key).expect("it was granted");
                lease.deadline = lease.deadline.max(now + ticks);
            }
            (Err(expected), Err(RenewError::Lost(told))) => {
                self.counts.stale += 1;
                self.assert_reason((key, token), expected, told);
            }
            (Err(expected), told) => panic!("{told:?}, but {expected:?}"),
        }
    }

    fn release(&mut self) {
        let Some(n) = self.a_handle() else { return };
        let (key, token, handle) = self.handles.swap_remove(n);
        let told = match handle {
            Handle::Guard(lease) => lease.release(),
            Handle::Value(grant) => self.table.release(grant),
        };
        let newest = self.model.get_mut(&key).expect("it was granted");
        let mine = newest.token == token;
        match (newest.stand, told) {
            // Late or not: nobody else was granted it. Unless it was forgotten, long after it lapsed.
            (Stand::Held | Stand::Closing, Ok(())) if mine => {
                self.counts.releases += 1;
                newest.stand = Stand::Ended(Lost::Released);
            }
            (Stand::Held | Stand::Closing, Err(Lost::Gone)) if mine => {
                self.counts.stale += 1;
                assert!(self.latest > newest.deadline + RETENTION.as_micros() as u64);
            }
            (Stand::Expired, Err(Lost::Expired)) if mine => {
                self.counts.stale += 1;
                self.counts.lapses += 1;
                newest.stand = Stand::Ended(Lost::Expired);
            }
            (_, Err(told)) => {
                self.counts.stale += 1;
                let expected = self.verdict(key, token, false).expect_err("it was refused");
                self.assert_reason((key, token), expected, told);
            }
            (stand, Ok(())) => panic!("released, but {stand:?}"),
        }
    }

    fn revoke(&mut self) {
        let (key, grace, now) = (self.key(), self.term() - 1, self.now());
        let at_once = self.rng.one_in(2);
        let how = if at_once { Revoke::Now } else { Revoke::After(micros(grace)) };
        let told = self.table.revoke(&key, how);
        let Some(newest) = self.model.get_mut(&key).filter(|newest| newest.is_valid(now)) else {
            assert_eq!(told, Err(NotHeld));
            return;
        };
        let told = told.expect("it is held");
        assert_eq!((told.holder, told.token), (Some(newest.holder), newest.token));
        if at_once {
            self.counts.revocations += 1;
            let was_closing = newest.stand == Stand::Closing;
            assert_eq!(
                (told.remaining, told.closing),
                (micros(newest.deadline - now), was_closing)
            );
            newest.stand = Stand::Ended(Lost::Revoked);
        } else {
            newest.deadline = newest.deadline.min(now + grace);
            newest.stand = Stand::Closing;
            assert_eq!((told.remaining, told.closing), (micros(newest.deadline - now), true));
        }
    }

    /// From a guard to a value and back.
    fn convert(&mut self) {
        let Some(n) = self.a_handle() else { return };
        let (key, token, handle) = self.handles.swap_remove(n);
        let grant = match handle {
            Handle::Guard(lease) => lease.into_grant(),
            Handle::Value(grant) => grant,
        };
        if self.rng.one_in(2) {
            return self.keep(key, token, Handle::Value(grant));
        }
        let made = OwnedLease::from_grant(&self.table, grant);
        match (self.verdict(key, token, true), made) {
            (Ok(_), made) => self.keep(key, token, Handle::Guard(made.expect("it is valid"))),
            (Err(why), Err(told)) => self.assert_reason((key, token), why, told),
            (Err(why), Ok(_)) => panic!("a guard of what is over: {why:?}"),
        }
    }

    fn look(&mut self) {
        let now = self.now();
        let info = |newest: &Newest| {
            let closing = newest.stand == Stand::Closing;
            (Some(newest.holder), newest.token, micros(newest.deadline - now), closing)
        };
        let shown = |i: LeaseInfo| (i.holder, i.token, i.remaining, i.closing);
        let valid = self.model.iter().filter(|(_, newest)| newest.is_valid(now));
        let expected: BTreeMap<u64, _> = valid.map(|(key, newest)| (*key, info(newest))).collect();
        let found: BTreeMap<u64, _> = self.table.iter().map(|(k, i)| (k, shown(i))).collect();
        assert_eq!(found, expected);
        assert_eq!((self.table.len(), self.table.is_empty()), (found.len(), found.is_empty()));
        let key = self.key();
        assert_eq!(self.table.inspect(&key).map(shown), expected.get(&key).copied());
        assert!(self.table.resources() >= found.len());
    }

    fn move_clock(&mut self) {
        let ticks = self.term();
        let earliest = self.latest.saturating_sub(RETENTION.as_micros() as u64 - 4);
        match self.rng.below(6) {
            0 => self.clock.step_back_ticks(ticks.min(self.now() - earliest)),
            1 => self.clock.advance_ticks(10 * ticks),
            // To the boundary of some lease.
            2 | 3 => {
                let n = self.rng.below(1 + self.model.len() as u64) as usize;
                if let Some(newest) = self.model.values().nth(n) {
                    let to = newest.deadline + self.rng.below(3) - 1;
                    self.clock.advance_ticks(to.saturating_sub(self.now()));
                }
            }
            _ => self.clock.advance_ticks(ticks),
        }
        self.latest = self.latest.max(self.now());
    }

    /// New resources, so that pages are replaced and split.
    fn disturb(&mut self) {
        let n = self.rng.below(2 * SLOTS);
        let first = FRESH + self.counts.grants * 1_000;
        churn(&self.table, first, n);
        self.counts.grants += n;
        self.counts.releases += n;
    }

    fn finish(mut self) {
        self.look();
        let (now, stats) = (self.now(), self.table.stats());
        let counted = [stats.grants, stats.refusals, stats.renewals, stats.releases];
        let expected = &self.counts;
        assert_eq!(
            counted,
            [expected.grants, expected.refusals, expected.renewals, expected.releases]
        );
        let counted = [stats.revocations, stats.superseded, stats.stale];
        assert_eq!(counted, [expected.revocations, expected.superseded, expected.stale]);
        // The table may have found more of them lapsed than anybody asked for.
        let open = |newest: &&Newest| !matches!(newest.stand, Stand::Ended(_));
        let lapsed = |newest: &&Newest| newest.deadline < now.max(self.latest);
        let unasked = self.model.values().filter(open).filter(lapsed).count() as u64;
        let found = expected.lapses..=expected.lapses + unasked;
        assert!(found.contains(&stats.lapses), "{} lapses, not {found:?}", stats.lapses);
    }
}

fn elapsed_of(clock: &ManualClock) -> u64 {
    leasehold::Clock::now(clock)
}

/// Says how to replay, if the test panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with LEASEHOLD_SEED={}", self.0);
        }
    }
}

/// Runs a simulation with many seeds, or with the one that is to be replayed.
fn for_each_seed(full_run: u64, short_run: u64, run: impl Fn(u64)) {
    let only = std::env::var("LEASEHOLD_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    let seeds = 0..if full() { full_run } else { short_run };
    for seed in only.map_or(seeds, |seed| seed..seed + 1) {
        let _replay = Replay(seed);
        run(seed);
    }
}

#[test]
fn inv_45_random_operations_do_what_a_plain_map_does() {
    for_each_seed(20_000, 250, |seed| {
        let mut simulation = Simulation::new(seed);
        for _ in 0..600 {
            simulation.step();
        }
        simulation.finish();
    });
}

/// The model is not blind: one operation behind its back, and it notices.
#[test]
#[should_panic(expected = "assertion")]
fn inv_45_the_model_notices_what_it_was_not_told() {
    let mut simulation = Simulation::new(1);
    let lease: Lease<'_, _, _, _> =
        simulation.table.try_acquire(&0, holder(1), TERM_MAX).expect("nobody holds it");
    std::mem::forget(lease);
    for _ in 0..600 {
        simulation.step();
    }
    simulation.finish();
}

#[test]
fn acquiring_with_a_bad_term_is_no_operation() {
    let simulation = Simulation::new(2);
    let refused = simulation.table.try_acquire(&0, holder(1), Duration::ZERO);
    assert_eq!(refused.err(), Some(AcquireError::TermZero));
    simulation.finish();
}
