//! The word of a slot against a plain struct, and the property on which the whole table rests: within
//! one life of a page, **no value of a word ever comes back**.
//!
//! Steps are those that `slot` and `table` take, with the times that they may take them at: the
//! clock goes where it likes, a page's time stays between its floor and the range of a tick.

mod model;

use std::collections::HashSet;

use arbitrary::Arbitrary;
use leasehold::fuzzing::{
    self, Cause, Fields, Outcome, STAMP_MAX, State, Step, TICK_MAX, TICK_SLACK,
};

use crate::choice::choice;

/// Where a page's time begins, and what happens to one of its words.
#[derive(Arbitrary, Debug)]
pub struct Input {
    floor: u64,
    /// How many stamps the slot has left, if claims that were given back used up others.
    stamps_left: Option<u8>,
    moves: Vec<Move>,
    parts: (u64, u64, u64),
}

choice! {
    /// What happens to the word.
    enum Move {
        Claim(Tick),
        Unclaim,
        Publish,
        Acquire { now: Tick, until: Until, told: bool, same_holder: bool },
        GrantVacant { now: Tick, until: Until },
        Renew { stale: bool, now: Tick, until: Until },
        Check { stale: bool, now: u64 },
        Release { since: Tick },
        ReleaseUnread { since: Tick },
        Revoke { now: Tick, grace: Option<u64> },
        Wait,
        Unwait,
        PassOn { now: Tick, until: Until, more: bool },
        Bury { now: Tick, cause: u8 },
        Freeze,
        Copy { tick: Tick },
    }

    /// A tick of the page's time.
    enum Tick {
        Early(u8),
        Any(u64),
        /// So far from the word's own.
        Beside(i8),
    }

    /// A deadline.
    enum Until {
        /// A term from now.
        After(u64),
        /// The word's own tick.
        Same,
        /// So far from it.
        Beside(i8),
    }
}

/// The latest deadline.
const LAST: u64 = TICK_MAX - TICK_SLACK;
/// Bits of a stamp in a token, and of an incarnation.
const STAMP_BITS: u32 = 18;
const INCARNATION_BITS: u32 = 46;

/// Takes the input's steps, and panics where word and model differ or a value comes back.
pub fn run(input: Input) {
    check_parts(input.parts);
    let stamp = input.stamps_left.map_or(0, |left| STAMP_MAX.saturating_sub(left.into()));
    let mut life = Life::begin(input.floor % (LAST / 2) / 4 * 4, stamp);
    for step in input.moves {
        life.take(step);
    }
}

/// A word in one life of its page.
struct Life {
    floor: u64,
    word: u64,
    model: Fields,
    seen: HashSet<u64>,
}

impl Life {
    fn begin(floor: u64, stamp: u64) -> Self {
        let model = Fields { tick: floor, stamp, state: State::Free, waited: false, frozen: false };
        let word = if stamp == 0 { fuzzing::never(floor) } else { fuzzing::pack(model) };
        assert_eq!(word, model::bits(model), "the word that a life begins with");
        Self { floor, word, model, seen: HashSet::from([word]) }
    }

    fn tick(&self, tick: Tick) -> u64 {
        let tick = match tick {
            Tick::Early(after) => self.floor + u64::from(after),
            Tick::Any(tick) => self.floor + tick % (LAST - self.floor + 1),
            Tick::Beside(by) => self.model.tick.saturating_add_signed(by.into()),
        };
        tick.clamp(self.floor, LAST)
    }

    /// A stamp that is the word's, or the one before it.
    fn stamp(&self, stale: bool) -> u64 {
        if stale { self.model.stamp.wrapping_sub(1) } else { self.model.stamp }
    }

    /// The step that a move is for this word; `None` if nobody would take it.
    fn step(&self, step: Move) -> Option<Step> {
        let Fields { tick, stamp, state, waited, frozen } = self.model;
        let open = !frozen;
        let leased = model::is_leased(self.model);
        Some(match step {
            Move::Claim(now) => Step::Claim { now: self.tick(now) },
            Move::Unclaim if state == State::Claimed => Step::Unclaim,
            Move::Publish if state == State::Claimed && open => Step::Publish,
            Move::Acquire { now, until, told, same_holder } => {
                if !leased && !matches!(state, State::Vacant(_)) {
                    return None;
                }
                let now = self.tick(now);
                Step::Acquire { now, deadline: self.deadline(now, until)?, told, same_holder }
            }
            // Tried on any word.
            Move::GrantVacant { now, until } => {
                Step::GrantVacant { deadline: self.deadline(self.tick(now), until)? }
            }
            Move::Renew { stale, now, until } => {
                let now = self.tick(now);
                Step::Renew { stamp: self.stamp(stale), now, deadline: self.deadline(now, until)? }
            }
            // A check reads a page's time that may be far beyond every tick, and moves nothing.
            Move::Check { stale, now } => {
                Step::Renew { stamp: self.stamp(stale), now: now.max(self.floor), deadline: 0 }
            }
            Move::Release { since } if leased && open => {
                let expired = state == State::Expired;
                let cause = if expired { Cause::Lapsed } else { Cause::Released };
                Step::End { since: self.tick(since).min(tick), cause }
            }
            // By a handle that knows its word, of a lease that nobody was told the end of.
            Move::ReleaseUnread { since } if leased && open && state != State::Expired => {
                Step::Released { since: self.tick(since).min(tick) }
            }
            Move::Revoke { now, grace } if open => {
                let now = self.tick(now);
                if !model::look(self.model, now).valid {
                    return None;
                }
                match grace {
                    None => Step::End { since: now, cause: Cause::Revoked },
                    Some(grace) => Step::Close { until: now.saturating_add(grace).min(TICK_MAX) },
                }
            }
            // Of a slot that is claimed, too: it may be for a queue that has none.
            Move::Wait if open && !waited && (leased || state == State::Claimed) => Step::Wait,
            Move::Unwait if open && waited && !leased && state != State::Claimed => Step::Unwait,
            Move::PassOn { now, until, more }
                if open && waited && state != State::Claimed && stamp < STAMP_MAX =>
            {
                Step::PassOn { deadline: self.deadline(self.tick(now), until)?, more }
            }
            Move::Bury { now, cause } if open && waited && state != State::Claimed => {
                let causes = [Cause::Released, Cause::Lapsed, Cause::Revoked, Cause::Superseded];
                let ended = leased.then_some(causes[usize::from(cause % 4)]);
                Step::Bury { now: self.tick(now), ended }
            }
            Move::Freeze if open => Step::Freeze,
            _ => return None,
        })
    }

