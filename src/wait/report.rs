//! Who waits for whom.

use core::borrow::Borrow;
use core::fmt;
use core::hash::BuildHasher;
use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};

use super::lists::{Ticket, Wish};
use crate::clock::Clock;
use crate::hash::Hash;
use crate::id::{HolderId, Token};
use crate::pinned::{self, Pinned};
use crate::shard::Shard;
use crate::slot;
use crate::table::Key;
use crate::table::shared::Core;

/// One who waits for a lease.
///
/// # Example
///
/// See [`LeaseTable::waiters`](crate::LeaseTable::waiters).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Who waits.
    pub holder: HolderId,
    /// For how long already, by the table's clock, rounded down.
    pub waited: Duration,
    /// For what term.
    pub term: Duration,
}

/// A resource that somebody waits for.
///
/// # Example
///
/// See [`LeaseTable::waiting`](crate::LeaseTable::waiting).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting<K> {
    /// The resource.
    pub key: K,
    /// Who holds it, if that is known.
    pub holder: Option<HolderId>,
    /// By which token.
    pub token: Token,
    /// Those who wait for it, the next one first.
    pub waiters: Vec<Waiter>,
}

/// A holder that waits for what another one holds.
///
/// # Example
///
/// See [`LeaseTable::deadlocks`](crate::LeaseTable::deadlocks).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link<K> {
    /// Who waits.
    pub waiter: HolderId,
    /// For which resource.
    pub key: K,
    /// Who holds that.
    pub holder: HolderId,
    /// By which token.
    pub token: Token,
}

/// Holders that wait for each other: each for what the next one holds, and the last for what the first does.
///
/// # Example
///
/// See [`LeaseTable::deadlocks`](crate::LeaseTable::deadlocks).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock<K> {
    /// The holder of each is the waiter of the next, and that of the last is the waiter of the first.
    pub links: Vec<Link<K>>,
}

impl<K: fmt::Debug> fmt::Display for Deadlock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, link) in self.links.iter().enumerate() {
            let and = if index == 0 { "" } else { ", and " };
            let Link { waiter, key, holder, .. } = link;
            write!(f, "{and}holder {waiter} waits for {key:?}, which holder {holder} holds")?;
        }
        f.write_str(": revoke one of their leases, or wait until one lapses")
    }
}

/// A queue, as one look found it.
struct Seen<K> {
    waiting: Waiting<K>,
    tickets: Vec<(Ticket, Wish)>,
}

impl<K: Key, S: BuildHasher, C: Clock> Core<K, S, C> {
    fn waiter(&self, wish: Wish, now: u64) -> Waiter {
        Waiter {
            holder: wish.holder,
            waited: self.rate.duration_floor(now.saturating_sub(wish.since)),
            term: self.rate.duration_floor(wish.ticks),
        }
    }

    pub(crate) fn waiters<Q>(&self, key: &Q) -> Vec<Waiter>
    where
        K: Borrow<Q>,
        Q: std::hash::Hash + Eq + ?Sized,
    {
        let hash = Hash::of(&self.hasher, key);
        let pinned = pinned::pin();
        let now = self.clock.now();
        let shard = self.shard(hash);
        let Some(found) = shard.find(hash, key, &self.ctx(now, &pinned)) else {
            return Vec::new();
        };
        let identity = found.page.slot(found.index).identity();
        let wishes = shard.waits.lists.lock().wishes(identity);
        wishes.into_iter().map(|(_, wish)| self.waiter(wish, now)).collect()
    }

    pub(crate) fn waiting(&self) -> Vec<Waiting<K>> {
        self.seen().into_iter().map(|seen| seen.waiting).collect()
    }

    fn seen(&self) -> Vec<Seen<K>> {
        self.shards.iter().flat_map(|shard| self.seen_in(shard)).collect()
    }

    fn seen_in(&self, shard: &Shard<K>) -> Vec<Seen<K>> {
        let queues = shard.waits.lists.lock().places();
        let pinned = pinned::pin();
        let seen = |(hash, identity)| self.seen_at(shard, hash, identity, &pinned);
        queues.into_iter().filter_map(seen).collect()
    }

