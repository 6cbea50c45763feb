//! The timer wheel against a sorted map, by seeded random sequences, and at its edges.
#![cfg(not(leasehold_loom))]

mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use common::keys::planned_panic;
use leasehold::wheel::{Due, Key, StaleKey, Wheel};

/// What a wheel has to do: entries by tick, and by when they were filed there.
#[derive(Default)]
struct Model {
    now: u64,
    entries: BTreeMap<(u64, u64), u32>,
    filed: u64,
}

impl Model {
    fn insert(&mut self, tick: u64, id: u32) -> (u64, u64) {
        self.filed += 1;
        let at = (tick.max(self.now), self.filed);
        self.entries.insert(at, id);
        at
    }

    fn is_due(&self, to: u64) -> bool {
        to >= self.now && self.entries.first_key_value().is_some_and(|(at, _)| at.0 <= to)
    }

    fn first(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(at, _)| at.0)
    }
}

/// A wheel and its model, and who is filed where.
struct Pair {
    wheel: Wheel<u32>,
    model: Model,
    filed: BTreeMap<u32, (Key, (u64, u64))>,
    /// Keys whose entries are gone.
    stale: Vec<Key>,
    next_id: u32,
}

impl Pair {
    fn starting_at(tick: u64) -> Self {
        let (wheel, model) = (Wheel::starting_at(tick), Model { now: tick, ..Default::default() });
        Self { wheel, model, filed: BTreeMap::new(), stale: Vec::new(), next_id: 0 }
    }

    fn insert(&mut self, tick: u64) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        let at = self.model.insert(tick, id);
        let key = self.wheel.insert(tick, id);
        self.filed.insert(id, (key, at));
        self.check();
        id
    }

    fn refile(&mut self, id: u32, tick: u64) {
        let (key, at) = self.filed[&id];
        self.wheel.refile(key, tick).unwrap();
        if at.0.max(tick) > self.model.now {
            assert_eq!(self.model.entries.remove(&at), Some(id));
            let at = self.model.insert(tick, id);
            self.filed.insert(id, (key, at));
        }
        self.check();
    }

    fn remove(&mut self, id: u32) {
        let (key, at) = self.filed.remove(&id).unwrap();
        assert_eq!(self.wheel.remove(key), Some(id));
        assert_eq!(self.model.entries.remove(&at), Some(id));
        self.stale.push(key);
        self.check();
    }

    /// Takes out one entry, which has to be the first, or one of its tick that was refiled.
    fn pop(&mut self, to: u64) -> Option<Due<u32>> {
        let next = self.wheel.next_due();
        let due = self.wheel.pop_due(to);
        assert_eq!(due.is_some(), self.model.is_due(to), "whether anything is due at {to}");
        self.model.now = self.model.now.max(to);
        if let Some(due) = due {
            let (key, at) = self.filed.remove(&due.id).expect("it was filed, and once");
            assert_eq!((due.tick, Some(due.tick)), (at.0, self.model.first()), "the oldest");
            assert_eq!(self.model.entries.remove(&at), Some(due.id));
            self.stale.push(key);
        } else if next.is_some_and(|next| next <= to) && to == self.model.now {
            assert_eq!(self.wheel.next_due(), self.model.first(), "exact once it was wrong");
        }
        self.check();
        due
    }

    fn pop_all(&mut self, to: u64) -> usize {
        std::iter::from_fn(|| self.pop(to)).count()
    }

    fn check(&self) {
        assert_eq!(self.wheel.now(), self.model.now);
        assert_eq!(self.wheel.len(), self.model.entries.len());
        assert_eq!(self.wheel.is_empty(), self.model.entries.is_empty());
        let (next, first) = (self.wheel.next_due(), self.model.first());
        assert_eq!(next.is_some(), first.is_some());
        assert!(next <= first, "next due at {next:?}, and something is due at {first:?}");
    }

    fn check_stale(&mut self) {
        for key in self.stale.drain(..) {
            assert_eq!(self.wheel.refile(key, 0), Err(StaleKey));
            assert_eq!(self.wheel.remove(key), None);
        }
        self.check();
    }
}

/// SplitMix64, by Steele, Lea and Flood.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Of every magnitude alike, at most so many bits long.
    fn term(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        self.next().checked_shr(64 - bits as u32).unwrap_or(0)
    }
}

