//! The rules that one lease is judged by. Why each of them is sound is in the module's
//! documentation.

use super::checker::First;
use super::event::{Event, Outcome};
use super::violation::Violation;

/// All that is known of one token: its grant, what named it, and the newer grants.
pub(super) struct Lease<'e, R> {
    pub(super) grant: &'e Event<R>,
    term_ticks: u64,
    /// Everything that names the token, in the order of returns.
    events: &'e [&'e Event<R>],
    /// The grant with the next larger token.
    next: Option<&'e Event<R>>,
    /// Of the grants with a larger token, the one that returned first.
    newer: Option<&'e Event<R>>,
    /// The least `began` of the grants with a larger token.
    newer_began: u64,
}

/// A bound on a deadline, and the event that set it. Wider than a tick, so that no sum of a tick, a
/// term and a slack wraps.
type Bound<'e, R> = (u128, &'e Event<R>);

fn sum(tick: u64, length: u64) -> u128 {
    u128::from(tick) + u128::from(length)
}

/// A bound as a tick for the report.
fn tick(bound: u128) -> u64 {
    u64::try_from(bound).unwrap_or(u64::MAX)
}

impl<'e, R: Clone> Lease<'e, R> {
    pub(super) fn new(grant: &'e Event<R>, term_ticks: u64, events: &'e [&'e Event<R>]) -> Self {
        Self { grant, term_ticks, events, next: None, newer: None, newer_began: u64::MAX }
    }

    /// Notes the lease with the next larger token, which knows of all that are newer than itself.
    pub(super) fn precede(&mut self, next: &Self) {
        let earlier = next.newer.filter(|newer| newer.returned < next.grant.returned);
        self.newer = Some(earlier.unwrap_or(next.grant));
        self.newer_began = next.newer_began.min(next.grant.began);
        self.next = Some(next.grant);
    }

    pub(super) fn judge(&self, slack: u128, first: &mut First<R>) {
        self.overlap(slack, first);
        self.superseded(first);
        self.ended_twice(first);
        self.revived(first);
        self.renewed_closing(first);
        self.outlived(slack, first);
        self.lost_early(slack, first);
    }

    /// Rule: the next grant to another holder comes when the lease can have ended.
    fn overlap(&self, slack: u128, first: &mut First<R>) {
        // A next grant that came first is a matter of tokens, not of time.
        let other =
            |next: &&Event<R>| next.holder != self.grant.holder && !next.precedes(self.grant);
        let Some(next) = self.next.filter(other) else { return };
        let mut live: Bound<'_, R> = (sum(self.grant.before, self.term_ticks), self.grant);
        for event in self.events.iter().filter(|event| event.began < next.returned) {
            match event.outcome {
                outcome if outcome.may_end() => return,
                Outcome::Renewed { term_ticks, .. } => {
                    live = later(live, (sum(event.before, term_ticks), event));
                }
                _ => {}
            }
        }
        let closings = Closings::new(self.events, |closing| (closing.began, closing.before));
        let (until, last) = closings.shorten(live, next.returned);
        if u128::from(next.after) + slack <= until {
            first.offer(next, || Violation::Overlap {
                grant: self.grant.clone(),
                last: last.clone(),
                until: tick(until),
                next: next.clone(),
            });
        }
    }

    /// Rule: no token is current that is preceded by a newer grant.
    fn superseded(&self, first: &mut First<R>) {
        let Some(newer) = self.newer else { return };
        for event in self.events.iter().filter(|event| event.outcome.says_current()) {
            if newer.precedes(event) {
                first.offer(event, || Violation::Superseded {
                    newer: newer.clone(),
                    event: Event::clone(event),
                });
            }
        }
    }

    /// Rule: no lease comes back. What counts as its end depends on who asks: a lapsed lease that
    /// nobody took is lost to its holder, may yet be released, and at the very deadline still
    /// refuses.
    fn revived(&self, first: &mut First<R>) {
        // For each weight, of the events of that weight or more, the one that returned first.
        let mut ends: [Option<&Event<R>>; 3] = [None; 3];
        // A token that was guessed is truly lost before it is granted, which is no end.
        for event in self.events.iter().filter(|event| self.grant.precedes(event)) {
            for end in ends.iter_mut().take(weight_as_end(&event.outcome)) {
                // The events are in the order of returns.
                end.get_or_insert(event);
            }
        }
        for event in self.events {
            let Some(weight) = weight_needed(&event.outcome) else { continue };
            if let Some(over) = ends[weight - 1].filter(|over| over.precedes(event)) {
                first.offer(event, || Violation::Revived {
                    over: over.clone(),
                    event: Event::clone(event),
                });
            }
        }
    }

    /// Rule: of releases and revocations that race, one ends the lease.
    fn ended_twice(&self, first: &mut First<R>) {
        let mut ends = self.events.iter().filter(|event| weight_as_end(&event.outcome) == 3);
        if let (Some(one), Some(two)) = (ends.next(), ends.next()) {
            first.offer(two, || Violation::EndedTwice {
                first: Event::clone(one),
                second: Event::clone(two),
            });
        }
    }

    /// Rule: no check or renewal succeeds at or after the deadline.
    fn outlived(&self, slack: u128, first: &mut First<R>) {
        let succeeded = |event: &&&Event<R>| {
            matches!(event.outcome, Outcome::Checked { .. } | Outcome::Renewed { .. })
        };
        let mut events: Vec<&Event<R>> = self.events.iter().filter(succeeded).copied().collect();
        events.sort_unstable_by_key(|event| (event.before, event.returned));
        // Those that precede the call have surely lowered the deadline.
        let closings = Closings::new(self.events, |closing| (closing.returned, closing.after));

        let mut live: Bound<'_, R> = (sum(self.grant.after, self.term_ticks), self.grant);
        for event in events {
            let (until, last) = closings.shorten(live, event.began + 1);
            if u128::from(event.before) >= until + slack {
                first.offer(event, || Violation::Outlived {
                    grant: self.grant.clone(),
                    last: last.clone(),
                    until: tick(until),
                    event: event.clone(),
                });
            }
            if let Outcome::Renewed { term_ticks, .. } = event.outcome {
                live = later(live, (sum(event.after, term_ticks), event));
            }
        }
    }

    /// Rule: a closing lease is not renewed.
    fn renewed_closing(&self, first: &mut First<R>) {
        let closing = |event: &&&Event<R>| matches!(event.outcome, Outcome::Closing { .. });
        // The events are in the order of returns, so that this is the first.
        let Some(closing) = self.events.iter().find(closing) else { return };
        for event in self.events {
            if matches!(event.outcome, Outcome::Renewed { .. }) && closing.precedes(event) {
                first.offer(event, || Violation::RenewedClosing {
                    closing: Event::clone(closing),
                    event: Event::clone(event),
                });
            }
        }
    }

    /// Rule: a lease is not lost before its deadline unless something can have ended it.
    fn lost_early(&self, slack: u128, first: &mut First<R>) {
        let mut lost: Vec<&Event<R>> =
            self.events.iter().filter(|event| event.outcome.says_lost()).copied().collect();
        if lost.is_empty() {
            return;
        }
        lost.sort_unstable_by_key(|event| event.began);
        let ends = self.events.iter().filter(|event| event.outcome.may_end());
        let ended = ends.map(|event| event.began).fold(self.newer_began, u64::min);
        // Those that began before the report returned may have lowered the deadline.
        let closings = Closings::new(self.events, |closing| (closing.began, closing.before));

        let mut live: Bound<'_, R> = (sum(self.grant.before, self.term_ticks), self.grant);
        let mut returns = self.events.iter().peekable();
        for event in lost {
            // Only what precedes the report has surely raised the deadline by then.
            while let Some(renewal) = returns.next_if(|earlier| earlier.precedes(event)) {
                if let Outcome::Renewed { term_ticks, .. } = renewal.outcome {
                    live = later(live, (sum(renewal.before, term_ticks), renewal));
                }
            }
            let (until, last) = closings.shorten(live, event.returned);
            let early = u128::from(event.after) + slack < until;
            if early && self.grant.precedes(event) && event.returned <= ended {
                first.offer(event, || Violation::LostEarly {
                    grant: self.grant.clone(),
                    last: last.clone(),
                    until: tick(until),
                    event: event.clone(),
                });
            }
        }
    }
}

/// The later of two bounds; of equal ones the first.
fn later<'e, R>(a: Bound<'e, R>, b: Bound<'e, R>) -> Bound<'e, R> {
    if b.0 > a.0 { b } else { a }
}

/// The earlier of two bounds; of equal ones the first.
fn earlier<'e, R>(a: Bound<'e, R>, b: Bound<'e, R>) -> Bound<'e, R> {
    if b.0 < a.0 { b } else { a }
}

/// How much an answer proves about the end of its lease: 3 for an end that took place, 2 for a
/// lease that cannot be released any more, 1 for one that its holder has lost, 0 for nothing.
const fn weight_as_end(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Released { .. } | Outcome::Revoked { .. } => 3,
        Outcome::Dropped { .. } | Outcome::ReleaseLost { .. } => 2,
        Outcome::CheckLost { .. } | Outcome::RenewLost { .. } => 1,
        _ => 0,
    }
}

