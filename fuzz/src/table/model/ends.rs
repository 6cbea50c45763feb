//! The ends of leases, and what is told of them.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Causes, EndCause, HolderId, Stats, Token};

use super::Model;
use super::life::{Ended, Life, State};
use super::time::{Deadline, Range, Ticks};

/// What the table told of an end.
#[derive(Debug)]
pub(in super::super) struct Told {
    pub(in super::super) key: u8,
    pub(in super::super) holder: Option<HolderId>,
    pub(in super::super) token: Token,
    pub(in super::super) cause: EndCause,
    pub(in super::super) held_for: Duration,
    pub(in super::super) late: Duration,
}

/// A grant of which no end was told.
#[derive(Debug)]
struct Granted {
    holder: HolderId,
    at: Ticks,
}

/// An end that an operation brought about, as far as the model knows.
#[derive(Debug)]
struct Expected {
    key: u8,
    token: Token,
    deadline: Deadline,
    causes: &'static [EndCause],
    /// It is not possible that it ended before.
    sure: bool,
}

pub(super) struct Ends {
    causes: Causes,
    /// By key and token: two keys may have one, in two shards.
    granted: BTreeMap<(u8, Token), Granted>,
    expected: Vec<Expected>,
    /// How many were told of, by [`EndCause`].
    counts: [u64; 4],
    /// Of the last sweep.
    swept: u64,
}

impl Ends {
    pub(super) fn new(causes: Causes) -> Self {
        Self { causes, granted: BTreeMap::new(), expected: Vec::new(), counts: [0; 4], swept: 0 }
    }

    /// Whether no lease lapses unseen.
    pub(super) fn tells_lapses(&self) -> bool {
        self.causes.contains(EndCause::Lapsed)
    }

    /// How many leases the last sweep was told to have ended.
    pub(super) fn take_swept(&mut self) -> u64 {
        std::mem::take(&mut self.swept)
    }

    pub(super) fn granted(&mut self, key: u8, token: Token, holder: HolderId, at: Ticks) {
        let old = self.granted.insert((key, token), Granted { holder, at });
        assert!(old.is_none(), "{token:?} was granted twice");
    }

    /// An operation ends the lease of a life, by one of these causes.
    pub(super) fn expect(&mut self, key: u8, life: &Life, causes: &'static [EndCause]) {
        let (Some(lease), Some((token, _))) = (life.lease(), life.newest) else { return };
        let sure = self.tells_lapses() || !life.loose && !lease.unsure;
        self.expected.push(Expected { key, token, deadline: lease.deadline, causes, sure });
    }
}

impl Model {
    pub(in super::super) fn causes(&self) -> Causes {
        self.ends.causes
    }

    pub(in super::super) fn has_listener(&self) -> bool {
        self.limits.listener
    }

    /// An operation is over, and this is what was told of it.
    pub(in super::super) fn told(&mut self, told: &[Told], stats: &Stats, sweeping: bool) {
        for told in told {
            self.one_told(told, sweeping);
        }
        let causes = self.ends.causes;
        for left in self.ends.expected.drain(..) {
            let all = left.causes.iter().all(|cause| causes.contains(*cause));
            assert!(!(left.sure && all), "nobody was told of the end of {left:?}");
        }
        if self.ends.tells_lapses() {
            // One that nobody was told of did not lapse: it is still there.
            let lives = self.known.values_mut().flat_map(|known| &mut known.lives);
            lives.filter(|life| life.lease().is_some()).for_each(Life::seen);
        }
        let counted = [
            (EndCause::Released, stats.releases),
            (EndCause::Lapsed, stats.lapses),
            (EndCause::Revoked, stats.revocations),
            (EndCause::Superseded, stats.superseded),
        ];
        for (cause, counted) in counted {
            let told = self.ends.counts[cause as usize];
            assert!(!causes.contains(cause) || told == counted, "{cause:?}: {told} of {counted}");
        }
    }

    fn one_told(&mut self, told: &Told, sweeping: bool) {
        let granted = self.ends.granted.remove(&(told.key, told.token));
        let granted = granted.unwrap_or_else(|| panic!("{told:?}: twice, or never granted"));
        assert_eq!(told.holder, Some(granted.holder), "{told:?}");
        assert!(self.ends.causes.contains(told.cause), "{told:?}, which nobody asked for");
        self.ends.counts[told.cause as usize] += 1;
        let expected = self
            .ends
            .expected
            .iter()
            .position(|end| (end.key, end.token) == (told.key, told.token));
        let deadline = match expected.map(|index| self.ends.expected.swap_remove(index)) {
            Some(expected) => {
                assert!(expected.causes.contains(&told.cause), "{told:?}, not {expected:?}");
                self.learn_cause(told);
                expected.deadline
            }
            None => self.lapsed_unseen(told, sweeping),
        };
        let now = Range { lo: self.time.now(), hi: self.time.now() };
        let lapsed = told.cause == EndCause::Lapsed;
        let due = deadline.span(&self.time);
        let end = if lapsed { due } else { now };
        let held = Range { lo: end.lo - granted.at, hi: end.hi - granted.at };
        assert!(self.is_floor(told.held_for, held), "{told:?}, held for {held:?} ticks");
        let late = Range { lo: now.lo - due.hi, hi: now.hi - due.lo };
        let late = if lapsed { late } else { Range { lo: 0, hi: 0 } };
        assert!(self.is_floor(told.late, late), "{told:?}, late by {late:?} ticks");
    }

    /// The model may not have known which of two causes it was.
    fn learn_cause(&mut self, told: &Told) {
        let lives = self.known.get_mut(&told.key).map(|known| &mut known.lives);
        let life = lives.into_iter().flatten().find(|life| life.is_newest(told.token));
        if let Some(life) = life.filter(|life| life.lease().is_none()) {
            life.state = State::Vacant(match told.cause {
                EndCause::Released => Ended::Released,
                EndCause::Lapsed => Ended::Lapsed,
                EndCause::Revoked => Ended::Revoked,
                _ => Ended::Superseded,
            });
            life.seen();
        }
    }

    /// A sweep found that a lease had lapsed, or it was left behind with its page.
    fn lapsed_unseen(&mut self, told: &Told, sweeping: bool) -> Deadline {
        assert_eq!(
            told.cause,
            EndCause::Lapsed,
            "{told:?} by an operation that ends no such lease"
        );
        let known = self.known.get_mut(&told.key).expect("it was granted");
        let index = known.lives.iter().position(|life| life.is_newest(told.token));
        let index = index.unwrap_or_else(|| panic!("{told:?} of a life that is over"));
        let life = &mut known.lives[index];
        let lease = life.lease().unwrap_or_else(|| panic!("{told:?}, which had ended: {life:?}"));
        if !sweeping {
            self.drop_life(told.key, index);
            return lease.deadline;
        }
        let left = lease.deadline.left(&self.time);
        assert!(left.lo < 0, "a sweep ended {life:?}, which has {left:?} ticks left");
        let waits = self.gap.keeps_in_sweep(lease.deadline, &self.time);
        assert!(!waits, "a sweep ended {life:?}, whose holder has a grace: {:?}", self.gap);
        life.end(Ended::Lapsed, &self.time);
        life.seen();
        self.tally.lapses.add();
        self.ends.swept += 1;
        lease.deadline
    }
}
