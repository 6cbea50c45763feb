//! Acquiring, and resolving a resource.

use std::time::Duration;

use leasehold::fuzzing::SLOTS;
use leasehold::{AcquireError, EndCause, Held, HolderId, Token};

use super::Model;
use super::life::{Ended, Life, life_of};
use super::time::Range;

impl Model {
    /// What a term is in ticks, or what must be said of it.
    pub(super) fn term_ticks(&self, term: Duration) -> Result<u64, AcquireError> {
        let max = self.limits.term_max;
        match self.limits.rate.ticks_floor(term) {
            0 => Err(AcquireError::TermZero),
            _ if term > max => Err(AcquireError::TermTooLong { requested: term, max }),
            ticks => Ok(ticks),
        }
    }

    pub(in super::super) fn acquired(
        &mut self,
        key: u8,
        holder: HolderId,
        term: Duration,
        result: Result<Token, AcquireError>,
    ) {
        let ticks = match self.term_ticks(term) {
            Ok(ticks) => ticks,
            Err(error) => return assert_eq!(result, Err(error), "for a term of {term:?}"),
        };
        match result {
            Ok(token) => self.granted(key, holder, ticks, token),
            Err(AcquireError::Held(held)) => self.refused(key, holder, held),
            Err(error) => self.no_slot(key, error),
        }
    }

    pub(in super::super) fn resolved(&mut self, key: u8, result: Result<(), AcquireError>) {
        if let Err(error) = result {
            return self.no_slot(key, error);
        }
        self.known_mut(key);
        let Self { known, time, .. } = self;
        let known = known.get_mut(&key).expect("just made");
        match known.present_mut() {
            // Which of the two it was, a later answer tells.
            Some(present) if present.loose => present.resolved_again(time),
            Some(_) => {}
            None => {
                known.lives.push(Life::new(None, time));
                self.expect_room(key);
            }
        }
    }

    fn granted(&mut self, key: u8, holder: HolderId, ticks: u64, token: Token) {
        self.tally.grants.add();
        let known = self.known_mut(key);
        assert!(Some(token) > known.highest, "{token:?} after {:?} of {key}", known.highest);
        known.highest = Some(token);
        self.expect_life(key, holder, life_of(token.get()));

        let known = self.known_mut(key);
        let life = known.lives.last().expect("just made sure of");
        let next = life.newest.map(|(newest, _)| newest.get() + 1);
        assert!(next.is_none_or(|next| next == token.get()), "{token:?} in {life:?}");
        self.end_lease(key, holder);
        let life = self.known.get_mut(&key).and_then(|known| known.lives.last_mut());
        life.expect("as above").grant(token, holder, ticks, &self.time);
        self.ends.granted(key, token, holder, self.time.now());
    }

    /// A grant goes on with the present life, or begins another: then the present one is spent, or was
    /// forgotten.
    fn expect_life(&mut self, key: u8, holder: HolderId, number: u64) {
        while let Some(life) = self.known[&key].present() {
            if life.number.is_none_or(|of| of == number) {
                return;
            }
            if life.is_spent() {
                self.end_lease(key, holder);
            } else {
                self.forget(key, self.known[&key].lives.len() - 1);
            }
        }
        let life = Life::new(Some(number), &self.time);
        self.known_mut(key).lives.push(life);
        self.expect_room(key);
    }

    /// A grant to `holder` ends the lease before it, if there is one.
    fn end_lease(&mut self, key: u8, holder: HolderId) {
        let Self { known, tally, time, ends, gap, .. } = self;
        let life = known.get_mut(&key).and_then(|known| known.lives.last_mut());
        let life = life.expect("a life that a grant goes on with");
        let Some(lease) = life.lease() else { return };
        let left = lease.deadline.left(time);
        // A life that is spent may have lapsed and been forgotten before, when the clock was further.
        let may_be_over = left.lo < 0 || lease.unsure || life.loose && life.is_spent();
        let is_holders = life.newest.is_some_and(|(_, newest)| newest == holder);
        let is_there = !lease.unsure && !(life.loose && life.is_spent());
        let waits = is_there && !is_holders && gap.keeps(lease.deadline, time);
        assert!(!waits, "{key} was granted to {holder:?} in another's grace: {life:?}, {gap:?}");
        let may_be_superseded = left.hi >= 0 && is_holders && !lease.closing && !lease.expired;
        let ended = match (may_be_over, may_be_superseded) {
            (true, false) => {
                tally.lapses.add();
                ends.expect(key, life, &[EndCause::Lapsed]);
                Ended::Lapsed
            }
            (false, true) => {
                tally.superseded.add();
                ends.expect(key, life, &[EndCause::Superseded]);
                Ended::Superseded
            }
            (true, true) => {
                tally.lapses.maybe_add();
                tally.superseded.maybe_add();
                ends.expect(key, life, &[EndCause::Lapsed, EndCause::Superseded]);
                Ended::LapsedOrSuperseded
            }
            (false, false) => panic!("{key} was granted to {holder:?} over {life:?} at {time:?}"),
        };
        life.end(ended, time);
    }

