//! A resource from when the table takes it up until the table forgets it, which makes it a slot's.

use leasehold::fuzzing::STAMP_MAX;
use leasehold::{HolderId, Lost, Token};

use super::gap::Gap;
use super::time::{Deadline, Mark, Range, Ticks, Time};

/// How many low bits of a token count the grants of one life; the others are the life's number.
const STAMP_BITS: u32 = 18;

/// The number of the life that a token is of.
pub(super) fn life_of(token: u64) -> u64 {
    token >> STAMP_BITS
}

/// One life of a resource.
#[derive(Debug)]
pub(super) struct Life {
    /// Known from the first grant on.
    pub(super) number: Option<u64>,
    pub(super) newest: Option<(Token, HolderId)>,
    pub(super) state: State,
    /// When it was last granted, or its lease ended; the table keeps it for its retention after that.
    used: Range,
    used_mark: Mark,
    /// The latest deadline of a lease that has ended: who ends it early tells no sweeper, which looks then.
    looked_at: Ticks,
    /// Whether the table may have forgotten it by now, unseen.
    pub(super) loose: bool,
    /// The life that may have come after it: somebody resolved the resource when it was loose.
    pub(super) next: Option<Box<Life>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Vacant(Ended),
    Leased(Lease),
}

/// How the last lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// There was none.
    Never,
    Released,
    Lapsed,
    Revoked,
    Superseded,
    /// By a grant to the same holder, at a time that the model does not know exactly.
    LapsedOrSuperseded,
    /// Its guard was dropped, which tells nothing.
    LapsedOrReleased,
}

/// A lease that nobody ended, over or not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) deadline: Deadline,
    pub(super) closing: bool,
    /// Reported expired to somebody: whatever the clock does, it stays so.
    pub(super) expired: bool,
    /// A sweep may have ended it, unseen.
    pub(super) unsure: bool,
}

impl Life {
    pub(super) fn new(number: Option<u64>, time: &Time) -> Self {
        let state = State::Vacant(Ended::Never);
        let (used, used_mark) = (time.range(), time.mark());
        Self {
            number,
            newest: None,
            state,
            used,
            used_mark,
            looked_at: 0,
            loose: false,
            next: None,
        }
    }

    /// The table showed that it goes on.
    pub(super) fn seen(&mut self) {
        self.loose = false;
        self.next = None;
    }

    /// Somebody resolved the resource when this life may have been over: if it was, another began.
    pub(super) fn resolved_again(&mut self, time: &Time) {
        let next = self.next.get_or_insert_with(|| Box::new(Self::new(None, time)));
        next.used.hi = next.used.hi.max(time.range().hi);
        next.used_mark = time.mark();
        next.loose = true;
    }

    /// The table is about to be used, and may forget it.
    pub(super) fn loosen(&mut self, terms: &Terms, time: &Time, gap: &Gap) {
        self.loose |= self.may_be_forgotten(terms, time, gap);
        if let State::Leased(lease) = &mut self.state
            && gap.keeps(lease.deadline, time)
        {
            lease.deadline = lease.deadline.kept(time);
        }
        if let Some(next) = &mut self.next {
            next.loosen(terms, time, gap);
        }
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        match self.state {
            State::Leased(lease) => Some(lease),
            State::Vacant(_) => None,
        }
    }

    /// Whether all tokens of this life were given out.
    pub(super) fn is_spent(&self) -> bool {
        let stamp = |(token, _): (Token, _)| token.get() & ((1 << STAMP_BITS) - 1);
        self.newest.map(stamp) == Some(STAMP_MAX)
    }

    /// Whether it stays only for those who ask about old leases; the resource goes on in another life.
    pub(super) fn is_dead(&self) -> bool {
        self.is_spent() && self.lease().is_none()
    }

    /// Begins a lease.
    pub(super) fn grant(&mut self, token: Token, holder: HolderId, ticks: u64, time: &Time) {
        self.number = Some(life_of(token.get()));
        self.newest = Some((token, holder));
        let deadline = Deadline::after(ticks, time);
        self.state =
            State::Leased(Lease { deadline, closing: false, expired: false, unsure: false });
        (self.used, self.used_mark) = (time.range(), time.mark());
        self.seen();
    }

    /// Ends the lease.
    pub(super) fn end(&mut self, ended: Ended, time: &Time) {
        // A release counts from the grant, or from some later time if the guard was made anew since.
        let since = if ended == Ended::Released { self.used.lo } else { time.range().lo };
        if let Some(lease) = self.lease() {
            let until = lease.deadline.earliest();
            self.looked_at = self.looked_at.max(lease.deadline.span(time).hi);
            let hi = time.range().hi.min(lease.deadline.span(time).hi);
            self.used = Range { lo: since.min(until), hi: hi.max(since.min(until)) };
            self.used_mark = time.mark();
        }
        self.state = State::Vacant(ended);
    }

