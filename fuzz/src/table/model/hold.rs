//! What a holder does with a guard or a grant.

use std::time::Duration;

use leasehold::{EndCause, Lost, RenewError};

use super::life::{Ended, Lease};
use super::time::{Deadline, Range, Time};
use super::{Id, Model};

/// What an answer says of a valid lease, beside that it is valid.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Seen {
    pub(in super::super) remaining: Option<Duration>,
    pub(in super::super) closing: Option<bool>,
}

impl Model {
    pub(in super::super) fn checked(&mut self, id: Id, result: Result<Seen, Lost>) {
        match result {
            Ok(seen) => self.valid(id, seen),
            Err(lost) => self.lost(id, lost),
        }
    }

    /// The holder asked only how long it has.
    pub(in super::super) fn remaining(&mut self, id: Id, remaining: Duration) {
        if remaining > Duration::ZERO {
            return self.valid(id, Seen { remaining: Some(remaining), closing: None });
        }
        let Some(lease) = self.newest(id).and_then(|life| life.lease()) else { return };
        if lease.expired || lease.unsure || lease.deadline.left(&self.time).lo <= 0 {
            self.expire(id);
        } else {
            // It would be valid, if the table still knew it.
            self.gone(id);
        }
    }

    pub(in super::super) fn renewed(
        &mut self,
        id: Id,
        term: Duration,
        result: Result<(), RenewError>,
    ) {
        let ticks = match self.term_ticks(term) {
            Ok(ticks) => ticks,
            Err(error) => {
                let same = match result {
                    Err(RenewError::TermZero) => error == leasehold::AcquireError::TermZero,
                    Err(RenewError::TermTooLong { requested, max }) => {
                        error == leasehold::AcquireError::TermTooLong { requested, max }
                    }
                    _ => false,
                };
                return assert!(same, "a renewal for {term:?}: {result:?}, not {error:?}");
            }
        };
        match result {
            Ok(()) => {
                self.valid(id, Seen { remaining: None, closing: Some(false) });
                self.tally.renewals.add();
                let later = Deadline::after(ticks, &self.time);
                self.see(id.key, |lease, time| {
                    lease.deadline = lease.deadline.or_later(later, time);
                });
            }
            Err(RenewError::Closing { remaining }) => {
                self.valid(id, Seen { remaining: Some(remaining), closing: Some(true) });
            }
            Err(RenewError::Lost(lost)) => {
                self.tally.stale.add();
                self.lost(id, lost);
            }
            Err(other) => panic!("{other:?} for a term of {term:?}, which nothing explains"),
        }
    }

    pub(in super::super) fn released(&mut self, id: Id, result: Result<(), Lost>) {
        let lease = self.newest(id).and_then(|life| life.lease());
        match (result, lease) {
            // Before or after its deadline, as long as nobody was told that it is over.
            (Ok(()), Some(lease)) => {
                assert!(!lease.expired, "{id:?} was released after it was reported expired");
                self.tally.releases.add();
                self.see(id.key, |lease, _| lease.unsure = false);
                self.end(id, Ended::Released);
            }
            (Ok(()), None) => panic!("{id:?} was released, but is not the newest, or has ended"),
            (Err(Lost::Expired), Some(lease)) => {
                assert!(
                    lease.expired || lease.unsure,
                    "{id:?} could not be released, but nobody was told so"
                );
                self.tally.stale.add();
                self.tally.lapses.add();
                self.end(id, Ended::Lapsed);
            }
            (Err(lost), _) => {
                self.tally.stale.add();
                self.lost(id, lost);
            }
        }
    }

    /// A guard was dropped: it tells nothing.
    pub(in super::super) fn dropped(&mut self, id: Id) {
        let life = self.newest(id).and_then(|life| Some((life.lease()?, life.loose)));
        match life {
            Some((lease, _)) if lease.expired => {
                self.tally.stale.add();
                self.tally.lapses.add();
                self.end_unseen(id, Ended::Lapsed);
            }
            Some((lease, false)) if !lease.unsure => {
                self.tally.releases.add();
                self.end(id, Ended::Released);
            }
            // The table may have forgotten it, and counted it as lapsed then.
            Some(_) => {
                self.tally.releases.maybe_add();
                self.tally.stale.maybe_add();
                self.tally.lapses.maybe_add();
                self.end_unseen(id, Ended::LapsedOrReleased);
            }
            None => self.tally.stale.add(),
        }
    }

    /// The holder asked for the key; `None` if the table has forgotten it.
    pub(in super::super) fn key_told(&mut self, id: Id, key: Option<u8>) {
        match (key, self.life_mut(id)) {
            (Some(key), Some(life)) => {
                assert_eq!(key, id.key, "the key of {id:?}");
                life.seen();
            }
            (Some(_), None) => panic!("the table knows the key of {id:?} again"),
            (None, _) => self.gone(id),
        }
    }

