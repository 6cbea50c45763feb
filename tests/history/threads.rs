//! Real threads on a small grantor, honest and with one fault each.

use std::collections::HashMap;
use std::time::Instant;

use leasehold::testing::history::{Checker, Log, Outcome, Recorder, Summary, Violation};
use leasehold::{HolderId, Token};
use parking_lot::Mutex;

use crate::simulator::Random;
use crate::story::{holder, token};

#[derive(Clone, Copy, Default)]
struct Faults {
    ignores_deadline_on_grant: bool,
    ignores_deadline_on_check: bool,
    ignores_token_on_release: bool,
    tokens_by_holder: bool,
}

struct Lease {
    by: HolderId,
    token: Token,
    deadline: u64,
}

/// A grantor of leases under one lock.
struct Grantor {
    faults: Faults,
    start: Instant,
    leases: Mutex<(u64, HashMap<u64, Lease>)>,
}

impl Grantor {
    fn now(start: Instant) -> u64 {
        u64::try_from(start.elapsed().as_nanos()).unwrap()
    }

    fn acquire(&self, resource: u64, by: HolderId, term_ticks: u64) -> Outcome {
        let mut guard = self.leases.lock();
        let (last, leases) = &mut *guard;
        let now = Self::now(self.start);
        if let Some(lease) = leases.get(&resource)
            && now <= lease.deadline
            && lease.by != by
            && !self.faults.ignores_deadline_on_grant
        {
            return Outcome::Refused { by: Some(lease.token) };
        }
        *last += 1;
        let skewed = self.faults.tokens_by_holder;
        let token = token(if skewed { by.get() * 1_000_000 + *last } else { *last });
        leases.insert(resource, Lease { by, token, deadline: now + term_ticks });
        Outcome::Granted { token, term_ticks }
    }

    fn check(&self, resource: u64, token: Token) -> Outcome {
        let guard = self.leases.lock();
        let now = Self::now(self.start);
        match guard.1.get(&resource) {
            Some(lease)
                if lease.token == token
                    && (now < lease.deadline || self.faults.ignores_deadline_on_check) =>
            {
                Outcome::Checked { token }
            }
            _ => Outcome::CheckLost { token },
        }
    }

    fn renew(&self, resource: u64, token: Token, term_ticks: u64) -> Outcome {
        let mut guard = self.leases.lock();
        let now = Self::now(self.start);
        match guard.1.get_mut(&resource) {
            Some(lease) if lease.token == token && now < lease.deadline => {
                lease.deadline = lease.deadline.max(now + term_ticks);
                Outcome::Renewed { token, term_ticks }
            }
            _ => Outcome::RenewLost { token },
        }
    }

    fn release(&self, resource: u64, token: Token) -> Outcome {
        let mut guard = self.leases.lock();
        let current = guard
            .1
            .get(&resource)
            .is_some_and(|lease| lease.token == token || self.faults.ignores_token_on_release);
        if current {
            guard.1.remove(&resource);
            Outcome::Released { token }
        } else {
            Outcome::ReleaseLost { token }
        }
    }
}

/// One thread: asks, and on each grant checks, renews, dawdles and releases.
fn work(grantor: &Grantor, mut log: Log, number: u64, rounds: u64) {
    let (mut random, by) = (Random(number), holder(number));
    let mut record = |resource, act: &mut dyn FnMut() -> Outcome| {
        let call = log.begin(resource, by);
        let outcome = act();
        log.end(call, outcome);
        outcome
    };
    for _ in 0..rounds {
        let resource = random.below(2);
        let term = 1_000 + random.below(20_000);
        let outcome = record(resource, &mut || grantor.acquire(resource, by, term));
        let Outcome::Granted { token, .. } = outcome else { continue };
        for _ in 0..random.below(4) {
            record(resource, &mut || grantor.check(resource, token));
            for _ in 0..random.below(300) {
                core::hint::spin_loop();
            }
            record(resource, &mut || grantor.renew(resource, token, term));
        }
        record(resource, &mut || grantor.check(resource, token));
        if random.below(4) > 0 {
            record(resource, &mut || grantor.release(resource, token));
        }
    }
}

fn run(faults: Faults) -> Result<Summary, Box<Violation>> {
    let start = Instant::now();
    let recorder = Recorder::new(move || Grantor::now(start));
    let grantor = Grantor { faults, start, leases: Mutex::default() };
    std::thread::scope(|threads| {
        for number in 1..=4 {
            let (grantor, log) = (&grantor, recorder.log());
            threads.spawn(move || work(grantor, log, number, 2_000));
        }
    });
    Checker::new().check(&recorder.take())
}

/// Runs with faults, until one shows.
fn fault(faults: Faults) -> Violation {
    let violation = (0..100).find_map(|_| run(faults).err());
    *violation.expect("100 runs without a violation")
}

#[test]
fn an_honest_grantor_is_not_faulted() {
    let mut runs = 0..100;
    let all_reached = runs.any(|_| {
        let summary = run(Faults::default()).unwrap_or_else(|violation| panic!("{violation}"));
        let reached = [
            summary.granted,
            summary.refused,
            summary.renewed,
            summary.renew_lost,
            summary.released,
            summary.release_lost,
            summary.checked,
            summary.check_lost,
        ];
        reached.iter().all(|count| *count > 10)
    });
    assert!(all_reached, "the threads hardly met");
}

#[test]
fn a_grant_too_early_is_found() {
    let violation = fault(Faults { ignores_deadline_on_grant: true, ..Faults::default() });
    assert!(matches!(violation, Violation::Overlap { .. }), "{violation}");
}

#[test]
fn a_check_that_reads_no_clock_is_found() {
    let violation = fault(Faults { ignores_deadline_on_check: true, ..Faults::default() });
    // A renewal that failed may have told of the end before the ticks do.
    let found = matches!(violation, Violation::Outlived { .. } | Violation::Revived { .. });
    assert!(found, "{violation}");
}

#[test]
fn a_release_of_another_lease_is_found() {
    let violation = fault(Faults { ignores_token_on_release: true, ..Faults::default() });
    assert!(matches!(violation, Violation::Superseded { .. }), "{violation}");
}

#[test]
fn tokens_that_are_not_of_one_sequence_are_found() {
    let violation = fault(Faults { tokens_by_holder: true, ..Faults::default() });
    // Where the two grants overlapped, the first sign is that the later one is used.
    let found = matches!(violation, Violation::TokenOrder { .. } | Violation::Superseded { .. });
    assert!(found, "{violation}");
}
