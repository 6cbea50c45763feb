//! Who waits for what in a shard. Plain data: all of it is under one lock, and none of it runs code of the
//! user's. Keys, wakers and handles that go away are handed out, to be dropped when the lock is free.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use slab::Slab;

use super::signal::Signal;
use crate::hash::Hash;
use crate::id::HolderId;
use crate::sync::std_arc::Arc;
use crate::table::handle::Handle;

/// What a waiter asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) holder: HolderId,
    pub(crate) ticks: u64,
    /// When it began to wait: a tick of the clock.
    pub(crate) since: u64,
}

/// What became of a waiter.
pub(crate) enum Turn<K> {
    Waiting,
    Granted(Handle<K>),
    /// The table was closed.
    Closed,
    /// Its queue could not be carried on: it is to ask anew.
    Anew,
}

/// The place of a waiter in its shard's lists; it keeps it until it takes itself out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(usize);

impl Ticket {
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

/// A queue, by a number that no other one ever has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Serial(u64);

/// Two cache lines, which go from who waits to who ends the lease and back.
#[repr(align(64))]
pub(crate) struct Waiter<K> {
    pub(crate) wish: Wish,
    pub(crate) turn: Turn<K>,
    /// Taken out when it is woken.
    pub(crate) signal: Option<Signal>,
    /// Its neighbours in the queue, and the queue: as long as it waits.
    queue: u32,
    before: u32,
    behind: u32,
}

/// No neighbour.
const NOBODY: u32 = u32::MAX;

/// The number of something in a slab: so many do not fit into memory.
fn short(index: usize) -> u32 {
    u32::try_from(index).ok().filter(|index| *index != NOBODY).expect("fewer than 2^32 waiters")
}

/// First come, first served: those who wait for one resource.
#[repr(align(64))]
struct Queue {
    serial: Serial,
    hash: Hash,
    /// The resource's slot; 0 while it has none.
    identity: u64,
    first: u32,
    last: u32,
    len: u32,
}

/// A queue whose resource lost its slot, as that can be granted no more, and has yet to get another.
struct Orphan<K> {
    queue: usize,
    key: Arc<K>,
}

/// In this order, so that what is always used lies together.
#[repr(C)]
pub(crate) struct Lists<K> {
    /// The identity and the queue that were asked for last: a resource that goes to and fro is found without the
    /// map, and keeps its queue when that is empty for a moment. No identity is 0.
    recent: (u64, usize),
    closed: bool,
    waiters: Slab<Waiter<K>>,
    queues: Slab<Queue>,
    orphans: Vec<Orphan<K>>,
    serials: u64,
    by_identity: HashMap<u64, usize, FixedState>,
}

impl<K> Default for Lists<K> {
    fn default() -> Self {
        Self {
            waiters: Slab::new(),
            queues: Slab::new(),
            by_identity: HashMap::default(),
            recent: (0, 0),
            orphans: Vec::new(),
            serials: 0,
            closed: false,
        }
    }
}

/// The first in a queue.
#[derive(Clone, Copy)]
pub(crate) struct First {
    pub(crate) wish: Wish,
    pub(crate) hash: Hash,
    pub(crate) more: bool,
    queue: usize,
}

impl<K> Lists<K> {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Puts a waiter at the end of the queue of a slot.
    pub(crate) fn push(&mut self, identity: u64, hash: Hash, wish: Wish, signal: Signal) -> Ticket {
        let of = self.queue_for(identity, hash);
        let queue = &mut self.queues[of];
        let before = if queue.len == 0 { NOBODY } else { queue.last };
        let index = self.waiters.insert(Waiter {
            wish,
            turn: Turn::Waiting,
            signal: Some(signal),
            queue: short(of),
            before,
            behind: NOBODY,
        });
        queue.last = short(index);
        queue.len += 1;
        match before {
            NOBODY => queue.first = short(index),
            before => self.waiters[before as usize].behind = short(index),
        }
        Ticket(index)
    }

