//! A timer wheel against a sorted map.
//!
//! It starts near a boundary of a level or near an end of the range, and ticks are near it, near other
//! boundaries, or of any magnitude.

mod model;

use std::collections::HashMap;

use arbitrary::Arbitrary;
use leasehold::wheel::{Due, Key, StaleKey, Wheel};

use self::model::{At, Model};
use crate::choice::choice;

/// Where a wheel starts, and what happens to it.
#[derive(Arbitrary, Debug)]
pub struct Input {
    start: Tick,
    moves: Vec<Move>,
}

choice! {
    /// What is done with the wheel.
    enum Move {
        Insert(Tick),
        /// Many at once, so that buckets get long.
        InsertMany(Tick, u8),
        Refile(u16, Tick),
        Remove(u16),
        /// All but every so manieth.
        RemoveMany(u8),
        UseStale(u16),
        Pop(Tick),
        PopSome(Tick, u8),
        PopAll(Tick),
        PopNext,
    }

    /// A tick, if need be relative to now.
    enum Tick {
        After(u8),
        Later(u16),
        Before(u8),
        /// So far from the next boundary of a level, or the one behind it.
        Boundary { level: u8, ahead: u8, by: i8 },
        /// As many bits of the number after now.
        Term { bits: u8, of: u64 },
        End(u8),
        Any(u64),
    }
}

impl Tick {
    fn after(self, now: u64) -> u64 {
        match self {
            Self::After(by) => now.saturating_add(by.into()),
            Self::Later(by) => now.saturating_add(by.into()),
            Self::Before(by) => now.saturating_sub(by.into()),
            Self::Boundary { level, ahead, by } => {
                let unit = 1_u64 << (u32::from(level % 11) * 6);
                let ahead = unit.saturating_mul(u64::from(ahead % 3));
                let boundary = (now / unit * unit).saturating_add(ahead);
                boundary.saturating_add_signed(by.into())
            }
            Self::Term { bits, of } => now.saturating_add(of >> (bits % 64)),
            Self::End(before) => u64::MAX - u64::from(before),
            Self::Any(tick) => tick,
        }
    }
}

/// Does the input's moves, and panics where wheel and model differ.
pub fn run(input: Input) {
    let start = input.start.after(0);
    let (wheel, model) = (Wheel::starting_at(start), Model::starting_at(start));
    let mut pair = Pair { wheel, model, places: HashMap::new(), keys: Vec::new() };
    for step in input.moves {
        pair.take(step);
        pair.check();
    }
    pair.pop_all(u64::MAX);
    assert!(pair.wheel.is_empty(), "something never came out");
    (0..pair.keys.len()).for_each(|which| pair.check_stale(which));
}

/// A wheel and its model.
struct Pair {
    wheel: Wheel<u32>,
    model: Model,
    /// Of each id that is in it. Ids count up, so an id is an index of `keys`.
    places: HashMap<u32, At>,
    keys: Vec<Key>,
}

/// More entries say nothing new, and take long.
const ENTRIES_MAX: usize = 2_000;

impl Pair {
    fn take(&mut self, step: Move) {
        let now = self.model.now;
        match step {
            Move::Insert(tick) => self.insert(tick.after(now)),
            Move::InsertMany(tick, count) => {
                (0..count % 32).for_each(|_| self.insert(tick.after(now)));
            }
            Move::Refile(which, tick) => self.refile(which.into(), tick.after(now)),
            Move::Remove(which) => self.remove(which.into()),
            Move::RemoveMany(but) => {
                let but = usize::from(but % 16) + 2;
                let ids = (0..self.keys.len()).filter(|id| id % but != 0);
                ids.for_each(|id| self.remove(id));
            }
            Move::UseStale(which) if !self.keys.is_empty() => {
                self.check_stale(usize::from(which) % self.keys.len());
            }
            Move::UseStale(_) => {}
            Move::Pop(to) => _ = self.pop(to.after(now)),
            Move::PopSome(to, budget) => {
                (0..budget % 16).for_each(|_| _ = self.pop(to.after(now)));
            }
            Move::PopAll(to) => self.pop_all(to.after(now)),
            Move::PopNext => _ = self.wheel.next_due().map(|next| self.pop(next)),
        }
    }

    fn insert(&mut self, tick: u64) {
        let id = self.keys.len();
        if id < ENTRIES_MAX {
            let id = id as u32;
            self.keys.push(self.wheel.insert(tick, id));
            self.places.insert(id, self.model.insert(tick, id));
        }
    }

    /// An id, and its place if it is still in the wheel.
    fn pick(&self, which: usize) -> Option<(u32, Option<At>)> {
        let id = which.checked_rem(self.keys.len())? as u32;
        Some((id, self.places.get(&id).copied()))
    }

    fn refile(&mut self, which: usize, tick: u64) {
        let Some((id, at)) = self.pick(which) else { return };
        let refiled = self.wheel.refile(self.keys[id as usize], tick);
        assert_eq!(refiled, at.map(|_| ()).ok_or(StaleKey), "whether {id} could be refiled");
        if let Some(at) = at {
            self.places.insert(id, self.model.refile(at, tick));
        }
    }

    fn remove(&mut self, which: usize) {
        let Some((id, at)) = self.pick(which) else { return };
        let removed = self.wheel.remove(self.keys[id as usize]);
        assert_eq!(removed, at.map(|_| id), "what was removed");
        if let Some(at) = at {
            self.model.remove(at);
            self.places.remove(&id);
        }
    }

    /// Nothing happens with the key of an entry that is gone.
    fn check_stale(&mut self, which: usize) {
        if let Some((id, None)) = self.pick(which) {
            let key = self.keys[id as usize];
            assert_eq!(self.wheel.refile(key, 0), Err(StaleKey), "{id} is gone");
            assert_eq!(self.wheel.remove(key), None, "{id} is gone");
        }
    }

    fn pop(&mut self, to: u64) -> Option<Due<u32>> {
        let (next, is_back) = (self.wheel.next_due(), to < self.model.now);
        let due = self.wheel.pop_due(to);
        assert_eq!(due.is_some(), self.model.advance(to), "whether something is due at {to}");
        if let Some(due) = due {
            let at = self.places.remove(&due.id).expect("it was filed, and came out once");
            self.model.pop(due, at);
        } else if !is_back && next.is_some_and(|next| next <= to) {
            assert_eq!(self.wheel.next_due(), self.model.first(), "a wrong one is corrected");
        }
        due
    }

    fn pop_all(&mut self, to: u64) {
        while self.pop(to).is_some() {}
    }

    fn check(&self) {
        assert_eq!(self.wheel.now(), self.model.now, "how far it was advanced");
        assert_eq!(self.wheel.len(), self.model.len(), "how many there are");
        let (next, first) = (self.wheel.next_due(), self.model.first());
        assert_eq!(next.is_some(), first.is_some(), "whether there is a next");
        assert!(next <= first, "next at {next:?}, but something is due at {first:?}");
    }
}