    /// Who waits for the resource in a slot, and who holds it: both of one moment.
    fn seen_at(
        &self,
        shard: &Shard<K>,
        hash: Hash,
        identity: u64,
        pinned: &Pinned,
    ) -> Option<Seen<K>> {
        loop {
            let now = self.clock.now();
            let found = shard.find_identity(hash, identity, &self.ctx(now, pinned))?;
            let slot = found.page.slot(found.index);
            // SAFETY: it was found published, under the pin.
            let key = unsafe { slot.with_key(K::clone) };
            let lists = shard.waits.lists.lock();
            // Under the lock it is not passed on.
            let word = slot.word();
            let tickets = lists.wishes(identity);
            drop(lists);
            if word.is_frozen() {
                continue;
            }
            if tickets.is_empty() {
                return None;
            }
            let waiting = Waiting {
                key,
                holder: slot.holder_of(word.stamp()),
                token: slot::token(identity, word.stamp()),
                waiters: tickets.iter().map(|(_, wish)| self.waiter(*wish, now)).collect(),
            };
            return Some(Seen { waiting, tickets });
        }
    }

    /// Cycles in what was so at one moment: what two looks found, one after the other, was so all the time in
    /// between. Each look is of many moments, but the first was over before the second began.
    pub(crate) fn deadlocks(&self) -> Vec<Deadlock<K>> {
        let first = self.seen();
        let edges: HashSet<_> = first.iter().flat_map(edges_of).collect();
        let second = self.seen();
        let mut links: Links<K> = HashMap::new();
        for seen in second {
            for (edge, link) in edges_of(&seen).zip(links_of(&seen.waiting)) {
                if edges.contains(&edge) {
                    links.entry(link.waiter).or_default().push(link);
                }
            }
        }
        cycles(links)
    }
}

/// What must be the same for a link to have stood all the time: the place in the lists, who waits since when, and
/// the grant that is waited for.
type Edge = (Token, usize, u64, HolderId);

fn edges_of<K>(seen: &Seen<K>) -> impl Iterator<Item = Edge> {
    let token = seen.waiting.token;
    let held = seen.waiting.holder.is_some();
    let edge =
        move |(ticket, wish): &(Ticket, Wish)| (token, ticket.number(), wish.since, wish.holder);
    seen.tickets.iter().filter(move |_| held).map(edge)
}

fn links_of<K: Clone>(waiting: &Waiting<K>) -> Vec<Link<K>> {
    let Waiting { key, holder, token, waiters } = waiting;
    let link = |waiter: &Waiter, holder| {
        let (waiter, key, token) = (waiter.holder, key.clone(), *token);
        Link { waiter, key, holder, token }
    };
    let links = holder.map(|holder| waiters.iter().map(|waiter| link(waiter, holder)).collect());
    links.unwrap_or_default()
}

type Links<K> = HashMap<HolderId, Vec<Link<K>>>;

/// A shortest cycle through each holder that is in any, but for those that an earlier one went through.
fn cycles<K: Clone>(mut links: Links<K>) -> Vec<Deadlock<K>> {
    while prune(&mut links) {}
    let mut starts: Vec<HolderId> = links.keys().copied().collect();
    // In an order that does not change from call to call.
    starts.sort_unstable();
    let mut covered = HashSet::new();
    let mut found = Vec::new();
    for start in starts {
        if !covered.contains(&start)
            && let Some(links) = cycle_through(start, &links)
        {
            covered.extend(links.iter().map(|link| link.waiter));
            found.push(Deadlock { links });
        }
    }
    found
}

/// Takes out the links of those that nobody waits for, and those that lead to somebody who does not wait. Whether
/// there were any.
fn prune<K>(links: &mut Links<K>) -> bool {
    let held: HashSet<HolderId> = links.values().flatten().map(|link| link.holder).collect();
    let waits: HashSet<HolderId> = links.keys().copied().collect();
    let before: usize = links.values().map(Vec::len).sum();
    links.retain(|waiter, links| {
        links.retain(|link| waits.contains(&link.holder));
        held.contains(waiter) && !links.is_empty()
    });
    links.values().map(Vec::len).sum::<usize>() < before
}

/// Breadth first, from a holder back to itself.
fn cycle_through<K: Clone>(start: HolderId, links: &Links<K>) -> Option<Vec<Link<K>>> {
    let mut came_by: HashMap<HolderId, &Link<K>> = HashMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(at) = next.pop_front() {
        for link in links.get(&at).into_iter().flatten() {
            if came_by.contains_key(&link.holder) {
                continue;
            }
            came_by.insert(link.holder, link);
            if link.holder == start {
                let back = core::iter::successors(Some(link), |link| {
                    (link.waiter != start).then(|| came_by[&link.waiter])
                });
                let mut cycle: Vec<Link<K>> = back.cloned().collect();
                cycle.reverse();
                return Some(cycle);
            }
            next.push_back(link.holder);
        }
    }
    None
}
