//! What the sweeper knows of the pages, and when it must look at each.
//!
//! A look at a whole page costs some dozens of cache lines, so a page whose leases lapse one by one is not
//! looked at as a whole for each. A look takes down the slots whose leases lapse first, and page after page
//! those are looked at alone. The page's due tick is that of the next look at the whole, which is not later
//! than the deadline of any lease that was not taken down: a grant before that files the page.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::FixedState;

use super::due::NEVER;
use crate::place::Place;
use crate::prefetch::prefetch;
use crate::wheel::{self, Wheel};

/// How many slots are taken down: about half of those in use.
const LISTED: usize = if cfg!(any(leasehold_loom, leasehold_shuttle)) {
    2
} else if cfg!(leasehold_tiny) {
    1
} else {
    23
};
const INDEX_BITS: u32 = 6;

/// Slots of a page and the ticks of their deadlines, the last one first.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    /// When the page was looked at: a page's own ticks may need all bits, after a clock jumped for years.
    base: u64,
    len: usize,
    /// `[tick | index 6]`.
    slots: [u64; LISTED],
}

impl Listed {
    pub(super) const NONE: Self = Self { base: 0, len: 0, slots: [0; LISTED] };

    /// Of these deadlines, in ticks from `base` on; and that at which the page must be looked at as a whole.
    pub(super) fn of(base: u64, deadlines: &mut [(u64, usize)]) -> (Self, u64) {
        let (first, beyond) = if deadlines.len() > LISTED {
            let (first, next, _) = deadlines.select_nth_unstable(LISTED);
            (first, Some(next.0))
        } else {
            (deadlines, None)
        };
        first.sort_unstable_by(|a, b| b.cmp(a));
        // If all are listed, the page is looked at with the last of them, so that not each grant files it.
        let last = || first.first().map_or(NEVER, |last| last.0);
        let scan = beyond.unwrap_or_else(last);
        let mut listed = Self { base, len: first.len(), ..Self::NONE };
        for (slot, &(tick, index)) in listed.slots.iter_mut().zip(&*first) {
            // One that is even further away is looked at early.
            *slot = tick.min(u64::MAX >> INDEX_BITS) << INDEX_BITS | index as u64;
        }
        (listed, scan.saturating_add(1).min(NEVER))
    }

    /// The tick of the clock at which the first of them may be looked at.
    fn next(&self) -> u64 {
        match self.len.checked_sub(1) {
            // When its deadline is past.
            Some(last) => self.base.wrapping_add(self.slots[last] >> INDEX_BITS) + 1,
            None => u64::MAX,
        }
    }

    /// The slot that comes first.
    pub(super) fn first(&self) -> Option<usize> {
        let last = self.len.checked_sub(1)?;
        Some((self.slots[last] & ((1 << INDEX_BITS) - 1)) as usize)
    }

    /// The first of them, if it may be looked at.
    pub(super) fn pop(&mut self, now: u64) -> Option<usize> {
        if self.next() > now {
            return None;
        }
        let first = self.first();
        self.len -= 1;
        first
    }
}

/// What is to be done at a place.
pub(super) struct Agenda {
    pub(super) place: Place,
    /// The tick of the clock at which the page must be looked at as a whole.
    pub(super) scan: u64,
    pub(super) listed: Listed,
    /// Where in the wheel it is, and under which tick.
    filed: Option<(wheel::Key, u64)>,
}

impl Agenda {
    /// There is nothing to do, as far as is known.
    pub(super) fn clear(&mut self) {
        (self.scan, self.listed) = (u64::MAX, Listed::NONE);
    }

    fn next(&self) -> u64 {
        self.scan.min(self.listed.next())
    }
}

/// All agendas.
pub(super) struct Agendas {
    /// Indices of agendas.
    wheel: Wheel<u32>,
    agendas: Vec<Agenda>,
    free: Vec<u32>,
    /// By [`Place::bits`].
    by_place: HashMap<u64, u32, FixedState>,
}

impl Agendas {
    pub(super) fn starting_at(now: u64) -> Self {
        Self {
            wheel: Wheel::starting_at(now),
            agendas: Vec::new(),
            free: Vec::new(),
            by_place: HashMap::default(),
        }
    }

    /// Sees to it that a place is looked at as a whole by a tick of the clock.
    pub(super) fn file(&mut self, place: Place, tick: u64) {
        let index = self.index_of(place);
        let agenda = &mut self.agendas[index as usize];
        agenda.scan = agenda.scan.min(tick);
        self.refile(index);
    }

    fn index_of(&mut self, place: Place) -> u32 {
        let entry = match self.by_place.entry(place.bits()) {
            Entry::Occupied(entry) => return *entry.get(),
            Entry::Vacant(entry) => entry,
        };
        let agenda = Agenda { place, scan: u64::MAX, listed: Listed::NONE, filed: None };
        let index = self.free.pop().unwrap_or_else(|| {
            // As many as there are pages at most, which the shards and their depth bound.
            u32::try_from(self.agendas.len()).expect("fewer pages than 2^32")
        });
        match self.agendas.get_mut(index as usize) {
            Some(old) => *old = agenda,
            None => self.agendas.push(agenda),
        }
        *entry.insert(index)
    }

    /// Files an agenda under the tick at which there is something to do; if there is nothing, it goes.
    pub(super) fn refile(&mut self, index: u32) {
        let agenda = &mut self.agendas[index as usize];
        let next = agenda.next();
        match &mut agenda.filed {
            // Later is never needed: what is due is taken out.
            Some((key, filed)) => {
                if next < *filed {
                    *filed = next;
                    self.wheel.refile(*key, next).expect("its key is kept as long as it is filed");
                }
            }
            None if next == u64::MAX => {
                let place = agenda.place.bits();
                self.by_place.remove(&place);
                self.free.push(index);
            }
            None => agenda.filed = Some((self.wheel.insert(next, index), next)),
        }
    }

    /// The agenda that has been due for longest, and since when; it is taken out of the wheel.
    pub(super) fn pop_due(&mut self, now: u64) -> Option<(u64, u32)> {
        let index = self.wheel.pop_due(now)?.id;
        let filed = self.agendas[index as usize].filed.take();
        let (_, tick) = filed.expect("what is in the wheel is filed");
        Some((tick, index))
    }

    /// Asks for an agenda's cache lines.
    pub(super) fn prefetch(&self, index: u32) {
        let agenda = &raw const self.agendas[index as usize];
        for line in (0..size_of::<Agenda>()).step_by(64) {
            prefetch(agenda.wrapping_byte_add(line));
        }
    }

    pub(super) fn get(&mut self, index: u32) -> &mut Agenda {
        &mut self.agendas[index as usize]
    }

    /// Up to when the clock was seen.
    pub(super) fn now(&self) -> u64 {
        self.wheel.now()
    }

    /// Files everything anew as of an earlier tick: the clock stepped back, or an earlier sweep read one
    /// that was ahead. The wheel itself never turns back, and would let nothing out until it is reached.
    /// What was filed by the other clock may be due earlier by this one, so all of it is looked at.
    pub(super) fn turn_back(&mut self, now: u64) {
        self.wheel = Wheel::starting_at(now);
        let filed =
            self.agendas.iter_mut().enumerate().filter(|(_, agenda)| agenda.filed.is_some());
        for (index, agenda) in filed {
            (agenda.scan, agenda.listed) = (now, Listed::NONE);
            agenda.filed = Some((self.wheel.insert(now, index as u32), now));
        }
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.wheel.next_due()
    }
}
