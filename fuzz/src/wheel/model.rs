//! A wheel as a sorted map.

use std::collections::BTreeMap;

use leasehold::wheel::Due;

/// Where an entry is: its tick, and when it was filed there.
pub(super) type At = (u64, u64);

struct Entry {
    id: u32,
    /// It may be ahead of those that were filed under its tick before.
    refiled: bool,
}

pub(super) struct Model {
    pub(super) now: u64,
    entries: BTreeMap<At, Entry>,
    filed: u64,
}

impl Model {
    pub(super) fn starting_at(now: u64) -> Self {
        Self { now, entries: BTreeMap::new(), filed: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(at, _)| at.0)
    }

    pub(super) fn insert(&mut self, tick: u64, id: u32) -> At {
        self.put(tick, Entry { id, refiled: false })
    }

    fn put(&mut self, tick: u64, entry: Entry) -> At {
        self.filed += 1;
        let at = (tick.max(self.now), self.filed);
        self.entries.insert(at, entry);
        at
    }

    /// Where the entry is then.
    pub(super) fn refile(&mut self, at: At, tick: u64) -> At {
        if at.0 <= self.now && tick <= self.now {
            return at;
        }
        let id = self.remove(at);
        self.put(tick, Entry { id, refiled: true })
    }

    pub(super) fn remove(&mut self, at: At) -> u32 {
        self.entries.remove(&at).expect("it is where it was filed").id
    }

    /// Goes on to a tick, and says whether something comes out.
    pub(super) fn advance(&mut self, to: u64) -> bool {
        let is_back = to < self.now;
        self.now = self.now.max(to);
        !is_back && self.first().is_some_and(|first| first <= to)
    }

    /// Checks that what came out of the place is the oldest, and takes it out.
    pub(super) fn pop(&mut self, due: Due<u32>, at: At) {
        assert_eq!(due.tick, at.0, "the tick of {due:?}");
        assert_eq!(Some(at.0), self.first(), "{due:?} is not the oldest");
        let mut before = self.entries.range((at.0, 0)..at).map(|(_, entry)| entry);
        let waits = !self.entries[&at].refiled && before.any(|entry| !entry.refiled);
        assert!(!waits, "{due:?} came before one that was filed earlier");
        assert_eq!(self.remove(at), due.id);
    }
}