    /// A deadline after `now`; `None` if there is none.
    fn deadline(&self, now: u64, until: Until) -> Option<u64> {
        let deadline = match until {
            Until::After(term) => now + 1 + term % (LAST - now).max(1),
            Until::Same => self.model.tick,
            Until::Beside(by) => self.model.tick.saturating_add_signed(by.into()),
        };
        (now < deadline && deadline <= LAST).then_some(deadline)
    }

    fn take(&mut self, step: Move) {
        if let Move::Copy { tick } = step {
            return self.copy(tick);
        }
        let Some(step) = self.step(step) else { return };
        let outcome = fuzzing::apply(self.word, step);
        assert_eq!(outcome, model::apply(self.model, step), "{step:?} of {:?}", self.model);
        match outcome {
            Outcome::To(next)
            | Outcome::Granted { next, .. }
            | Outcome::Buried { next, .. }
            | Outcome::Expiring(next) => self.go(next),
            _ => {}
        }
        self.check();
    }

    fn go(&mut self, next: u64) {
        if next == self.word {
            // A second graceful revocation that shortens nothing: the table leaves the word alone.
            assert_eq!(self.model.state, State::Closing, "only closing may lead nowhere");
            return;
        }
        let from = self.model;
        self.word = next;
        self.model = fuzzing::unpack(next);
        assert!(self.seen.insert(next), "{:?} came back, from {from:?}", self.model);
        assert!(self.model.tick >= self.floor, "{:?} fell below its page's floor", self.model);
    }

    /// What the word is, read back, at the moments where it may turn.
    fn check(&self) {
        let word = self.model;
        assert_eq!(model::bits(word), self.word, "{word:?} does not unpack to itself");
        assert_eq!(fuzzing::pack(word), self.word, "{word:?} does not pack to itself");
        for now in [word.tick.saturating_sub(1), word.tick, word.tick + 1, u64::MAX] {
            assert_eq!(fuzzing::look(self.word, now), model::look(word, now), "{word:?} at {now}");
        }
    }

    /// Goes on in a page of another base, as the copy of a frozen slot does: another life.
    fn copy(&mut self, tick: Tick) {
        let published = model::look(self.model, 0).published;
        if !self.model.frozen || !published {
            return;
        }
        let tick = self.tick(tick);
        let mut copied = Fields { tick, frozen: false, ..self.model };
        if matches!(copied.state, State::Vacant(_)) {
            copied.tick = tick / 4 * 4;
        }
        self.word = fuzzing::at_tick(self.word, tick);
        assert_eq!(self.word, model::bits(copied), "the copy of {:?} at {tick}", self.model);
        self.model = copied;
        self.seen = HashSet::from([self.word]);
        self.check();
    }
}

/// The packings beside the word's: each returns what was put in, and a token orders by incarnation
/// first and stamp second.
fn check_parts((first, second, third): (u64, u64, u64)) {
    let stamp = first % (1 << STAMP_BITS);
    let incarnation = second % (1 << INCARNATION_BITS);
    assert_eq!(fuzzing::INCARNATION_MAX, (1 << INCARNATION_BITS) - 1);

    let (token, of, at) = fuzzing::token_round_trip(incarnation, stamp);
    assert_eq!((of, at), (incarnation, stamp), "the parts of token {token:#x}");
    let (other_incarnation, other_stamp) = (third % (1 << INCARNATION_BITS), third >> 46);
    let (other, ..) = fuzzing::token_round_trip(other_incarnation, other_stamp);
    let order = (incarnation, stamp).cmp(&(other_incarnation, other_stamp));
    assert_eq!(token.cmp(&other), order, "the order of {token:#x} and {other:#x}");

    let holder = second % (1 << INCARNATION_BITS);
    assert_eq!(fuzzing::holder_round_trip(stamp, holder), (stamp, holder), "a holder's field");
    assert_eq!(fuzzing::identity_round_trip(stamp, incarnation), (stamp, incarnation), "identity");
}