    fn queue_for(&mut self, identity: u64, hash: Hash) -> usize {
        let queue = self.find(identity).unwrap_or_else(|| {
            self.serials += 1;
            let serial = Serial(self.serials);
            let queue = Queue { serial, hash, identity, first: 0, last: 0, len: 0 };
            let queue = self.queues.insert(queue);
            self.by_identity.insert(identity, queue);
            queue
        });
        let (before, other) = core::mem::replace(&mut self.recent, (identity, queue));
        if before != identity && before != 0 && self.queues[other].len == 0 {
            self.forget(other);
        }
        queue
    }

    /// The queue of a slot, which may be empty.
    fn find(&self, identity: u64) -> Option<usize> {
        if self.recent.0 == identity {
            return Some(self.recent.1);
        }
        self.by_identity.get(&identity).copied()
    }

    fn forget(&mut self, queue: usize) {
        let identity = self.queues.remove(queue).identity;
        self.by_identity.remove(&identity);
    }

    /// How many wait for the resource in a slot.
    pub(crate) fn len_of(&self, identity: u64) -> usize {
        self.find(identity).map_or(0, |queue| self.queues[queue].len as usize)
    }

    /// The first of those who wait for the resource in a slot; or, if it has no queue, in that orphan.
    pub(crate) fn first(&self, identity: u64, orphan: Option<Serial>) -> Option<First> {
        let own = self.find(identity).filter(|&queue| self.queues[queue].len > 0);
        let index = own.or_else(|| self.orphans[self.find_orphan(orphan?)?].queue.into())?;
        let queue = &self.queues[index];
        // An orphan may be empty.
        (queue.len > 0).then(|| {
            let wish = self.waiters[queue.first as usize].wish;
            First { wish, hash: queue.hash, more: queue.len > 1, queue: index }
        })
    }

    /// The first has been granted: it leaves the queue, and is to be woken.
    pub(crate) fn grant(&mut self, first: First, handle: Handle<K>) -> Option<Signal> {
        let index = self.queues[first.queue].first as usize;
        self.unlink(index);
        let waiter = &mut self.waiters[index];
        waiter.turn = Turn::Granted(handle);
        waiter.signal.take()
    }

    /// Takes a waiter that still waits out of its queue.
    fn unlink(&mut self, index: usize) {
        let Waiter { queue: of, before, behind, .. } = self.waiters[index];
        let of = of as usize;
        let queue = &mut self.queues[of];
        queue.len -= 1;
        match before {
            NOBODY => queue.first = behind,
            before => self.waiters[before as usize].behind = behind,
        }
        match behind {
            NOBODY => queue.last = before,
            behind => self.waiters[behind as usize].before = before,
        }
        let Queue { identity, len, .. } = *queue;
        if len == 0 && identity != 0 && identity != self.recent.0 {
            self.forget(of);
        }
    }

    pub(crate) fn waiter(&mut self, ticket: Ticket) -> &mut Waiter<K> {
        &mut self.waiters[ticket.0]
    }

    /// Takes a waiter out for good. What it leaves is to be dropped when the lock is free.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Waiter<K> {
        if let Turn::Waiting = self.waiters[ticket.0].turn {
            self.unlink(ticket.0);
        }
        let waiter = self.waiters.remove(ticket.0);
        if self.waiters.is_empty() && self.waiters.capacity() > KEPT {
            self.waiters = Slab::new();
            self.queues.shrink_to_fit();
            self.by_identity.shrink_to_fit();
        }
        waiter
    }

    // ---- orphans -------------------------------------------------------------------------------

    /// The queue's slot can be granted no more.
    pub(crate) fn orphan(&mut self, first: First, key: Arc<K>) -> Serial {
        let queue = &mut self.queues[first.queue];
        self.by_identity.remove(&queue.identity);
        if self.recent.0 == queue.identity {
            self.recent = (0, 0);
        }
        queue.identity = 0;
        let serial = queue.serial;
        self.orphans.push(Orphan { queue: first.queue, key });
        serial
    }

    /// The orphans that may be of a key with this hash.
    pub(crate) fn orphans_of(&self, hash: Hash) -> Vec<(Serial, Arc<K>)> {
        let of = self.orphans.iter().map(|orphan| (&self.queues[orphan.queue], &orphan.key));
        let equal = of.filter(|(queue, _)| queue.hash == hash);
        equal.map(|(queue, key)| (queue.serial, key.clone())).collect()
    }