/// Around every boundary of a level, and at both ends of the range.
fn starts() -> Vec<u64> {
    let levels = (0..=10).map(|level| 1_u64 << (6 * level));
    let around =
        levels.flat_map(|unit| [-64, -2, -1, 0, 1].map(|by| unit.saturating_add_signed(by)));
    let ends = (0..=65).map(|before| u64::MAX - before);
    let turns = (1..=10).map(|level| u64::MAX << (6 * level));
    around.chain(ends).chain(turns).chain([0, u64::MAX / 2, u64::MAX / 2 + 1]).collect()
}

/// A run of random operations. Ticks stay within so many bits of now.
fn run(start: u64, seed: u64, steps: u32, bits: u64) {
    let mut random = Random(seed ^ start);
    let mut pair = Pair::starting_at(start);
    for _ in 0..steps {
        let now = pair.model.now;
        let tick = match random.below(8) {
            0 => now.saturating_sub(random.term(bits)),
            _ => now.saturating_add(random.term(bits)),
        };
        let some = (!pair.filed.is_empty()).then(|| {
            let ids: Vec<_> = pair.filed.keys().copied().collect();
            ids[random.below(ids.len() as u64) as usize]
        });
        match (random.below(16), some) {
            (0..=6, _) | (_, None) => _ = pair.insert(tick),
            (7..=9, Some(id)) => pair.refile(id, tick),
            (10, Some(id)) => pair.remove(id),
            (11, _) => pair.check_stale(),
            (12, _) => _ = pair.pop_all(tick),
            (13, _) => _ = pair.wheel.next_due().and_then(|next| pair.pop(next)),
            (_, _) => {
                let budget = random.below(4);
                (0..budget).for_each(|_| _ = pair.pop(tick));
            }
        }
    }
    pair.pop_all(u64::MAX);
    assert!(pair.wheel.is_empty(), "start {start}, seed {seed}: something is left");
    pair.check_stale();
}

#[test]
fn random_sequences_are_as_with_a_map() {
    for seed in 0..60 {
        run(seed * 0x0123_4567_89ab, seed, 400, 64);
        run(seed * 0x0123_4567_89ab, seed, 400, 20);
        run(seed, seed, 400, 8);
    }
}

#[test]
fn inv_24_every_start_behaves_as_zero() {
    for start in starts() {
        for bits in [4, 13, 40, 64] {
            run(start, bits, 120, bits);
        }
    }
}

/// The same terms from any start come out in the same order, as far as there are ticks left.
#[test]
fn inv_24_the_order_does_not_depend_on_the_start() {
    let mut random = Random(24);
    let terms: Vec<_> = (0..500).map(|_| random.term(36)).collect();
    let order = |start: u64| {
        let mut wheel = Wheel::starting_at(start);
        (0_u32..).zip(&terms).for_each(|(id, term)| _ = wheel.insert(start + term, id));
        let mut fired = Vec::new();
        while let Some(due) = wheel.pop_due(u64::MAX) {
            fired.push((due.tick - start, due.id));
        }
        fired
    };
    let expected = order(0);
    assert_eq!(expected.len(), terms.len());
    for start in starts().into_iter().filter(|&start| start <= u64::MAX - (1 << 36)) {
        assert_eq!(order(start), expected, "from {start}");
    }
}

#[test]
fn inv_21_every_term_comes_out_at_its_tick() {
    let units = (0..64).map(|bit| 1_u64 << bit);
    let terms: Vec<_> =
        units.flat_map(|unit| [unit - 1, unit, unit + 1]).chain([u64::MAX - 1, u64::MAX]).collect();
    for start in starts() {
        for &term in &terms {
            let tick = start.saturating_add(term);
            let mut wheel = Wheel::starting_at(start);
            wheel.insert(tick, term);
            assert_eq!(wheel.next_due(), Some(tick));
            if tick > start {
                assert_eq!(wheel.pop_due(tick - 1), None, "{term} from {start} came early");
            }
            assert_eq!(wheel.pop_due(tick), Some(Due { tick, id: term }), "{term} from {start}");
            assert_eq!((wheel.pop_due(u64::MAX), wheel.len()), (None, 0));
        }
    }
}

