//! A lease table that does one thing after another: a map, the clock, and what is documented.
//!
//! The model is told what was asked and what the table answered, panics if the table had to answer
//! otherwise, and follows it. Nearly always one answer is right. Where more are, it learns from the
//! answer which one was true:
//!
//! - what nobody holds may be forgotten after its retention, and by a bounded table at any time. Old
//!   handles of it then find `Lost::Gone`, and it begins another life with higher tokens;
//! - a clock that steps back further than the retention is read as a later time (see [`time`]).

mod acquire;
pub(super) mod ends;
mod gap;
pub(super) mod hold;
mod life;
pub(super) mod look;
mod sweep;
mod tally;
mod time;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::{Causes, EndCause, GapPolicy, HolderId, Token};

use self::ends::Ends;
use self::gap::Gap;
use self::life::{Life, Terms, life_of};
use self::tally::Tally;
use self::time::{Range, Ticks, Time};
use crate::clock::Rate;

/// What the model needs to know of how the table was built.
pub(super) struct Limits {
    pub(super) rate: Rate,
    pub(super) term_max: Duration,
    pub(super) term_ticks: u64,
    pub(super) retention: u64,
    pub(super) capacity_max: Option<usize>,
    /// A key's hash: those with equal ones share a page.
    pub(super) hash: Box<dyn Fn(u8) -> u64>,
    pub(super) causes: Causes,
    pub(super) listener: bool,
    pub(super) gap: (Duration, GapPolicy),
}

/// A grant that somebody has in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id {
    pub(super) key: u8,
    pub(super) token: Token,
    pub(super) holder: HolderId,
}

pub(super) struct Model {
    limits: Limits,
    time: Time,
    terms: Terms,
    known: BTreeMap<u8, Known>,
    tally: Tally,
    ends: Ends,
    gap: Gap,
    /// Up to when the sweeper saw the clock.
    swept_to: Ticks,
}

/// What is known of a key.
#[derive(Debug)]
struct Known {
    hash: u64,
    /// The newest token of all its lives.
    highest: Option<Token>,
    /// Those that the table has not forgotten, the dead ones included. The last is the present one.
    lives: Vec<Life>,
}

impl Known {
    fn new(hash: u64) -> Self {
        Self { hash, highest: None, lives: Vec::new() }
    }

    /// The life that the next grant may go on with.
    fn present(&self) -> Option<&Life> {
        self.lives.last().filter(|life| !life.is_dead())
    }

    fn present_mut(&mut self) -> Option<&mut Life> {
        self.lives.last_mut().filter(|life| !life.is_dead())
    }
}

impl Model {
    pub(super) fn new(limits: Limits, now: u64) -> Self {
        let retention = limits.retention;
        let bounded = limits.capacity_max.is_some();
        let terms = Terms { retention: retention.into(), bounded, drift: 0 };
        let time = Time::new(now, retention.next_multiple_of(4));
        let (ends, gap) = (Ends::new(limits.causes), gap::ticks_of(limits.gap, limits.rate));
        let (known, tally, swept_to) = (BTreeMap::new(), Tally::default(), 0);
        Self { limits, time, terms, known, tally, ends, gap, swept_to }
    }

    pub(super) fn term_ticks_max(&self) -> u64 {
        self.limits.term_ticks
    }

    pub(super) fn clock_moved(&mut self, now: u64) {
        if Ticks::from(now) < self.time.now() {
            self.gap.stepped_back();
        }
        self.time.moved_to(now);
    }

    /// The table is about to be used.
    pub(super) fn begin(&mut self) {
        self.time.used();
        self.terms.drift += 4;
        self.loosen();
    }

    fn loosen(&mut self) {
        let Self { known, terms, time, gap, .. } = self;
        for life in known.values_mut().flat_map(|known| &mut known.lives) {
            life.loosen(terms, time, gap);
        }
    }

    /// The deadline of a grant, if it is the newest and nobody ended it.
    pub(super) fn deadline(&self, id: Id) -> Option<u64> {
        let life = self.known.get(&id.key)?.present()?;
        let lease =
            life.lease().filter(|_| life.newest.is_some_and(|(token, _)| token == id.token))?;
        u64::try_from(lease.deadline.earliest()).ok()
    }

    fn known_mut(&mut self, key: u8) -> &mut Known {
        let hash = &self.limits.hash;
        self.known.entry(key).or_insert_with(|| Known::new(hash(key)))
    }

    fn life_mut(&mut self, id: Id) -> Option<&mut Life> {
        let lives = &mut self.known.get_mut(&id.key)?.lives;
        lives.iter_mut().find(|life| life.number == Some(life_of(id.token.get())))
    }

    /// The table was seen to have forgotten a life.
    #[track_caller]
    fn forget(&mut self, key: u8, index: usize) {
        if let Some(life) = self.known[&key].lives.get(index) {
            self.ends.expect(key, life, &[EndCause::Lapsed]);
        }
        self.drop_life(key, index);
    }

    #[track_caller]
    fn drop_life(&mut self, key: u8, index: usize) {
        let lives = &mut self.known.get_mut(&key).expect("a key with lives").lives;
        let life = lives.remove(index);
        assert!(life.loose, "the table forgot {life:?} of key {key} at {:?}", self.time);
        // One that was never granted may never have been.
        self.tally.forgotten += u64::from(life.number.is_some());
        if life.lease().is_some() {
            self.tally.lapses.add();
        }
        // A grant made another the present one: then it is known which came next.
        if index == lives.len() {
            lives.extend(life.next.map(|next| *next));
        }
    }

    /// Whether a time that the table told, rounded down, is one of these.
    fn is_floor(&self, told: Duration, left: Range) -> bool {
        let of = |ticks: Ticks| self.limits.rate.duration_floor(clamp(ticks));
        (of(left.lo)..=of(left.hi)).contains(&told)
    }

    /// Whether a time that the table told, rounded up, is one of these.
    fn is_ceil(&self, told: Duration, left: Range) -> bool {
        let of = |ticks: Ticks| self.limits.rate.duration_ceil(clamp(ticks));
        (of(left.lo)..=of(left.hi)).contains(&told)
    }
}

fn clamp(ticks: Ticks) -> u64 {
    ticks.clamp(0, u64::MAX.into()) as u64
}
