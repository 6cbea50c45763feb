//! What the fuzz targets see of the inside: a word as plain data, and its transitions by name. Built
//! only under `cargo fuzz`, and no part of the interface.
//!
//! The types mirror those of `word`, which stay private; the mirror decides nothing.

use crate::page;
use crate::word::{self, Word};

/// Slots of a page.
pub const SLOTS: usize = page::SLOTS;
/// The last stamp of a slot.
pub const STAMP_MAX: u64 = word::STAMP_MAX;
/// The last tick of a word.
pub const TICK_MAX: u64 = word::TICK_MAX;
/// How far below it a deadline stays.
pub const TICK_SLACK: u64 = word::TICK_SLACK;
/// The last incarnation.
pub const INCARNATION_MAX: u64 = word::INCARNATION_MAX;

/// What a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `word`")]
pub enum State {
    Free,
    Claimed,
    Vacant(Cause),
    Held,
    Closing,
    Expired,
}

/// How the last lease of a vacant slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `word`")]
pub enum Cause {
    Released,
    Lapsed,
    Revoked,
    Superseded,
}

/// A word's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `word`")]
pub struct Fields {
    pub tick: u64,
    pub stamp: u64,
    pub state: State,
    pub waited: bool,
    pub frozen: bool,
}

/// What a word says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `word`")]
pub struct Look {
    pub leased: bool,
    pub published: bool,
    pub never: bool,
    pub dead: bool,
    pub valid: bool,
    pub reclaimable: bool,
}

/// One transition, with what it is given.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "as in `word`")]
pub enum Step {
    Claim { now: u64 },
    Unclaim,
    Publish,
    Freeze,
    Acquire { now: u64, deadline: u64, told: bool, same_holder: bool },
    GrantVacant { deadline: u64 },
    Renew { stamp: u64, now: u64, deadline: u64 },
    Released { since: u64 },
    End { since: u64, cause: Cause },
    Close { until: u64 },
    Wait,
    Unwait,
    PassOn { deadline: u64, more: bool },
    Bury { now: u64, ended: Option<Cause> },
}

/// Where it leads: to a word, or why to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "as in `word`")]
pub enum Outcome {
    To(u64),
    Granted { next: u64, ended: Option<Cause> },
    Buried { next: u64, ended: Option<Cause> },
    Expiring(u64),
    NotClaimed,
    NotGranted,
    Dead,
    Refused,
    Waited,
    Unchanged,
    Expired,
    Closing,
    Lost,
    Frozen,
}

impl From<word::Cause> for Cause {
    fn from(cause: word::Cause) -> Self {
        match cause {
            word::Cause::Released => Self::Released,
            word::Cause::Lapsed => Self::Lapsed,
            word::Cause::Revoked => Self::Revoked,
            word::Cause::Superseded => Self::Superseded,
        }
    }
}

impl From<Cause> for word::Cause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Released => Self::Released,
            Cause::Lapsed => Self::Lapsed,
            Cause::Revoked => Self::Revoked,
            Cause::Superseded => Self::Superseded,
        }
    }
}

/// The word of a slot that never had a key.
#[must_use]
pub fn never(tick: u64) -> u64 {
    Word::never(tick).bits()
}

/// A word of these fields.
#[must_use]
pub fn pack(fields: Fields) -> u64 {
    let Fields { mut tick, stamp, state, waited, frozen } = fields;
    let state = match state {
        State::Free => word::State::Free,
        State::Claimed => word::State::Claimed,
        State::Vacant(cause) => {
            tick |= word::Cause::from(cause) as u64;
            word::State::Vacant
        }
        State::Held => word::State::Held,
        State::Closing => word::State::Closing,
        State::Expired => word::State::Expired,
    };
    let word = Word::new(tick, stamp, state);
    let word = if waited { word.waited() } else { word.unwaited() };
    if frozen { word.frozen() } else { word.thawed() }.bits()
}

/// A word's fields. The tick of a vacant one is without the bits that are its cause.
#[must_use]
pub fn unpack(bits: u64) -> Fields {
    let word = Word::from_bits(bits);
    let mut tick = word.tick();
    let state = match word.state() {
        word::State::Free => State::Free,
        word::State::Claimed => State::Claimed,
        word::State::Vacant => {
            tick -= word.cause() as u64;
            State::Vacant(word.cause().into())
        }
        word::State::Held => State::Held,
        word::State::Closing => State::Closing,
        word::State::Expired => State::Expired,
    };
    let (waited, frozen) = (word.is_waited(), word.is_frozen());
    Fields { tick, stamp: word.stamp(), state, waited, frozen }
}