#[test]
fn inv_18_a_clock_that_steps_back_does_nothing() {
    let mut wheel = Wheel::starting_at(1_000);
    let _ = (wheel.insert(900, 'a'), wheel.insert(1_500, 'b'));
    assert_eq!(wheel.pop_due(999), None);
    assert_eq!(wheel.pop_due(0), None);
    assert_eq!((wheel.now(), wheel.len()), (1_000, 2));
    assert_eq!(wheel.pop_due(1_000), Some(Due { tick: 1_000, id: 'a' }));
    assert_eq!(wheel.pop_due(1_499), None);
    assert_eq!(wheel.pop_due(1_000), None);
    assert_eq!(wheel.now(), 1_499);
    assert_eq!(wheel.pop_due(1_500), Some(Due { tick: 1_500, id: 'b' }));
}

/// Were the cost that of the ticks, none of this would end.
#[test]
fn inv_19_a_jump_costs_what_is_due() {
    let mut pair = Pair::starting_at(7);
    let ticks: Vec<_> = (0..64).map(|bit| 1_u64 << bit).collect();
    for &tick in &ticks {
        pair.insert(tick);
        pair.insert(tick);
    }
    assert_eq!(pair.pop_all(u64::MAX / 2), 2 * 63);
    assert_eq!(pair.pop_all(u64::MAX), 2);
    // With nothing in it, too.
    let mut wheel = Wheel::<u32>::starting_at(0);
    (0..64).for_each(|bit| assert_eq!(wheel.pop_due(u64::MAX >> (63 - bit)), None));
}

#[test]
fn inv_22_nothing_comes_early_or_late_however_time_goes() {
    let mut random = Random(22);
    let mut pair = Pair::starting_at(0);
    for _ in 0..2_000 {
        let tick = pair.model.now + random.term(16);
        pair.insert(tick);
        // The pair asserts that something comes out if, and only if, it is due.
        let to = pair.model.now + random.below(40);
        pair.pop_all(to);
    }
    assert!(pair.next_id > pair.wheel.len() as u32, "some came out");
}

#[test]
fn inv_25_a_long_term_does_not_delay_short_ones() {
    // Long ones in all coarse buckets, and short ones beside them in the same.
    let start = (1 << 30) - 5;
    let mut pair = Pair::starting_at(start);
    for bit in 0..64 {
        pair.insert(start.saturating_add(1 << bit));
    }
    pair.insert(u64::MAX);
    for now in start..start + 300 {
        let short = pair.insert(now + 10);
        while let Some(due) = pair.pop(now + 9) {
            assert!(due.id != short, "it came early");
        }
        let mut came = std::iter::from_fn(|| pair.pop(now + 10));
        assert!(came.any(|due| due.id == short), "it is late at {now}");
    }
}

#[test]
fn inv_27_odd_intervals_and_huge_jumps_miss_nothing() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut pair = Pair::starting_at(random.next() >> 1);
        (0..300).for_each(|_| _ = pair.insert(pair.model.now + random.term(50)));
        let mut fired = 0;
        for step in [1, 63, 64, 65, 4_095, 4_097, 262_143, 777_777_777, 1 << 40, 1 << 51] {
            fired += pair.pop_all(pair.model.now + step);
        }
        assert_eq!(fired, 300, "seed {seed}");
    }
}

#[test]
fn inv_28_an_earlier_tick_is_due_next() {
    let mut wheel = Wheel::starting_at(100);
    let key = wheel.insert(1 << 40, 'a');
    assert_eq!(wheel.next_due(), Some(1 << 40));
    wheel.insert(1 << 39, 'b');
    assert_eq!(wheel.next_due(), Some(1 << 39));
    wheel.refile(key, (1 << 39) - 1).unwrap();
    assert_eq!(wheel.next_due(), Some((1 << 39) - 1));
    // Earlier within its bucket: it stays there.
    let near = wheel.insert(170, 'c');
    wheel.insert(180, 'd');
    wheel.refile(near, 165).unwrap();
    assert_eq!(wheel.next_due(), Some(165));
    wheel.insert(3, 'e');
    assert_eq!(wheel.next_due(), Some(100));
}

#[test]
fn inv_11_a_stale_key_hits_nobody() {
    let mut pair = Pair::starting_at(0);
    for round in 0..50 {
        let ids: Vec<_> = (0..10).map(|by| pair.insert(round * 10 + by + 1)).collect();
        ids.iter().step_by(2).for_each(|&id| pair.remove(id));
        pair.pop_all(round * 10 + 5);
        assert!(!pair.stale.is_empty());
        pair.check_stale();
    }
}

