//! What the table should have counted.

use leasehold::Stats;

/// A number of events, of which some may or may not have happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    sure: u64,
    possible: u64,
}

impl Count {
    pub(super) fn add(&mut self) {
        self.sure += 1;
    }

    pub(super) fn maybe_add(&mut self) {
        self.possible += 1;
    }

    #[track_caller]
    fn check(self, what: &str, counted: u64, more: u64) {
        let most = self.sure + self.possible + more;
        assert!(
            (self.sure..=most).contains(&counted),
            "the table counted {counted} {what}, which were {} to {most}",
            self.sure,
        );
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) grants: Count,
    pub(super) refusals: Count,
    pub(super) renewals: Count,
    pub(super) releases: Count,
    pub(super) lapses: Count,
    pub(super) revocations: Count,
    pub(super) superseded: Count,
    pub(super) stale: Count,
    /// Lives that were seen to be forgotten.
    pub(super) forgotten: u64,
}

/// How many leases nobody ended, as far as the model knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) sure: u64,
    /// Lapsed, and perhaps found out when a page was replaced.
    pub(super) loose: u64,
}

impl Tally {
    /// Compares with what the table says.
    pub(super) fn check(&self, stats: &Stats, standing: Standing) {
        self.grants.check("grants", stats.grants, 0);
        self.refusals.check("refusals", stats.refusals, 0);
        self.renewals.check("renewals", stats.renewals, 0);
        self.releases.check("releases", stats.releases, 0);
        self.lapses.check("lapses", stats.lapses, standing.loose);
        self.revocations.check("revocations", stats.revocations, 0);
        self.superseded.check("superseded leases", stats.superseded, 0);
        self.stale.check("stale calls", stats.stale, 0);
        assert!(stats.evictions >= self.forgotten, "resources are gone that were not evicted");
        // Whatever happened unseen: every lease ends once, and by one of these.
        let ended = stats.releases + stats.lapses + stats.revocations + stats.superseded;
        let left = stats.grants.checked_sub(ended).expect("more leases ended than began");
        let expected = standing.sure..=standing.sure + standing.loose;
        assert!(expected.contains(&left), "{left} leases never ended, not {standing:?}: {stats:?}");
    }
}
