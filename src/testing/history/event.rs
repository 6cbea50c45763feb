//! One call on a lease table and what it answered.

use core::fmt;

use crate::id::{HolderId, Token};

/// One call: when, on what, by whom, and what it answered.
///
/// A [`Log`](super::Log) makes these. The fields are open so that a history may also come from
/// elsewhere: a server's log, or a test of the checker.
///
/// # Example
///
/// ```
/// use leasehold::testing::history::{Event, Outcome};
/// use leasehold::{HolderId, Token};
///
/// let token = Token::new(9).unwrap();
/// let event = Event {
///     before: 5,
///     after: 6,
///     began: 0,
///     returned: 1,
///     resource: "disk",
///     holder: HolderId::new(1)?,
///     outcome: Outcome::Checked { token },
/// };
/// assert!(event.to_string().starts_with("check that found token 9 valid"));
/// # Ok::<(), leasehold::InvalidHolder>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<R = u64> {
    /// Tick of the table's clock, read before the call.
    pub before: u64,
    /// Tick of the table's clock, read after the call.
    pub after: u64,
    /// How many calls had returned when this one began.
    pub began: u64,
    /// The place of this call in the order of returns, counted from 1.
    pub returned: u64,
    /// What the lease is on.
    pub resource: R,
    /// Who made the call. Only that of a grant matters to the checker.
    pub holder: HolderId,
    /// What came of it.
    pub outcome: Outcome,
}

impl<R> Event<R> {
    /// Whether this call had returned before `other` was begun, so that its effect came first.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    /// use leasehold::testing::history::{Outcome, Recorder};
    ///
    /// let recorder = Recorder::<u64>::new(|| 0);
    /// let mut log = recorder.log();
    /// let holder = HolderId::mint();
    /// let (first, overlapping) = (log.begin(1, holder), log.begin(1, holder));
    /// log.end(first, Outcome::Refused { by: None });
    /// let last = log.begin(1, holder);
    /// log.end(overlapping, Outcome::Refused { by: None });
    /// log.end(last, Outcome::Refused { by: None });
    /// log.finish();
    ///
    /// let events = recorder.take();
    /// assert!(events[0].precedes(&events[2]));
    /// assert!(!events[0].precedes(&events[1]) && !events[1].precedes(&events[0]));
    /// ```
    #[must_use]
    pub const fn precedes(&self, other: &Self) -> bool {
        self.returned <= other.began
    }

    /// The token that the call is about, if it named one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::{Outcome, Recorder};
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
    /// assert!(recorder.take().iter().all(|event| event.token() == Some(token)));
    /// # Ok::<(), leasehold::InvalidHolder>(())
    /// ```
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.outcome.token()
    }
}

impl<R: fmt::Debug> fmt::Display for Event<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, began, returned, resource, holder, outcome } = self;
        write!(f, "{outcome} on {resource:?} by holder {holder} ")?;
        write!(
            f,
            "[ticks {before} to {after}; {began} had returned when it began, it was no. {returned}]"
        )
    }
}

