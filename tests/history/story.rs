//! Histories by hand, briefly.

use std::ops::Range;

use leasehold::testing::history::{Checker, Event, Outcome, Summary, Violation};
use leasehold::{HolderId, Token};

pub(crate) type Verdict = Result<Summary, Box<Violation>>;

pub(crate) fn holder(number: u64) -> HolderId {
    HolderId::new(number).unwrap()
}

pub(crate) fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// A call on resource 0: its ticks, its place among the others, who made it, and what it came to.
pub(crate) fn call(ticks: Range<u64>, order: Range<u64>, by: u64, outcome: Outcome) -> Event {
    Event {
        before: ticks.start,
        after: ticks.end,
        began: order.start,
        returned: order.end,
        resource: 0,
        holder: holder(by),
        outcome,
    }
}

pub(crate) fn check(events: &[Event]) -> Verdict {
    Checker::new().check(events)
}

/// The violation that a history must have.
pub(crate) fn fault(events: &[Event]) -> Violation {
    *check(events).expect_err("a violation was planted")
}

pub(crate) fn granted(number: u64, term_ticks: u64) -> Outcome {
    Outcome::Granted { token: token(number), term_ticks }
}

pub(crate) fn refused(number: u64) -> Outcome {
    Outcome::Refused { by: Some(token(number)) }
}

pub(crate) fn renewed(number: u64, term_ticks: u64) -> Outcome {
    Outcome::Renewed { token: token(number), term_ticks }
}

pub(crate) fn closing(number: u64, grace_ticks: u64) -> Outcome {
    Outcome::Closing { token: token(number), grace_ticks }
}

macro_rules! about_a_token {
    ($($function:ident $variant:ident),+ $(,)?) => {$(
        pub(crate) fn $function(number: u64) -> Outcome {
            Outcome::$variant { token: token(number) }
        }
    )+};
}

about_a_token!(
    renew_refused RenewRefused,
    renew_lost RenewLost,
    released Released,
    release_lost ReleaseLost,
    dropped Dropped,
    checked Checked,
    check_lost CheckLost,
    revoked Revoked,
);
