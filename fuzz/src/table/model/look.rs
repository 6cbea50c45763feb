//! What anybody sees from outside, and revocation.

use std::collections::BTreeMap;

use leasehold::{EndCause, LeaseInfo, NotHeld, Revoke, Stats};

use super::Model;
use super::hold::Seen;
use super::life::{Ended, Life};
use super::tally::Standing;
use super::time::Deadline;

/// What a walk through the table found.
#[derive(Debug)]
pub(in super::super) struct Walk {
    pub(in super::super) leases: Vec<(u8, LeaseInfo)>,
    pub(in super::super) len: usize,
    pub(in super::super) is_empty: bool,
    pub(in super::super) resources: usize,
    pub(in super::super) stats: Stats,
}

impl Model {
    pub(in super::super) fn revoked(
        &mut self,
        key: u8,
        how: Revoke,
        result: Result<LeaseInfo, NotHeld>,
    ) {
        let Ok(info) = result else { return self.not_live(key) };
        match how {
            Revoke::Now => {
                // As it was.
                let (remaining, closing) = (Some(info.remaining), Some(info.closing));
                self.live(key, &info, Seen { remaining, closing });
                self.tally.revocations.add();
                let Self { known, time, ends, .. } = self;
                let life = known.get_mut(&key).and_then(|known| known.present_mut());
                let life = life.expect("just seen");
                ends.expect(key, life, &[EndCause::Revoked]);
                life.end(Ended::Revoked, time);
            }
            Revoke::After(grace) => {
                self.live(key, &info, Seen::default());
                let until = Deadline::after(self.limits.rate.ticks_floor(grace), &self.time);
                self.see(key, |lease, time| {
                    lease.closing = true;
                    lease.deadline = lease.deadline.or_earlier(until, time);
                });
                let lease = self.known[&key].present().and_then(Life::lease);
                let left = lease.expect("just seen").deadline.left(&self.time);
                assert!(info.closing, "{key} was revoked with a grace, and is not closing");
                let remaining = info.remaining;
                assert!(self.is_floor(remaining, left), "{key} has {remaining:?}, not {left:?}");
            }
        }
    }

    pub(in super::super) fn inspected(&mut self, key: u8, found: Option<LeaseInfo>) {
        match found {
            Some(info) => {
                let (remaining, closing) = (Some(info.remaining), Some(info.closing));
                self.live(key, &info, Seen { remaining, closing });
            }
            None => self.not_live(key),
        }
    }

    pub(in super::super) fn walked(&mut self, walk: &Walk) {
        let Walk { leases, len, is_empty, resources, stats } = walk;
        let found: BTreeMap<u8, LeaseInfo> = leases.iter().copied().collect();
        assert_eq!(found.len(), leases.len(), "a lease was returned twice");
        assert_eq!((*len, *is_empty), (found.len(), found.is_empty()), "how many leases are live");
        for key in 0..=u8::MAX {
            self.inspected(key, found.get(&key).copied());
        }
        let present = self.known.values().filter_map(|known| known.present());
        let (loose, sure): (Vec<&Life>, Vec<&Life>) = present.partition(|life| life.loose);
        let unsure = |life: &&Life| life.lease().is_some_and(|lease| lease.unsure);
        let unsure = sure.iter().copied().filter(unsure).count() as u64;
        let expected = sure.len()..=sure.len() + loose.len();
        assert!(expected.contains(resources), "{resources} resources, not {expected:?}");
        let leases =
            |lives: &[&Life]| lives.iter().filter(|life| life.lease().is_some()).count() as u64;
        self.tally.check(
            stats,
            Standing { sure: leases(&sure) - unsure, loose: leases(&loose) + unsure },
        );
    }

    /// The table showed a live lease.
    fn live(&mut self, key: u8, info: &LeaseInfo, seen: Seen) {
        let life = self.known.get(&key).and_then(|known| known.present());
        let life = life.unwrap_or_else(|| panic!("{key} has a lease that nobody was granted"));
        let lease = life.lease().unwrap_or_else(|| panic!("{key} has a lease that has ended"));
        let newest = life.newest.map(|(token, holder)| (token, Some(holder)));
        assert_eq!(newest, Some((info.token, info.holder)), "who holds {key}");
        self.check_valid(key, lease, seen);
    }

    /// The table showed that a key has no live lease.
    fn not_live(&self, key: u8) {
        let life = self.known.get(&key).and_then(|known| known.present());
        let Some((life, lease)) = life.and_then(|life| Some((life, life.lease()?))) else { return };
        let left = lease.deadline.left(&self.time);
        let may_be_over = left.lo <= 0 || lease.expired || lease.unsure || life.loose;
        assert!(may_be_over, "{key} has no lease, but {left:?} ticks left: {life:?}");
    }
}
