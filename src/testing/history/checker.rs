//! The check of a history: sorts it by lease and has each lease judged by the rules.

use super::event::{Event, Outcome};
use super::rules::Lease;
use super::summary::Summary;
use super::violation::Violation;

/// Looks for answers in a history that contradict each other.
///
/// What is looked for, and why it proves what it claims, is in the [module's documentation](super).
/// A history of *n* events takes O(*n* log *n*): about a second for a million.
///
/// For an example see [`Recorder`](super::Recorder).
///
/// # Example
///
/// ```
/// use leasehold::testing::history::{Checker, Outcome, Recorder};
/// use leasehold::{HolderId, Token};
///
/// let recorder = Recorder::new(|| 0);
/// let mut log = recorder.log();
/// let call = log.begin("disk", HolderId::mint());
/// log.end(call, Outcome::Granted { token: Token::new(1).unwrap(), term_ticks: 10 });
/// log.finish();
/// assert_eq!(Checker::new().check(&recorder.take()).unwrap().granted, 1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Checker {
    slack_ticks: u64,
}

impl Checker {
    /// A checker that takes every tick at its word.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Checker;
    ///
    /// assert!(Checker::new().check::<u64>(&[]).is_ok());
    /// ```
    pub const fn new() -> Self {
        Self { slack_ticks: 0 }
    }

    /// Lets a comparison with a deadline be off by so many ticks before it is a violation.
    ///
    /// For a table that counts in coarser ticks than the recorder's clock, two of the table's; for
    /// counters that are read unserialised, one or two ticks more. Nothing else needs slack.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Checker;
    ///
    /// // For counters that are read unserialised.
    /// let checker = Checker::new().slack(2);
    /// assert!(checker.check::<u64>(&[]).is_ok());
    /// ```
    pub const fn slack(self, ticks: u64) -> Self {
        Self { slack_ticks: ticks }
    }

    /// Checks a history, which may be in any order.
    ///
    /// # Errors
    ///
    /// The [`Violation`] whose [`culprit`](Violation::culprit) returned first.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::{Checker, Outcome, Recorder};
    /// use leasehold::{HolderId, Token};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let token = Token::new(1).unwrap();
    /// for outcome in [Outcome::Granted { token, term_ticks: 10 }, Outcome::Released { token }] {
    ///     let call = log.begin("disk", HolderId::new(1)?);
    ///     log.end(call, outcome);
    /// }
    /// log.finish();
    /// assert_eq!(Checker::new().check(&recorder.take()).unwrap().released, 1);
    /// # Ok::<(), leasehold::InvalidHolder>(())
    /// ```
    pub fn check<R: Ord + Clone>(&self, events: &[Event<R>]) -> Result<Summary, Box<Violation<R>>> {
        let mut first = First { found: None };
        let mut summary = Summary::default();
        for event in events {
            summary.count(&event.outcome);
            self.well_formed(event, &mut first);
        }
        // The rules may take a record for granted, so one that runs backwards ends it here.
        first.into_result()?;

        let mut first = First { found: None };
        for resource in by_lease(events).chunk_by(|a, b| a.resource == b.resource) {
            summary.resources += 1;
            self.judge(resource, &mut first);
        }
        first.into_result().map(|()| summary)
    }

    fn well_formed<R: Clone>(&self, event: &Event<R>, first: &mut First<R>) {
        let backwards = event.after.saturating_add(self.slack_ticks) < event.before;
        if backwards || event.returned <= event.began {
            first.offer(event, || Violation::Malformed { event: event.clone() });
        }
    }

    /// Judges the events of one resource, sorted by token.
    fn judge<R: Clone>(&self, events: &[&Event<R>], first: &mut First<R>) {
        let mut leases = leases(events, first);
        token_order(&leases, first);
        // From the newest on, so that each lease is told of all the newer grants.
        let mut newer: Option<&Lease<'_, R>> = None;
        for lease in leases.iter_mut().rev() {
            if let Some(newer) = newer {
                lease.precede(newer);
            }
            newer = Some(lease);
        }
        for lease in &leases {
            lease.judge(u128::from(self.slack_ticks), first);
        }
    }
}

/// The events by resource, then by token (events without one come first), then by return.
fn by_lease<R: Ord>(events: &[Event<R>]) -> Vec<&Event<R>> {
    let mut sorted: Vec<_> = events.iter().collect();
    sorted.sort_unstable_by(|a, b| {
        let by_resource = a.resource.cmp(&b.resource);
        by_resource.then_with(|| (a.token(), a.returned).cmp(&(b.token(), b.returned)))
    });
    sorted
}

/// The leases on one resource by token. Rules: a token is granted once, and before it is used.
fn leases<'e, R: Clone>(events: &'e [&'e Event<R>], first: &mut First<R>) -> Vec<Lease<'e, R>> {
    let mut leases = Vec::new();
    for events in events.chunk_by(|a, b| a.token() == b.token()) {
        let mut lease: Option<Lease<'_, R>> = None;
        for event in events {
            let Outcome::Granted { term_ticks, .. } = event.outcome else { continue };
            if let Some(Lease { grant, .. }) = lease {
                first.offer(event, || Violation::TokenTwice {
                    first: grant.clone(),
                    second: Event::clone(event),
                });
            } else {
                lease = Some(Lease::new(event, term_ticks, events));
            }
        }
        let grant = lease.as_ref().map(|lease| lease.grant);
        for event in events.iter().filter(|event| event.outcome.says_current()) {
            if grant.is_none_or(|grant| event.precedes(grant)) {
                first.offer(event, || Violation::Ungranted {
                    event: Event::clone(event),
                    grant: grant.cloned(),
                });
            }
        }
        leases.extend(lease);
    }
    leases
}

/// Rule: a grant that precedes another has the smaller token.
fn token_order<R: Clone>(leases: &[Lease<'_, R>], first: &mut First<R>) {
    // Of the grants with smaller tokens, the one that was begun last: if `grant` precedes any of
    // them, then this one.
    let mut last: Option<&Event<R>> = None;
    for Lease { grant, .. } in leases {
        if let Some(last) = last.filter(|last| grant.precedes(last)) {
            first.offer(last, || Violation::TokenOrder {
                earlier: Event::clone(grant),
                later: last.clone(),
            });
        }
        if last.is_none_or(|last| last.began < grant.began) {
            last = Some(grant);
        }
    }
}

/// Of the violations found so far, the one whose culprit returned first.
pub(super) struct First<R> {
    found: Option<(u64, Violation<R>)>,
}

impl<R> First<R> {
    /// Keeps a violation if it is earlier than the one at hand. It is only made for that: a broken
    /// history may have one for every event.
    pub(super) fn offer(&mut self, culprit: &Event<R>, make: impl FnOnce() -> Violation<R>) {
        if self.found.as_ref().is_none_or(|(returned, _)| culprit.returned < *returned) {
            self.found = Some((culprit.returned, make()));
        }
    }

    fn into_result(self) -> Result<(), Box<Violation<R>>> {
        match self.found {
            None => Ok(()),
            Some((_, violation)) => Err(Box::new(violation)),
        }
    }
}