    fn find_orphan(&self, serial: Serial) -> Option<usize> {
        self.orphans.iter().position(|orphan| self.queues[orphan.queue].serial == serial)
    }

    pub(crate) fn is_orphan(&self, serial: Serial) -> bool {
        self.find_orphan(serial).is_some()
    }

    /// Gives the queue a slot, if it is an orphan. Returns what is to be dropped when the lock is free.
    pub(crate) fn adopt(&mut self, first: First, identity: u64) -> Option<Arc<K>> {
        let at = self.orphans.iter().position(|orphan| orphan.queue == first.queue)?;
        let Orphan { queue, key } = self.orphans.swap_remove(at);
        self.queues[queue].identity = identity;
        if let Some(empty) = self.by_identity.insert(identity, queue) {
            self.queues.remove(empty);
            self.recent = (identity, queue);
        }
        Some(key)
    }

    /// Sends away those who wait in an orphan: they are to ask anew.
    pub(crate) fn give_up(&mut self, serial: Serial) -> Option<(Arc<K>, Vec<Signal>)> {
        let at = self.find_orphan(serial)?;
        let Orphan { queue, key } = self.orphans.swap_remove(at);
        let signals = self.send_away(queue, || Turn::Anew);
        self.queues.remove(queue);
        Some((key, signals))
    }

    fn send_away(&mut self, queue: usize, turn: impl Fn() -> Turn<K>) -> Vec<Signal> {
        let Queue { first, len, .. } = self.queues[queue];
        let mut next = if len > 0 { first } else { NOBODY };
        let mut signals = Vec::new();
        while next != NOBODY {
            let waiter = &mut self.waiters[next as usize];
            waiter.turn = turn();
            next = waiter.behind;
            signals.extend(waiter.signal.take());
        }
        signals
    }

    // ---- the end -------------------------------------------------------------------------------

    /// Nobody waits from now on. Returns whom to wake, and what to drop, when the lock is free.
    pub(crate) fn close(&mut self) -> (Vec<Signal>, Vec<Arc<K>>) {
        self.closed = true;
        let queues: Vec<usize> = self.queues.iter().map(|(index, _)| index).collect();
        let away = |queue| self.send_away(queue, || Turn::Closed);
        let signals = queues.into_iter().flat_map(away).collect();
        self.queues.clear();
        self.by_identity.clear();
        self.recent = (0, 0);
        (signals, self.orphans.drain(..).map(|orphan| orphan.key).collect())
    }

    // ---- views ---------------------------------------------------------------------------------

    /// Those who wait for the resource in a slot, in order.
    pub(crate) fn wishes(&self, identity: u64) -> Vec<(Ticket, Wish)> {
        let queue = self.find(identity).map(|queue| &self.queues[queue]);
        queue.map_or_else(Vec::new, |queue| self.wishes_in(queue))
    }

    fn wishes_in(&self, queue: &Queue) -> Vec<(Ticket, Wish)> {
        let mut next = queue.first;
        let walk = (0..queue.len).map(|_| {
            let index = next as usize;
            next = self.waiters[index].behind;
            (Ticket(index), self.waiters[index].wish)
        });
        walk.collect()
    }

    /// Where somebody waits: the hash and the identity of each slot that has a queue.
    pub(crate) fn places(&self) -> Vec<(Hash, u64)> {
        let queues = self.queues.iter().map(|(_, queue)| queue);
        let placed = queues.filter(|queue| queue.identity != 0 && queue.len > 0);
        placed.map(|queue| (queue.hash, queue.identity)).collect()
    }

    /// How much memory the lists take.
    pub(crate) fn bytes(&self) -> usize {
        self.waiters.capacity() * size_of::<Waiter<K>>()
            + self.queues.capacity() * size_of::<Queue>()
            + self.by_identity.capacity() * size_of::<(u64, usize)>()
    }
}

/// When nobody waits, memory for so many waiters is kept.
const KEPT: usize = 64;
