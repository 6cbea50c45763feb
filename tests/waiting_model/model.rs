//! What the table promises about waiting, as plain data: a queue for each resource, and a list of who asked.

use std::collections::{HashSet, VecDeque};

use leasehold::AcquireError;

/// How a lease stands that nobody has ended yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Held,
    Closing,
    /// Somebody was told that it is over.
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The number of the grant: they rise.
    pub(crate) grant: u64,
    pub(crate) holder: u64,
    pub(crate) deadline: u64,
    pub(crate) stand: Stand,
}

/// One who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The number of the future.
    pub(crate) future: usize,
    pub(crate) holder: u64,
    pub(crate) ticks: u64,
    pub(crate) since: u64,
}

#[derive(Default, Debug)]
pub(crate) struct Resource {
    pub(crate) lease: Option<Lease>,
    pub(crate) queue: VecDeque<Wish>,
}

/// What a future was told, and has yet to hear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In no queue.
    None,
    Waits(usize),
    Granted(usize, u64),
    Closed,
}

/// A future: it wants these resources, in this order.
#[derive(Clone, Debug)]
pub(crate) struct Future {
    pub(crate) holder: u64,
    pub(crate) ticks: u64,
    pub(crate) wanted: Vec<usize>,
    /// Whether it is one for several resources.
    pub(crate) all: bool,
    /// The grants of the first of those that are wanted.
    pub(crate) held: Vec<u64>,
    pub(crate) place: Place,
    renew_at: u64,
    timer: Option<u64>,
    /// How often it must have been woken by now.
    pub(crate) wakes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    Pending,
    Not(AcquireError),
    /// The resources and their grants, in the order in which they are wanted.
    Granted(Vec<(usize, u64)>),
}

/// What comes of asking without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Granted(u64),
    /// By whom is in the model.
    Held,
    Not(AcquireError),
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: u64,
    retention: u64,
    capacity_max: Option<usize>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) futures: Vec<Future>,
    pub(crate) closed: bool,
    pub(crate) grants: u64,
    pub(crate) waits: u64,
    pub(crate) hand_overs: u64,
}

impl Model {
    pub(crate) fn new(
        resources: usize,
        now: u64,
        retention: u64,
        capacity_max: Option<usize>,
    ) -> Self {
        let resources = (0..resources).map(|_| Resource::default()).collect();
        Self { now, retention, capacity_max, resources, ..Self::default() }
    }

    pub(crate) fn valid(&self, key: usize) -> Option<Lease> {
        let lease = self.resources[key].lease?;
        (lease.stand != Stand::Expired && self.now < lease.deadline).then_some(lease)
    }

    fn is(&self, key: usize, grant: u64) -> bool {
        self.resources[key].lease.is_some_and(|lease| lease.grant == grant)
    }

    fn grant(&mut self, key: usize, holder: u64, ticks: u64) -> u64 {
        self.grants += 1;
        let (grant, deadline) = (self.grants, self.now + ticks);
        self.resources[key].lease = Some(Lease { grant, holder, deadline, stand: Stand::Held });
        grant
    }

    /// The lease is over: the first who waits is granted, and woken; the others are not.
    fn end(&mut self, key: usize) {
        self.resources[key].lease = None;
        if let Some(first) = self.resources[key].queue.pop_front() {
            let grant = self.grant(key, first.holder, first.ticks);
            self.hand_overs += 1;
            let future = &mut self.futures[first.future];
            future.place = Place::Granted(key, grant);
            future.wakes += 1;
        }
    }

    /// Why a resource that has no lease cannot be had, if it cannot: what is held takes up room.
    pub(crate) fn ask_for_another(&self) -> Result<(), AcquireError> {
        let held = self.resources.iter().filter(|resource| resource.lease.is_some()).count();
        match self.capacity_max {
            _ if self.closed => Err(AcquireError::Closed),
            Some(capacity_max) if held >= capacity_max => Err(AcquireError::Full { capacity_max }),
            _ => Ok(()),
        }
    }