    fn refused(&mut self, key: u8, holder: HolderId, held: Held) {
        self.tally.refusals.add();
        let life = self.known.get(&key).and_then(|known| known.present());
        let life = life.expect("nobody was ever granted what is held");
        let lease = life.lease().expect("what is held has a lease");
        let left = lease.deadline.left(&self.time);
        let waits = self.gap.waits(self.time.now());
        assert!(left.hi >= 0 || waits > 0, "{key} was refused over {life:?} at {:?}", self.time);
        let (token, holds) = life.newest.expect("what is held was granted");
        let refuses_its_holder = (lease.closing || lease.expired) && left.hi >= 0;
        assert!(holds != holder || refuses_its_holder, "{key} was refused to its holder: {life:?}");
        assert_eq!((held.holder, held.token), (Some(holds), token), "who holds {key}");
        // The tick after the deadline is the first at which another can be granted.
        let until = left.hi.max(0) + 1;
        let wait = match (left.lo < 0, left.hi < 0) {
            (false, _) => Range { lo: left.lo + 1, hi: until },
            (true, true) => Range { lo: waits, hi: waits },
            (true, false) if waits == 0 => Range { lo: 1, hi: until },
            (true, false) => Range { lo: waits.min(1), hi: waits.max(until) },
        };
        let retry_after = held.retry_after;
        assert!(
            self.is_ceil(retry_after, wait),
            "{key}: retry after {retry_after:?}, not {wait:?}"
        );

        let least = if waits > 0 { left.lo } else { left.lo.max(0) };
        let known = Range { lo: least, hi: left.hi };
        self.see(key, |lease, time| {
            lease.deadline = lease.deadline.known(known, time);
            lease.unsure = false;
        });
    }

    /// The table said that it has no slot for a key: then it must have none.
    fn no_slot(&mut self, key: u8, error: AcquireError) {
        while self.known_mut(key).present().is_some() {
            self.forget(key, self.known[&key].lives.len() - 1);
        }
        match error {
            AcquireError::Full { capacity_max } => {
                assert_eq!(Some(capacity_max), self.limits.capacity_max, "the bound");
                let held = self.others(key, |life, _| life.may_be_held(&self.time, &self.gap));
                assert!(held >= capacity_max, "full, of {held} held leases of {capacity_max}");
            }
            AcquireError::Crowded => {
                let is_kept = |life: &Life, crowds: bool| {
                    crowds && life.may_be_kept(&self.terms, &self.time, &self.gap)
                };
                let kept = self.others(key, is_kept);
                assert!(kept >= SLOTS, "crowded, with {kept} keys of that hash");
            }
            other => panic!("{key}: {other:?}, which nothing explains"),
        }
    }

    /// The table found a slot for a key: then there must be one.
    fn expect_room(&self, key: u8) {
        let held = self.others(key, |life, _| life.is_held(&self.time, &self.gap));
        let capacity_max = self.limits.capacity_max.unwrap_or(usize::MAX);
        assert!(held < capacity_max, "{key} is one more than the {held} held of {capacity_max}");
        let crowd = self.others(key, |life, crowds| crowds && life.is_held(&self.time, &self.gap));
        assert!(crowd < SLOTS, "{key} shares a page with {crowd} held keys");
    }

    /// How many lives of other keys are such; `which` is told whether the key has the same hash.
    fn others(&self, key: u8, which: impl Fn(&Life, bool) -> bool) -> usize {
        let hash = self.known.get(&key).map(|known| known.hash);
        let others = self.known.iter().filter(|(other, _)| **other != key);
        let lives = others.flat_map(|(_, known)| {
            let crowds = Some(known.hash) == hash;
            known.lives.iter().map(move |life| (life, crowds))
        });
        lives.filter(|(life, crowds)| which(life, *crowds)).count()
    }
}