    /// Whether the table may forget it now. A table that is bounded forgets what nobody holds when it
    /// needs the room.
    fn may_be_forgotten(&self, terms: &Terms, time: &Time, gap: &Gap) -> bool {
        match self.state {
            State::Vacant(_) => {
                let kept_until = self.used.lo + terms.retention - terms.drift;
                self.is_dead() || terms.bounded || time.range().hi > kept_until
            }
            State::Leased(lease) => {
                let left = lease.deadline.left(time).lo;
                let kept = !lease.unsure && gap.keeps(lease.deadline, time);
                let idle = terms.bounded || left + terms.retention - terms.drift < 0;
                !kept && idle && (left < 0 || lease.unsure)
            }
        }
    }

    /// Whether the table may keep it now, so that it takes up a slot that others want.
    pub(super) fn may_be_kept(&self, terms: &Terms, time: &Time, gap: &Gap) -> bool {
        if self.next.as_ref().is_some_and(|next| next.may_be_kept(terms, time, gap)) {
            return true;
        }
        match self.state {
            State::Vacant(_) => {
                let used = self.used_until(time);
                !self.is_dead() && time.range().lo <= used + terms.retention + terms.drift
            }
            State::Leased(lease) => {
                let left = lease.deadline.left(time).hi;
                left + terms.retention >= 0 || gap.waits(time.now()) > 0
            }
        }
    }

    /// The latest tick at which it may have been used.
    fn used_until(&self, time: &Time) -> Ticks {
        let vague = time.was_vague_since(self.used_mark);
        if vague { self.used.hi.max(time.earliest()) } else { self.used.hi }
    }

    /// When a sweep leaves it behind at the latest, if it stays idle.
    pub(super) fn idle_until(&self, terms: &Terms, time: &Time) -> Ticks {
        let idle = self.used_until(time) + 2 * terms.retention + terms.drift;
        idle.max(self.looked_at) + 1
    }

    /// Whether sweeps that were done left it behind.
    pub(super) fn must_be_forgotten(&self, terms: &Terms, time: &Time) -> bool {
        let idle = self.next.is_none() && self.lease().is_none() && !self.is_dead();
        idle && time.range().lo > self.idle_until(terms, time)
    }

    pub(super) fn set_unsure(&mut self) {
        if let State::Leased(lease) = &mut self.state {
            lease.unsure = true;
        }
    }

    pub(super) fn is_newest(&self, token: Token) -> bool {
        self.newest.is_some_and(|(newest, _)| newest == token)
    }

    /// Whether it may have a lease that nobody can take over yet.
    pub(super) fn may_be_held(&self, time: &Time, gap: &Gap) -> bool {
        let waits = gap.waits(time.now()) > 0;
        self.lease().is_some_and(|lease| waits || lease.deadline.left(time).hi >= 0)
    }

    /// Whether it surely has.
    pub(super) fn is_held(&self, time: &Time, gap: &Gap) -> bool {
        let waits = gap.waits(time.now()) > 0;
        let is_held = |lease: Lease| !lease.unsure && (waits || lease.deadline.left(time).lo >= 0);
        self.lease().is_some_and(is_held) && !self.loose
    }

    /// Whether `lost` says truly why the lease of `token`, which has ended, is lost.
    pub(super) fn is_reason(&self, token: Token, lost: Lost) -> bool {
        let Some((newest, holder)) = self.newest else { return false };
        let holder = Some(holder);
        if token != newest && self.is_dead() {
            // The newest grant is in another life.
            return lost == Lost::Taken { holder: None, token: None };
        }
        if token != newest {
            return lost == Lost::Taken { holder, token: Some(newest) };
        }
        let superseded = Lost::Taken { holder, token: None };
        match self.state {
            State::Vacant(Ended::Released) => lost == Lost::Released,
            State::Vacant(Ended::Lapsed) => lost == Lost::Expired,
            State::Vacant(Ended::Revoked) => lost == Lost::Revoked,
            State::Vacant(Ended::Superseded) => lost == superseded,
            State::Vacant(Ended::LapsedOrSuperseded) => lost == superseded || lost == Lost::Expired,
            State::Vacant(Ended::LapsedOrReleased) => {
                lost == Lost::Released || lost == Lost::Expired
            }
            State::Vacant(Ended::Never) | State::Leased(_) => false,
        }
    }
}

/// By what a table keeps a resource or forgets it.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) retention: Ticks,
    /// Whether it has a `capacity_max`.
    pub(super) bounded: bool,
    /// By how many ticks the time of last use may be off: it loses its two lowest bits whenever its
    /// page is replaced.
    pub(super) drift: Ticks,
}