    /// Asks for a resource without waiting.
    pub(crate) fn ask(&mut self, key: usize, holder: u64, ticks: u64) -> Asked {
        if self.closed {
            return Asked::Not(AcquireError::Closed);
        }
        loop {
            let Resource { lease, queue } = &self.resources[key];
            match lease {
                Some(lease) if self.now > lease.deadline && !queue.is_empty() => self.end(key),
                Some(lease)
                    if self.now <= lease.deadline
                        && !(lease.stand == Stand::Held
                            && lease.holder == holder
                            && queue.is_empty()) =>
                {
                    return Asked::Held;
                }
                Some(_) => return Asked::Granted(self.grant(key, holder, ticks)),
                None => {
                    let room = self.ask_for_another();
                    return room.map_or_else(Asked::Not, |()| {
                        Asked::Granted(self.grant(key, holder, ticks))
                    });
                }
            }
        }
    }

    /// Whether the lease is valid. Whoever is told that it is not stays told.
    pub(crate) fn check(&mut self, key: usize, grant: u64) -> bool {
        if !self.is(key, grant) {
            return false;
        }
        if self.valid(key).is_none() {
            self.resources[key].lease.as_mut().unwrap().stand = Stand::Expired;
            return false;
        }
        true
    }

    pub(crate) fn renew(&mut self, key: usize, grant: u64, ticks: u64) -> bool {
        let until = self.now + ticks;
        let valid = self.check(key, grant);
        match &mut self.resources[key].lease {
            Some(lease) if valid && lease.stand == Stand::Held => {
                lease.deadline = lease.deadline.max(until);
                true
            }
            _ => false,
        }
    }

    /// Whether it was there to be released. `None`: it may have been forgotten, as it lapsed long ago.
    pub(crate) fn release(&mut self, key: usize, grant: u64) -> Option<bool> {
        let Some(lease) = self.resources[key].lease.filter(|lease| lease.grant == grant) else {
            return Some(false);
        };
        let forgotten = self.now > lease.deadline + self.retention;
        let waited = !self.resources[key].queue.is_empty();
        self.end(key);
        (waited || !forgotten).then_some(lease.stand != Stand::Expired)
    }

    /// With a grace, or at once.
    pub(crate) fn revoke(&mut self, key: usize, grace: Option<u64>) -> bool {
        if self.valid(key).is_none() {
            return false;
        }
        match grace {
            None => self.end(key),
            Some(grace) => {
                let lease = self.resources[key].lease.as_mut().unwrap();
                lease.deadline = lease.deadline.min(self.now + grace);
                lease.stand = Stand::Closing;
            }
        }
        true
    }

    pub(crate) fn sweep(&mut self) {
        for future in &mut self.futures {
            if future.timer.is_some_and(|tick| tick <= self.now) {
                future.timer = None;
                future.wakes += 1;
            }
        }
        for key in 0..self.resources.len() {
            if self.resources[key].lease.is_some_and(|lease| self.now > lease.deadline) {
                self.end(key);
            }
        }
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        for resource in &mut self.resources {
            for wish in resource.queue.drain(..) {
                let future = &mut self.futures[wish.future];
                future.place = Place::Closed;
                future.wakes += 1;
            }
        }
    }

    // ---- futures -------------------------------------------------------------------------------

    pub(crate) fn start(
        &mut self,
        holder: u64,
        ticks: u64,
        wanted: Vec<usize>,
        all: bool,
    ) -> usize {
        let (held, place, renew_at, timer, wakes) = (Vec::new(), Place::None, u64::MAX, None, 0);
        let future = Future { holder, ticks, wanted, all, held, place, renew_at, timer, wakes };
        self.futures.push(future);
        self.futures.len() - 1
    }

    /// Leaves its queue; what it was granted is passed on.
    fn leave(&mut self, n: usize) {
        match std::mem::replace(&mut self.futures[n].place, Place::None) {
            Place::None | Place::Closed => {}
            Place::Waits(key) => self.resources[key].queue.retain(|wish| wish.future != n),
            Place::Granted(key, grant) => _ = self.release(key, grant),
        }
    }

    pub(crate) fn drop_future(&mut self, n: usize) {
        self.leave(n);
        self.give_back(n);
        self.futures[n].timer = None;
    }

