//! What a history proves to be wrong.

use core::fmt;

use super::event::Event;

/// Answers that cannot all be true, wherever in their spans the calls took effect.
///
/// Each variant has the events that contradict each other; [`Display`](fmt::Display) says in words
/// what is wrong. The rules are in the [module's documentation](super).
///
/// # Example
///
/// ```
/// use leasehold::testing::history::{Checker, Event, Outcome, Violation};
/// use leasehold::{HolderId, Token};
///
/// let (holder, token) = (HolderId::new(1)?, Token::new(9).unwrap());
/// let outcome = Outcome::Checked { token };
/// let event =
///     Event { before: 5, after: 6, began: 0, returned: 1, resource: "disk", holder, outcome };
///
/// let violation = Checker::new().check(&[event]).unwrap_err();
/// assert_eq!(*violation, Violation::Ungranted { event, grant: None });
/// assert_eq!(violation.culprit(), &event);
/// # Ok::<(), leasehold::InvalidHolder>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation<R = u64> {
    /// Not of the table, but of the record: the clock stepped back within a call, or its place in
    /// the order of returns is impossible. Nothing can be said about such a history.
    Malformed {
        /// The call.
        event: Event<R>,
    },
    /// One token was granted twice.
    TokenTwice {
        /// The grant that returned first.
        first: Event<R>,
        /// The other one.
        second: Event<R>,
    },
    /// A grant has a smaller token than one that precedes it.
    TokenOrder {
        /// The grant that had returned, with the larger token.
        earlier: Event<R>,
        /// The grant that was called then, with the smaller one.
        later: Event<R>,
    },
    /// A call said that a token was current which had not been granted.
    Ungranted {
        /// The call.
        event: Event<R>,
        /// The grant of that token, if there is one: it was called after the call had returned.
        grant: Option<Event<R>>,
    },
    /// A lease was granted while another holder's lease was live.
    Overlap {
        /// The grant of the lease that was live.
        grant: Event<R>,
        /// What set its end: the grant itself, a renewal, or a revocation with grace.
        last: Event<R>,
        /// The earliest tick that its deadline can have been.
        until: u64,
        /// The grant that came too early.
        next: Event<R>,
    },
    /// A call said that a token was current although a newer one had been granted.
    Superseded {
        /// The newer grant, which had returned.
        newer: Event<R>,
        /// The call.
        event: Event<R>,
    },
    /// A call said that a token was current after another had ended it, or had said that it was
    /// over.
    Revived {
        /// The call that had returned.
        over: Event<R>,
        /// The call that was begun then.
        event: Event<R>,
    },
    /// Two calls ended one lease, each a release or a revocation at once.
    EndedTwice {
        /// The end that returned first.
        first: Event<R>,
        /// The other one.
        second: Event<R>,
    },
    /// A check or a renewal succeeded at or after the deadline.
    Outlived {
        /// The grant.
        grant: Event<R>,
        /// What set the deadline: the grant itself, a renewal, or a revocation with grace.
        last: Event<R>,
        /// The latest tick that the deadline can have been.
        until: u64,
        /// The call that succeeded.
        event: Event<R>,
    },
    /// A renewal succeeded after a revocation with grace.
    RenewedClosing {
        /// The revocation, which had returned.
        closing: Event<R>,
        /// The renewal.
        event: Event<R>,
    },
    /// A lease was reported lost before its deadline, and nothing can have ended it.
    LostEarly {
        /// The grant.
        grant: Event<R>,
        /// What set the deadline: the grant itself, a renewal, or a revocation with grace.
        last: Event<R>,
        /// The earliest tick that the deadline can have been.
        until: u64,
        /// The report.
        event: Event<R>,
    },
}

impl<R> Violation<R> {
    /// The call whose answer is the contradiction. A [`Checker`](super::Checker) that finds several
    /// violations returns the one whose culprit returned first, as the others may follow from it.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::{Checker, Outcome, Recorder};
    /// use leasehold::{HolderId, Token};
    ///
    /// let recorder = Recorder::new(|| 0);
    /// let mut log = recorder.log();
    /// let call = log.begin("disk", HolderId::new(1)?);
    /// log.end(call, Outcome::Checked { token: Token::new(9).unwrap() });
    /// log.finish();
    /// // Nobody was ever granted it.
    /// let violation = Checker::new().check(&recorder.take()).unwrap_err();
    /// assert_eq!(violation.culprit().returned, 1);
    /// # Ok::<(), leasehold::InvalidHolder>(())
    /// ```
    #[must_use]
    pub const fn culprit(&self) -> &Event<R> {
        match self {
            Self::TokenTwice { second: event, .. }
            | Self::TokenOrder { later: event, .. }
            | Self::Overlap { next: event, .. }
            | Self::EndedTwice { second: event, .. }
            | Self::Malformed { event }
            | Self::Ungranted { event, .. }
            | Self::Superseded { event, .. }
            | Self::Revived { event, .. }
            | Self::Outlived { event, .. }
            | Self::RenewedClosing { event, .. }
            | Self::LostEarly { event, .. } => event,
        }
    }
}

impl<R: fmt::Debug> fmt::Display for Violation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { event } => {
                write!(f, "the record of one call runs backwards, in ticks or in order: {event}")
            }
            Self::TokenTwice { first, second } => {
                write!(f, "one token was granted twice: first {first}, then {second}")
            }
            Self::TokenOrder { earlier, later } => {
                write!(f, "tokens decreased: {earlier} had returned before {later} was called")
            }
            Self::Ungranted { event, grant: None } => {
                write!(f, "a token was current that nobody was granted: {event}")
            }
            Self::Ungranted { event, grant: Some(grant) } => {
                write!(f, "a token was current before it was granted: {event}, and then {grant}")
            }
            Self::Overlap { grant, last, until, next } => {
                write!(f, "two holders at once: {grant} ")?;
                write_end(f, grant, last, format_args!("was live at least until tick {until}"))?;
                write!(f, " and nothing ended it before that, yet there was {next}")
            }
            Self::Superseded { newer, event } => {
                write!(f, "a token was current after a newer one: {newer} came before {event}")
            }
            Self::Revived { over, event } => {
                write!(f, "a lease that was over came back: {over} came before {event}")
            }
            Self::EndedTwice { first, second } => {
                write!(f, "one lease was ended twice: first {first}, then {second}")
            }
            Self::Outlived { grant, last, until, event } => {
                write!(f, "a lease outlived its deadline: {grant} ")?;
                write_end(f, grant, last, format_args!("was over at the latest at tick {until}"))?;
                write!(f, ", yet there was {event}")
            }
            Self::RenewedClosing { closing, event } => {
                write!(f, "a closing lease was renewed: {closing} came before {event}")
            }
            Self::LostEarly { grant, last, until, event } => {
                write!(f, "a lease was lost before its deadline: {grant} ")?;
                write_end(f, grant, last, format_args!("was live at least until tick {until}"))?;
                write!(f, " and nothing ended it before that, yet there was {event}")
            }
        }
    }
}

/// When the lease of `grant` ended, and because of what, where that is not the grant.
fn write_end<R: fmt::Debug>(
    f: &mut fmt::Formatter<'_>,
    grant: &Event<R>,
    last: &Event<R>,
    end: fmt::Arguments<'_>,
) -> fmt::Result {
    f.write_fmt(end)?;
    // By number: no two calls of a history have the same.
    if last.returned == grant.returned { Ok(()) } else { write!(f, " by {last}") }
}

impl<R: fmt::Debug> core::error::Error for Violation<R> {}
