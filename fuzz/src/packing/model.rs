//! A word as a plain struct, its bits by multiplication, and its rules written out once more.

use leasehold::fuzzing::{Cause, Fields, Look, Outcome, STAMP_MAX, State, Step};

/// The bits of a word: `[tick 42 | stamp 17 | waited 1 | frozen 1 | state 3]`, the lowest two bits of a vacant
/// one's tick being its cause.
pub(super) fn bits(fields: Fields) -> u64 {
    let Fields { tick, stamp, state, waited, frozen } = fields;
    let (state, cause) = match state {
        State::Free => (0, 0),
        State::Claimed => (1, 0),
        State::Vacant(Cause::Released) => (2, 0),
        State::Vacant(Cause::Lapsed) => (2, 1),
        State::Vacant(Cause::Revoked) => (2, 2),
        State::Vacant(Cause::Superseded) => (2, 3),
        State::Held => (3, 0),
        State::Closing => (4, 0),
        State::Expired => (5, 0),
    };
    let flags = u64::from(waited) * (1 << 4) + u64::from(frozen) * (1 << 3);
    (tick + cause) * (1 << 22) + stamp * (1 << 5) + flags + state
}

pub(super) fn is_leased(fields: Fields) -> bool {
    matches!(fields.state, State::Held | State::Closing | State::Expired)
}

fn is_dead(fields: Fields) -> bool {
    matches!(fields.state, State::Vacant(_)) && fields.stamp == STAMP_MAX
}

/// What a word has to say of itself at `now`.
pub(super) fn look(fields: Fields, now: u64) -> Look {
    let Fields { tick, stamp, state, .. } = fields;
    Look {
        leased: is_leased(fields),
        published: is_leased(fields) || matches!(state, State::Vacant(_)),
        never: state == State::Free && stamp == 0,
        dead: is_dead(fields),
        valid: matches!(state, State::Held | State::Closing) && now < tick,
        reclaimable: is_leased(fields) && now > tick,
    }
}

fn vacant(tick: u64, stamp: u64, cause: Cause) -> Fields {
    Fields { tick: tick / 4 * 4, stamp, state: State::Vacant(cause), waited: false, frozen: false }
}

/// Where a transition has to lead.
pub(super) fn apply(word: Fields, step: Step) -> Outcome {
    let to = |next: Fields| Outcome::To(bits(next));
    match step {
        Step::Claim { now } => {
            // The last stamp is left for a grant, and the first is the vacancy before it.
            if word.state != State::Free || word.frozen || word.stamp + 1 >= STAMP_MAX {
                return Outcome::NotClaimed;
            }
            let stamp = word.stamp + 1;
            let tick = now / 4 * 4;
            to(Fields { tick, stamp, state: State::Claimed, waited: false, frozen: false })
        }
        Step::Unclaim => to(Fields { state: State::Free, waited: false, ..word }),
        Step::Publish => to(Fields { state: State::Vacant(Cause::Released), ..word }),
        Step::Freeze => to(Fields { frozen: true, ..word }),
        Step::Acquire { now, deadline, told, same_holder } => {
            acquire(word, (now, deadline), told, same_holder)
        }
        Step::GrantVacant { deadline } => {
            let vacant = matches!(word.state, State::Vacant(_));
            if !vacant || word.frozen || word.waited || is_dead(word) {
                return Outcome::NotGranted;
            }
            to(Fields { tick: deadline, stamp: word.stamp + 1, state: State::Held, ..word })
        }
        Step::Renew { stamp, now, deadline } => renew(word, stamp, now, deadline),
        Step::Released { since } => to(vacant(since, word.stamp, Cause::Released)),
        Step::End { since, cause } => to(vacant(since, word.stamp, cause)),
        Step::Close { until } => {
            to(Fields { tick: word.tick.min(until), state: State::Closing, ..word })
        }
        Step::Wait => to(Fields { waited: true, ..word }),
        Step::Unwait => to(Fields { waited: false, ..word }),
        Step::PassOn { deadline, more } => {
            let stamp = word.stamp + 1;
            to(Fields { tick: deadline, stamp, state: State::Held, waited: more, frozen: false })
        }
        Step::Bury { now, ended } => to(bury(word, now, ended)),
    }
}

fn acquire(word: Fields, (now, deadline): (u64, u64), told: bool, same_holder: bool) -> Outcome {
    if word.frozen {
        return Outcome::Frozen;
    }
    if word.waited {
        return Outcome::Waited;
    }
    if is_dead(word) {
        return Outcome::Dead;
    }
    let ended = if look(word, now).reclaimable {
        Some(Cause::Lapsed)
    } else if word.state == State::Held && same_holder {
        Some(Cause::Superseded)
    } else if is_leased(word) {
        return Outcome::Refused;
    } else {
        None
    };
    if told && word.stamp < STAMP_MAX {
        let next = Fields { tick: deadline, stamp: word.stamp + 1, state: State::Held, ..word };
        return Outcome::Granted { next: bits(next), ended };
    }
    Outcome::Buried { next: bits(bury(word, now, ended)), ended }
}

/// A vacant word stays as it ended, but for its stamp.
fn bury(word: Fields, now: u64, ended: Option<Cause>) -> Fields {
    match ended {
        Some(cause) => vacant(word.tick.min(now), STAMP_MAX, cause),
        None => Fields { stamp: STAMP_MAX, waited: false, ..word },
    }
}

fn renew(word: Fields, stamp: u64, now: u64, deadline: u64) -> Outcome {
    if word.frozen {
        return Outcome::Frozen;
    }
    if word.stamp != stamp || !is_leased(word) {
        return Outcome::Lost;
    }
    if word.state == State::Expired {
        return Outcome::Expired;
    }
    if now >= word.tick {
        return Outcome::Expiring(bits(Fields { state: State::Expired, ..word }));
    }
    if word.state == State::Closing {
        return Outcome::Closing;
    }
    if deadline <= word.tick {
        return Outcome::Unchanged;
    }
    Outcome::To(bits(Fields { tick: deadline, ..word }))
}