/// What a call on a lease table came to. Lengths are in ticks of the table's clock.
///
/// # Example
///
/// ```
/// use leasehold::Token;
/// use leasehold::testing::history::Outcome;
///
/// let outcome = Outcome::Granted { token: Token::new(7).unwrap(), term_ticks: 30 };
/// assert_eq!(outcome.to_string(), "grant of token 7 for 30 ticks");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A lease was granted.
    Granted {
        /// The number of the grant.
        token: Token,
        /// How long from the grant to the deadline.
        term_ticks: u64,
    },
    /// No lease was granted.
    Refused {
        /// The lease that was named as the one in the way, if one was.
        by: Option<Token>,
    },
    /// A renewal succeeded.
    Renewed {
        /// The lease.
        token: Token,
        /// How long from the renewal to the deadline, unless that was later already.
        term_ticks: u64,
    },
    /// A renewal failed, and not because the lease was over: it is closing, or the term was too
    /// long. Says nothing about the lease.
    RenewRefused {
        /// The lease.
        token: Token,
    },
    /// A renewal failed because the lease was over.
    RenewLost {
        /// The lease.
        token: Token,
    },
    /// A release succeeded: it ended the lease.
    Released {
        /// The lease.
        token: Token,
    },
    /// A release failed because the lease was over.
    ReleaseLost {
        /// The lease.
        token: Token,
    },
    /// A guard was dropped: a release that does not say how it went.
    Dropped {
        /// The lease.
        token: Token,
    },
    /// A check found the lease valid.
    Checked {
        /// The lease.
        token: Token,
    },
    /// A check found the lease over.
    CheckLost {
        /// The lease.
        token: Token,
    },
    /// The lease was revoked at once.
    Revoked {
        /// The lease.
        token: Token,
    },
    /// The lease was revoked with grace: it is closing, and ends by itself.
    Closing {
        /// The lease.
        token: Token,
        /// How long from the revocation to the deadline, unless that was earlier already.
        grace_ticks: u64,
    },
}

impl Outcome {
    /// The token that is named, if one is.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Token;
    /// use leasehold::testing::history::Outcome;
    ///
    /// let token = Token::new(7).unwrap();
    /// assert_eq!(Outcome::Checked { token }.token(), Some(token));
    /// assert_eq!(Outcome::Refused { by: None }.token(), None);
    /// ```
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        match *self {
            Self::Refused { by } => by,
            Self::Granted { token, .. }
            | Self::Renewed { token, .. }
            | Self::RenewRefused { token }
            | Self::RenewLost { token }
            | Self::Released { token }
            | Self::ReleaseLost { token }
            | Self::Dropped { token }
            | Self::Checked { token }
            | Self::CheckLost { token }
            | Self::Revoked { token }
            | Self::Closing { token, .. } => Some(token),
        }
    }

    /// Whether the call answered that a lease granted before was the current one.
    pub(super) const fn says_current(&self) -> bool {
        matches!(
            self,
            Self::Renewed { .. }
                | Self::Released { .. }
                | Self::Checked { .. }
                | Self::Revoked { .. }
                | Self::Closing { .. }
                | Self::Refused { by: Some(_) }
        )
    }

    /// Whether the call answered that the lease was over before it.
    pub(super) const fn says_lost(&self) -> bool {
        matches!(self, Self::RenewLost { .. } | Self::ReleaseLost { .. } | Self::CheckLost { .. })
    }

    /// Whether the call may have ended the lease, there and then.
    pub(super) const fn may_end(&self) -> bool {
        matches!(self, Self::Released { .. } | Self::Dropped { .. } | Self::Revoked { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { token, term_ticks } => {
                write!(f, "grant of token {token} for {term_ticks} ticks")
            }
            Self::Refused { by: Some(token) } => write!(f, "refusal because of token {token}"),
            Self::Refused { by: None } => write!(f, "refusal"),
            Self::Renewed { token, term_ticks } => {
                write!(f, "renewal of token {token} for {term_ticks} ticks")
            }
            Self::RenewRefused { token } => write!(f, "refused renewal of token {token}"),
            Self::RenewLost { token } => write!(f, "renewal that found token {token} over"),
            Self::Released { token } => write!(f, "release of token {token}"),
            Self::ReleaseLost { token } => write!(f, "release that found token {token} over"),
            Self::Dropped { token } => write!(f, "drop of the guard of token {token}"),
            Self::Checked { token } => write!(f, "check that found token {token} valid"),
            Self::CheckLost { token } => write!(f, "check that found token {token} over"),
            Self::Revoked { token } => write!(f, "revocation of token {token}"),
            Self::Closing { token, grace_ticks } => {
                write!(f, "revocation of token {token} with a grace of {grace_ticks} ticks")
            }
        }
    }
}
