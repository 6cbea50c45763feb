//! A correct lease table, one step at a time, and the histories of it.
//!
//! Each step takes effect at an instant of its own. With a width, its call spans a random time
//! around that instant, so that calls overlap, and it goes by a reading of the clock from any time
//! between its begin and its effect, as an operation does that was held up before its
//! compare-exchange.

use leasehold::Token;
use leasehold::testing::history::{Event, Outcome};

use crate::story::*;

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of the items, if there is any.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        let count = u64::try_from(items.len()).unwrap();
        (count > 0).then(|| items[usize::try_from(self.below(count)).unwrap()])
    }
}

const RESOURCES: u64 = 3;
const HOLDERS: u64 = 4;
/// Instants between one step and the next.
const STEP: u64 = 60;
/// Instants in a tick: a few steps share one.
const TICK: u64 = 100;

#[derive(Clone, Copy)]
struct Lease {
    token: u64,
    by: u64,
    deadline: u64,
    closing: bool,
    /// Reported lost. Not to be renewed by one who read the clock before that.
    lost: bool,
}

struct Resource {
    lease: Option<Lease>,
    /// The last token and the one before it, or 0: what handles name.
    last: u64,
    previous: u64,
}

impl Resource {
    fn acquire(&mut self, now: u64, by: u64, random: &mut Random) -> Outcome {
        if let Some(lease) = self.lease
            && lease.by != by
            && now <= lease.deadline
        {
            return refused(lease.token);
        }
        let term = 3 + random.below(20);
        self.previous = self.last;
        // Not by one, so that a test can put a token in between.
        self.last += 2 + random.below(10);
        let (token, deadline) = (self.last, now + term);
        self.lease = Some(Lease { token, by, deadline, closing: false, lost: false });
        granted(token, term)
    }

    /// The lease that a handle names, if it is the current one.
    fn named(&mut self, token: u64) -> Option<&mut Lease> {
        self.lease.as_mut().filter(|lease| lease.token == token)
    }

    /// The same, if it is valid; one that is not is lost from here on.
    fn valid(&mut self, token: u64, now: u64) -> Option<&mut Lease> {
        let lease = self.named(token)?;
        lease.lost |= now >= lease.deadline;
        (!lease.lost).then_some(lease)
    }

    fn renew(&mut self, token: u64, now: u64, random: &mut Random) -> Outcome {
        let term = random.below(25);
        match self.valid(token, now) {
            Some(lease) if lease.closing => renew_refused(token),
            Some(lease) => {
                lease.deadline = lease.deadline.max(now + term);
                renewed(token, term)
            }
            None => renew_lost(token),
        }
    }

    fn release(&mut self, token: u64, guard: bool) -> Outcome {
        let ended = self.named(token).is_some();
        if ended {
            self.lease = None;
        }
        match (guard, ended) {
            (true, _) => dropped(token),
            (false, true) => released(token),
            (false, false) => release_lost(token),
        }
    }

    fn revoke(&mut self, now: u64, random: &mut Random) -> Outcome {
        let Some(lease) = self.lease.as_mut().filter(|lease| !lease.lost && now < lease.deadline)
        else {
            return Outcome::Refused { by: None };
        };
        let token = lease.token;
        if random.below(2) == 0 {
            self.lease = None;
            return revoked(token);
        }
        let grace = random.below(30);
        lease.closing = true;
        lease.deadline = lease.deadline.min(now + grace);
        closing(token, grace)
    }

    fn step(&mut self, now: u64, by: u64, random: &mut Random) -> Outcome {
        let kind = random.below(23);
        // Mostly the latest handle, sometimes one from before.
        let token = if random.below(6) == 0 { self.previous } else { self.last };
        if token == 0 || kind < 7 {
            return self.acquire(now, by, random);
        }
        match kind {
            7..=11 if self.valid(token, now).is_some() => checked(token),
            7..=11 => check_lost(token),
            12..=15 => self.renew(token, now, random),
            16 | 17 => self.release(token, false),
            18 => self.release(token, true),
            _ => self.revoke(now, random),
        }
    }
}

/// A history of `steps` steps whose calls reach up to `width` instants to each side of their
/// effect. With no width no two calls overlap.
pub(crate) fn history(seed: u64, steps: u64, width: u64) -> Vec<Event> {
    let mut random = Random(seed);
    let new = |_| Resource { lease: None, last: 0, previous: 0 };
    let mut resources: Vec<Resource> = (0..RESOURCES).map(new).collect();
    let mut spans = Vec::new();
    let mut instant = 10 * STEP + width;
    for _ in 0..steps {
        // Now and then a pause that lets leases lapse.
        instant += STEP * if random.below(15) == 0 { 20 } else { 1 };
        let (earlier, later) = (random.below(width + 1), random.below(width + 1));
        let (begin, end) = (instant - earlier, instant + later);
        let now = (begin + random.below(earlier + 1)) / TICK;
        let (resource, by) = (random.below(RESOURCES), 1 + random.below(HOLDERS));
        let of = &mut resources[usize::try_from(resource).unwrap()];
        let outcome = of.step(now, by, &mut random);
        let mut event = call(begin / TICK..end / TICK, 0..0, by, outcome);
        event.resource = resource;
        spans.push((begin, end, event));
    }
    spans.sort_by_key(|(_, end, _)| *end);
    let ends: Vec<u64> = spans.iter().map(|(_, end, _)| *end).collect();
    let count = |index: usize| u64::try_from(index).unwrap();
    let place = |(index, (begin, _, event)): (usize, (u64, u64, Event))| Event {
        began: count(ends.partition_point(|end| *end < begin)),
        returned: count(index) + 1,
        ..event
    };
    spans.into_iter().enumerate().map(place).collect()
}

/// Puts an event in at an index of a history without overlaps, and moves the later ones on.
pub(crate) fn insert(events: &mut Vec<Event>, index: usize, event: Event) {
    events.insert(index, event);
    for (place, event) in (0..).zip(events.iter_mut()) {
        (event.began, event.returned) = (place, place + 1);
    }
}

/// When the lease that is named ends by the first `upto` events, if nothing ends it before: its
/// deadline.
pub(crate) fn deadline(events: &[Event], upto: usize, resource: u64, token: Token) -> u64 {
    let mut deadline = 0;
    let named = |event: &&Event| event.resource == resource && event.token() == Some(token);
    for event in events[..upto].iter().filter(named) {
        match event.outcome {
            Outcome::Granted { term_ticks, .. } | Outcome::Renewed { term_ticks, .. } => {
                deadline = deadline.max(event.before + term_ticks);
            }
            Outcome::Closing { grace_ticks, .. } => {
                deadline = deadline.min(event.before + grace_ticks);
            }
            _ => {}
        }
    }
    deadline
}