    /// The life of a grant, if it is that life's newest.
    fn newest(&mut self, id: Id) -> Option<&mut super::Life> {
        let life = self.life_mut(id)?;
        life.newest.is_some_and(|(token, _)| token == id.token).then_some(life)
    }

    /// The table said that a lease is valid.
    fn valid(&mut self, id: Id, seen: Seen) {
        let lease = self.newest(id).and_then(|life| life.lease());
        let lease = lease.unwrap_or_else(|| panic!("{id:?} is valid, but was lost"));
        self.check_valid(id.key, lease, seen);
    }

    /// What holds of a valid lease, however it was looked at.
    pub(super) fn check_valid(&mut self, key: u8, lease: Lease, seen: Seen) {
        let left = lease.deadline.left(&self.time);
        let time = &self.time;
        assert!(!lease.expired, "{key} is valid again, after it was reported expired: {lease:?}");
        assert!(left.hi > 0, "{key} is valid with {left:?} ticks left at {time:?}: {lease:?}");
        let left = Range { lo: left.lo.max(1), hi: left.hi };
        if let Some(remaining) = seen.remaining {
            let told = self.is_floor(remaining, left);
            assert!(told, "{key} has {remaining:?}, not {left:?} ticks, at {time:?}: {lease:?}");
        }
        if let Some(closing) = seen.closing {
            assert_eq!(closing, lease.closing, "whether {key} is closing");
        }
        let told = seen.remaining.map(|remaining| self.limits.rate.ticks_of_floor(remaining));
        let (least, most) = told.unwrap_or((0, u64::MAX));
        let known = Range { lo: left.lo.max(least.into()), hi: left.hi.min(most.into()) };
        self.see(key, |lease, time| {
            lease.deadline = lease.deadline.known(known, time);
            lease.unsure = false;
        });
    }

    /// The table said why a lease is lost.
    fn lost(&mut self, id: Id, lost: Lost) {
        if lost == Lost::Gone {
            return self.gone(id);
        }
        let life = self.life_mut(id).unwrap_or_else(|| panic!("{id:?} is {lost:?}, but was gone"));
        life.seen();
        let is_newest = life.newest.is_some_and(|(token, _)| token == id.token);
        match life.lease().filter(|_| is_newest) {
            None => assert!(life.is_reason(id.token, lost), "{id:?} is {lost:?}: {life:?}"),
            Some(lease) => {
                let left = lease.deadline.left(&self.time);
                assert_eq!(lost, Lost::Expired, "{id:?} with {lease:?}");
                assert!(
                    left.lo <= 0 || lease.expired || lease.unsure,
                    "{id:?} expired with {left:?} ticks left"
                );
                self.expire(id);
            }
        }
    }

    fn gone(&mut self, id: Id) {
        let number = self.life_mut(id).map(|life| life.number);
        let Some(number) = number else { return };
        let lives = &self.known[&id.key].lives;
        let index = lives.iter().position(|life| life.number == number);
        self.forget(id.key, index.expect("just found"));
    }

    /// Somebody was told that the lease is over.
    fn expire(&mut self, id: Id) {
        let unsure = self.newest(id).map(|life| (life.loose, life.next.take()));
        self.see(id.key, |lease, time| {
            let left = lease.deadline.left(time);
            let known = Range { lo: left.lo.min(0), hi: left.hi.min(0) };
            if !lease.unsure && !lease.expired {
                lease.deadline = lease.deadline.known(known, time);
            }
            lease.expired = true;
        });
        // An answer that does not say why it is over leaves open whether the table still knows it.
        if let (Some(life), Some(unsure)) = (self.newest(id), unsure) {
            (life.loose, life.next) = unsure;
        }
    }

    fn end(&mut self, id: Id, ended: Ended) {
        self.end_unseen(id, ended);
        if let Some(life) = self.newest(id) {
            life.seen();
        }
    }

    fn end_unseen(&mut self, id: Id, ended: Ended) {
        let Self { known, time, ends, .. } = self;
        let life = known.get_mut(&id.key).and_then(|known| known.lives.last_mut());
        let life = life.expect("a lease that stands is in the present life");
        let lapsed = ended == Ended::Lapsed;
        ends.expect(id.key, life, if lapsed { &[EndCause::Lapsed] } else { &[EndCause::Released] });
        life.end(ended, time);
    }

    /// The table showed the present lease of a key, of which more is known now.
    pub(super) fn see(&mut self, key: u8, learn: impl FnOnce(&mut Lease, &Time)) {
        let Self { known, time, .. } = self;
        let life = known.get_mut(&key).and_then(|known| known.present_mut());
        let life = life.expect("what was seen has a life");
        life.seen();
        if let super::life::State::Leased(lease) = &mut life.state {
            learn(lease, time);
        }
    }
}
