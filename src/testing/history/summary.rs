//! How much a history that was found without fault had in it.

use core::fmt;

use super::event::Outcome;

/// What a history without a violation had in it, so that a test can tell a quiet run from a good
/// one.
///
/// # Example
///
/// ```
/// use leasehold::testing::history::Checker;
///
/// let summary = Checker::new().check::<u64>(&[]).unwrap();
/// assert_eq!((summary.events(), summary.resources), (0, 0)); // proves nothing
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Distinct resources.
    pub resources: u64,
    /// [`Outcome::Granted`].
    pub granted: u64,
    /// [`Outcome::Refused`].
    pub refused: u64,
    /// [`Outcome::Renewed`].
    pub renewed: u64,
    /// [`Outcome::RenewRefused`].
    pub renew_refused: u64,
    /// [`Outcome::RenewLost`].
    pub renew_lost: u64,
    /// [`Outcome::Released`].
    pub released: u64,
    /// [`Outcome::ReleaseLost`].
    pub release_lost: u64,
    /// [`Outcome::Dropped`].
    pub dropped: u64,
    /// [`Outcome::Checked`].
    pub checked: u64,
    /// [`Outcome::CheckLost`].
    pub check_lost: u64,
    /// [`Outcome::Revoked`].
    pub revoked: u64,
    /// [`Outcome::Closing`].
    pub closing: u64,
}

impl Summary {
    /// Events of all kinds.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::testing::history::Summary;
    ///
    /// assert_eq!(Summary::default().events(), 0);
    /// ```
    #[must_use]
    pub fn events(&self) -> u64 {
        self.by_kind().iter().map(|(count, _)| count).sum()
    }

    pub(super) fn count(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Granted { .. } => &mut self.granted,
            Outcome::Refused { .. } => &mut self.refused,
            Outcome::Renewed { .. } => &mut self.renewed,
            Outcome::RenewRefused { .. } => &mut self.renew_refused,
            Outcome::RenewLost { .. } => &mut self.renew_lost,
            Outcome::Released { .. } => &mut self.released,
            Outcome::ReleaseLost { .. } => &mut self.release_lost,
            Outcome::Dropped { .. } => &mut self.dropped,
            Outcome::Checked { .. } => &mut self.checked,
            Outcome::CheckLost { .. } => &mut self.check_lost,
            Outcome::Revoked { .. } => &mut self.revoked,
            Outcome::Closing { .. } => &mut self.closing,
        };
        *count += 1;
    }

    const fn by_kind(&self) -> [(u64, &'static str); 12] {
        [
            (self.granted, "granted"),
            (self.refused, "refused"),
            (self.renewed, "renewed"),
            (self.renew_refused, "renewals refused"),
            (self.renew_lost, "renewals lost"),
            (self.released, "released"),
            (self.release_lost, "releases lost"),
            (self.dropped, "dropped"),
            (self.checked, "checked"),
            (self.check_lost, "checks lost"),
            (self.revoked, "revoked"),
            (self.closing, "closing"),
        ]
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} events on {} resources", self.events(), self.resources)?;
        let mut separator = ": ";
        for (count, kind) in self.by_kind() {
            if count > 0 {
                write!(f, "{separator}{count} {kind}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}