/// The least weight of an end that contradicts an answer; `None` if none does.
const fn weight_needed(outcome: &Outcome) -> Option<usize> {
    match outcome {
        Outcome::Checked { .. } | Outcome::Renewed { .. } => Some(1),
        Outcome::Released { .. } => Some(2),
        Outcome::Revoked { .. } | Outcome::Closing { .. } | Outcome::Refused { .. } => Some(3),
        _ => None,
    }
}

/// Revocations with grace of one lease, in an order of the rule's choice, each with the earliest
/// bound of those up to it.
struct Closings<'e, R>(Vec<(u64, Bound<'e, R>)>);

impl<'e, R> Closings<'e, R> {
    /// Each closing's place in the order, and the tick from which its grace counts, are up to the
    /// rule.
    fn new(events: &'e [&'e Event<R>], place: fn(&Event<R>) -> (u64, u64)) -> Self {
        let closings = events.iter().filter_map(|event| match event.outcome {
            Outcome::Closing { grace_ticks, .. } => {
                let (order, from) = place(event);
                Some((order, (sum(from, grace_ticks), *event)))
            }
            _ => None,
        });
        let mut closings: Vec<(u64, Bound<'e, R>)> = closings.collect();
        closings.sort_by_key(|(order, _)| *order);
        for index in 1..closings.len() {
            closings[index].1 = earlier(closings[index - 1].1, closings[index].1);
        }
        Self(closings)
    }

    /// The deadline `live`, or what those of the closings make of it whose place is below `order`.
    fn shorten(&self, live: Bound<'e, R>, order: u64) -> Bound<'e, R> {
        let below = self.0.partition_point(|(place, _)| *place < order);
        below.checked_sub(1).map_or(live, |last| earlier(live, self.0[last].1))
    }
}
