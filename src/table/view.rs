//! What others see of a lease, and how they end it.

use core::borrow::Borrow;
use core::hash::BuildHasher;

use super::shared::Core;
use super::{Key, LeaseInfo, Revoke};
use crate::clock::Clock;
use crate::error::NotHeld;
use crate::events::EndCause;
use crate::hash::Hash;
use crate::pinned;
use crate::shard::Found;
use crate::slot;
use crate::stats::Event;
use crate::wait::pass_on::Ending;
use crate::word::{Cause, State, TICK_MAX};

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    /// The lease in a slot, if it is valid now.
    pub(super) fn info(&self, found: &Found<'_, K>, now: u64) -> Option<LeaseInfo> {
        let &Found { page, index, word } = found;
        let slot = page.slot(index);
        let time = page.time(now);
        word.is_valid(time).then(|| LeaseInfo {
            holder: slot.holder_of(word.stamp()),
            token: slot::token(slot.identity(), word.stamp()),
            remaining: self.rate.duration_floor(word.tick() - time),
            closing: word.state() == State::Closing,
        })
    }

    pub(crate) fn inspect<Q>(&self, key: &Q) -> Option<LeaseInfo>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ?Sized,
    {
        let hash = Hash::of(&self.hasher, key);
        let pinned = pinned::pin();
        let now = self.clock.now();
        let found = self.shard(hash).find(hash, key, &self.ctx(now, &pinned))?;
        self.info(&found, now)
    }

    pub(crate) fn revoke<Q>(&self, key: &Q, how: Revoke) -> Result<LeaseInfo, NotHeld>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ?Sized,
    {
        let hash = Hash::of(&self.hasher, key);
        let pinned = pinned::pin();
        loop {
            let now = self.clock.now();
            let ctx = self.ctx(now, &pinned);
            let found = self.shard(hash).find(hash, key, &ctx).ok_or(NotHeld)?;
            let time = found.page.time(now);
            let info = self.info(&found, now).ok_or(NotHeld)?;
            if how == Revoke::Now && found.word.is_waited() {
                let ending = Ending::Lease(Cause::Revoked);
                let Ok(passed) = self.shard(hash).pass_on(&found, ending, &ctx) else { continue };
                self.stats.add(Event::Revocation, 1);
                passed.tell(&ctx);
                return Ok(info);
            }
            let next = match how {
                Revoke::Now => found.word.end(time, Cause::Revoked),
                Revoke::After(grace) => {
                    let grace = self.rate.ticks_floor(grace).min(TICK_MAX);
                    found.word.close((time + grace).min(TICK_MAX))
                }
            };
            let slot = found.page.slot(found.index);
            let report = match how {
                Revoke::Now => ctx.report(found.page, found.index, found.word, EndCause::Revoked),
                Revoke::After(_) => None,
            };
            if next == found.word || slot.transition(found.word, next).is_ok() {
                if let Some(ended) = report {
                    self.events.tell(ended, now, &pinned);
                }
                if how == Revoke::Now {
                    self.stats.add(Event::Revocation, 1);
                    return Ok(info);
                }
                self.see_to(found.page, next.tick());
                let remaining = self.rate.duration_floor(next.tick().saturating_sub(time));
                return Ok(LeaseInfo { remaining, closing: true, ..info });
            }
        }
    }
}