    fn give_back(&mut self, n: usize) {
        let held = std::mem::take(&mut self.futures[n].held);
        self.futures[n].renew_at = u64::MAX;
        for (at, grant) in held.into_iter().enumerate() {
            self.release(self.futures[n].wanted[at], grant);
        }
    }

    fn next_renewal(&self, n: usize) -> u64 {
        self.now + (self.futures[n].ticks / 3).max(1)
    }

    fn hold(&mut self, n: usize, grant: u64) {
        if self.futures[n].held.is_empty() {
            self.futures[n].renew_at = self.next_renewal(n);
        }
        self.futures[n].held.push(grant);
    }

    /// Renews what it holds; if some of it was lost, all is given back.
    fn renew_held(&mut self, n: usize) -> bool {
        let Future { wanted, held, ticks, .. } = self.futures[n].clone();
        let kept = wanted.iter().zip(&held).all(|(key, grant)| self.renew(*key, *grant, ticks));
        if kept {
            self.futures[n].renew_at = self.next_renewal(n);
        } else {
            self.leave(n);
            self.give_back(n);
        }
        kept
    }

    pub(crate) fn poll(&mut self, n: usize) -> Polled {
        if self.futures[n].all && self.closed {
            self.drop_future(n);
            return Polled::Not(AcquireError::Closed);
        }
        let polled = self.advance(n);
        let future = &mut self.futures[n];
        let renews = future.all && polled == Polled::Pending && future.renew_at != u64::MAX;
        future.timer = renews.then_some(future.renew_at);
        polled
    }

    fn advance(&mut self, n: usize) -> Polled {
        loop {
            if self.futures[n].all && self.now >= self.futures[n].renew_at {
                self.renew_held(n);
            }
            let Future { holder, ticks, wanted, held, place, all, .. } = self.futures[n].clone();
            match place {
                Place::Waits(_) => return Polled::Pending,
                Place::Closed => {
                    self.drop_future(n);
                    return Polled::Not(AcquireError::Closed);
                }
                Place::Granted(key, grant) => {
                    self.futures[n].place = Place::None;
                    if self.check(key, grant) {
                        self.hold(n, grant);
                    } else {
                        // What came too late is given back.
                        self.release(key, grant);
                    }
                }
                Place::None if held.len() == wanted.len() => {
                    if !all || held.len() < 2 || self.renew_held(n) {
                        self.futures[n].held.clear();
                        return Polled::Granted(wanted.into_iter().zip(held).collect());
                    }
                }
                Place::None => {
                    let key = wanted[held.len()];
                    match self.ask(key, holder, ticks) {
                        Asked::Granted(grant) => self.hold(n, grant),
                        Asked::Held => {
                            self.waits += 1;
                            let wish = Wish { future: n, holder, ticks, since: self.now };
                            self.resources[key].queue.push_back(wish);
                            self.futures[n].place = Place::Waits(key);
                            return Polled::Pending;
                        }
                        Asked::Not(error) => {
                            self.drop_future(n);
                            return Polled::Not(error);
                        }
                    }
                }
            }
        }
    }

    // ---- reports -------------------------------------------------------------------------------

    /// Who waits for what, and who holds that.
    pub(crate) fn links(&self) -> HashSet<(u64, usize, u64)> {
        let resources = self.resources.iter().enumerate();
        let held = resources.filter_map(|(key, it)| Some((key, it.lease?.holder, &it.queue)));
        held.flat_map(|(key, by, queue)| queue.iter().map(move |wish| (wish.holder, key, by)))
            .collect()
    }

    /// Those who wait for themselves, by way of whomever.
    pub(crate) fn deadlocked(&self) -> HashSet<u64> {
        let mut ways: HashSet<(u64, u64)> =
            self.links().into_iter().map(|(waiter, _, by)| (waiter, by)).collect();
        loop {
            let longer = ways.iter().flat_map(|&(from, over)| {
                let on = ways.iter().filter(move |way| way.0 == over);
                on.map(move |way| (from, way.1))
            });
            let longer: HashSet<_> = longer.filter(|way| !ways.contains(way)).collect();
            if longer.is_empty() {
                return ways.into_iter().filter(|way| way.0 == way.1).map(|way| way.0).collect();
            }
            ways.extend(longer);
        }
    }
}