/// One comes out at a time, newcomers that are due wait behind those that were before.
#[test]
fn a_backlog_ends_whatever_is_filed_meanwhile() {
    let mut wheel = Wheel::starting_at(0);
    (0..100).for_each(|id| _ = wheel.insert(1 + id * 7, id));
    for id in 0..100 {
        assert_eq!(wheel.pop_due(1_000).map(|due| due.id), Some(id));
        // Older by their ticks than all of the backlog, at its end, and in between.
        wheel.insert(0, 1_000 + id * 3);
        wheel.insert(1_000, 1_001 + id * 3);
        wheel.insert(500, 1_002 + id * 3);
    }
    let rest: Vec<_> = std::iter::from_fn(|| wheel.pop_due(1_000)).collect();
    let expected: Vec<_> = (1_000..1_300).map(|id| Due { tick: 1_000, id }).collect();
    assert_eq!(rest, expected);
}

#[test]
fn within_a_tick_the_first_filed_is_first() {
    for tick in [1, 63, 64, 5_000, 1 << 30, u64::MAX] {
        let mut wheel = Wheel::starting_at(0);
        (0..40).for_each(|id| _ = wheel.insert(tick, id));
        // Nearer, so what comes now is filed in a finer bucket, behind those that were sorted there.
        wheel.insert(tick - 1, 99);
        assert_eq!(wheel.pop_due(tick - 1).map(|due| due.id), Some(99));
        (40..50).for_each(|id| _ = wheel.insert(tick, id));
        let order: Vec<_> = std::iter::from_fn(|| wheel.pop_due(tick)).map(|due| due.id).collect();
        assert!(order.iter().copied().eq(0..50), "{order:?}");
    }
}

#[test]
fn inv_37_a_panic_between_two_entries_loses_none() {
    let mut wheel = Wheel::starting_at(0);
    (1..=20).for_each(|id| _ = wheel.insert(1 + id / 8, id));
    let mut fired = Vec::new();
    for _ in 0..20 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            while let Some(due) = wheel.pop_due(20) {
                fired.push(due.id);
                if due.id % 3 == 0 {
                    planned_panic();
                }
            }
        }));
        assert_eq!(caught.is_err(), fired.last().unwrap() % 3 == 0);
    }
    assert!(fired.iter().copied().eq(1..=20));
}

#[test]
fn what_fires_may_file_and_refile() {
    let mut wheel = Wheel::starting_at(0);
    let other = wheel.insert(1_000_000, 0);
    wheel.insert(10, 1);
    let mut fired = Vec::new();
    while let Some(due) = wheel.pop_due(1_000) {
        fired.push((due.tick, due.id));
        match due.id {
            1 => {
                wheel.insert(2_000, 2);
                wheel.insert(5, 3);
            }
            3 => wheel.refile(other, 999).unwrap(),
            _ => {}
        }
    }
    // Refiled to a tick that has passed, it is due now.
    assert_eq!(fired, [(10, 1), (1_000, 3), (1_000, 0)]);
    assert_eq!(wheel.next_due(), Some(2_000));
}

#[test]
fn a_due_entry_keeps_its_place_when_refiled_to_a_due_tick() {
    let mut wheel = Wheel::starting_at(0);
    let keys = [wheel.insert(10, 'a'), wheel.insert(20, 'b'), wheel.insert(30, 'c')];
    assert_eq!(wheel.pop_due(50), Some(Due { tick: 10, id: 'a' }));
    wheel.refile(keys[1], 40).unwrap();
    wheel.refile(keys[2], 0).unwrap();
    assert_eq!(wheel.pop_due(50), Some(Due { tick: 20, id: 'b' }));
    wheel.refile(keys[2], 60).unwrap();
    assert_eq!(wheel.pop_due(59), None);
    assert_eq!(wheel.pop_due(60), Some(Due { tick: 60, id: 'c' }));
}

#[test]
fn a_wheel_shows_where_it_stands() {
    let mut wheel = Wheel::starting_at(3);
    wheel.insert(70, 'a');
    assert_eq!(format!("{wheel:?}"), "Wheel { now: 3, next_due: Some(70), len: 1, .. }");
    assert_eq!(StaleKey.to_string(), "this entry is in the wheel no more; file it anew");
}