/// What a word says of itself at a tick.
#[must_use]
pub fn look(bits: u64, now: u64) -> Look {
    let word = Word::from_bits(bits);
    Look {
        leased: word.is_leased(),
        published: word.is_published(),
        never: word.is_never(),
        dead: word.is_dead(),
        valid: word.is_valid(now),
        reclaimable: word.is_reclaimable(now),
    }
}

/// One transition of a word.
#[must_use]
pub fn apply(bits: u64, step: Step) -> Outcome {
    let word = Word::from_bits(bits);
    match step {
        Step::Claim { now } => {
            word.claim(now).map_or(Outcome::NotClaimed, |next| Outcome::To(next.bits()))
        }
        Step::Unclaim => Outcome::To(word.unclaim().bits()),
        Step::Publish => Outcome::To(word.publish().bits()),
        Step::Freeze => Outcome::To(word.frozen().bits()),
        Step::Acquire { now, deadline, told, same_holder } => {
            acquired(word.acquire(now, deadline, told, same_holder))
        }
        Step::GrantVacant { deadline } => {
            word.grant_vacant(deadline).map_or(Outcome::NotGranted, |next| Outcome::To(next.bits()))
        }
        Step::Renew { stamp, now, deadline } => renewed(word.renew(stamp, now, deadline)),
        Step::Released { since } => Outcome::To(word.released(since).bits()),
        Step::End { since, cause } => Outcome::To(word.end(since, cause.into()).bits()),
        Step::Close { until } => Outcome::To(word.close(until).bits()),
        Step::Wait => Outcome::To(word.waited().bits()),
        Step::Unwait => Outcome::To(word.unwaited().bits()),
        Step::PassOn { deadline, more } => Outcome::To(word.passed_on(deadline, more).bits()),
        Step::Bury { now, ended } => {
            Outcome::To(word.buried(now, ended.map(word::Cause::from)).bits())
        }
    }
}

fn acquired(found: word::Acquire) -> Outcome {
    match found {
        word::Acquire::Grant { next, ended } => {
            Outcome::Granted { next: next.bits(), ended: ended.map(Cause::from) }
        }
        word::Acquire::Bury { next, ended } => {
            Outcome::Buried { next: next.bits(), ended: ended.map(Cause::from) }
        }
        word::Acquire::Dead => Outcome::Dead,
        word::Acquire::Refused => Outcome::Refused,
        word::Acquire::Waited => Outcome::Waited,
        word::Acquire::Frozen => Outcome::Frozen,
    }
}

fn renewed(found: word::Renew) -> Outcome {
    match found {
        word::Renew::To(next) => Outcome::To(next.bits()),
        word::Renew::Expire(next) => Outcome::Expiring(next.bits()),
        word::Renew::Unchanged => Outcome::Unchanged,
        word::Renew::Expired => Outcome::Expired,
        word::Renew::Closing => Outcome::Closing,
        word::Renew::Lost => Outcome::Lost,
        word::Renew::Frozen => Outcome::Frozen,
    }
}

/// The same lease or vacancy in a page of another base: `Word::at_tick`.
#[must_use]
pub fn at_tick(bits: u64, tick: u64) -> u64 {
    Word::from_bits(bits).at_tick(tick).bits()
}

/// A token, by way of its packing and back.
#[must_use]
pub fn token_round_trip(incarnation: u64, stamp: u64) -> (u64, u64, u64) {
    let token = word::token_bits(incarnation, stamp);
    let (incarnation, stamp) = word::token_parts(token);
    (token, incarnation, stamp)
}

/// A holder's field, by way of its packing and back.
#[must_use]
pub fn holder_round_trip(stamp: u64, holder: u64) -> (u64, u64) {
    word::holder_parts(word::holder_bits(stamp, holder))
}

/// A slot's identity, by way of its packing and back; the tag is what is left above.
#[must_use]
pub fn identity_round_trip(tag: u64, incarnation: u64) -> (u64, u64) {
    let bits = word::identity_bits(tag, incarnation);
    (bits >> word::INCARNATION_BITS, word::identity_incarnation(bits))
}
