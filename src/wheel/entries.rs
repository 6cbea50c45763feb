//! The entries of a wheel: a slab whose slots are links of doubly linked lists.

use super::{Key, StaleKey};

/// Where a list ends.
pub(super) const NONE: u32 = u32::MAX;

/// An entry, or a free slot: an entry's generation is odd, a free slot's even.
#[derive(Clone)]
pub(super) struct Entry<T> {
    /// When it is due.
    pub(super) tick: u64,
    /// The one behind it in its bucket; of a free slot, the next free one.
    pub(super) next: u32,
    pub(super) previous: u32,
    generation: u32,
    pub(super) id: T,
}

/// All entries, in whatever bucket they are.
#[derive(Clone)]
pub(super) struct Entries<T> {
    slots: Vec<Entry<T>>,
    /// The first free slot.
    free: u32,
    pub(super) len: usize,
}

impl<T: Copy> Entries<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, len: 0 }
    }

    /// Puts an entry into a slot. It is in no list yet.
    ///
    /// # Panics
    ///
    /// If there are as many slots as links can name.
    #[inline]
    pub(super) fn put(&mut self, tick: u64, id: T) -> Key {
        self.len += 1;
        let index = self.free;
        if index == NONE {
            return self.put_in_new_slot(tick, id);
        }
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        let generation = slot.generation + 1;
        *slot = Entry { tick, next: NONE, previous: NONE, generation, id };
        Key { index, generation }
    }

    fn put_in_new_slot(&mut self, tick: u64, id: T) -> Key {
        let index = u32::try_from(self.slots.len()).unwrap_or(NONE);
        assert!(index != NONE, "a wheel has room for 2^32 - 1 entries");
        self.slots.push(Entry { tick, next: NONE, previous: NONE, generation: 1, id });
        Key { index, generation: 1 }
    }

    /// Frees the slot of an entry that is in no list any more. A slot that has used up its
    /// generations is left alone for ever, so that no key of it comes back.
    #[inline]
    pub(super) fn free(&mut self, index: u32) -> T {
        let slot = &mut self.slots[index as usize];
        // The last generation is odd, so this one is at most the last even one, or the end.
        slot.generation = slot.generation.wrapping_add(1);
        if slot.generation != 0 {
            slot.next = self.free;
            self.free = index;
        }
        self.len -= 1;
        slot.id
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Result<u32, StaleKey> {
        match self.slots.get(key.index as usize) {
            Some(slot) if slot.generation == key.generation => Ok(key.index),
            _ => Err(StaleKey),
        }
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.slots[index as usize]
    }

    #[inline]
    pub(super) fn tick(&self, index: u32) -> u64 {
        self.slots[index as usize].tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_12_a_slot_at_its_last_generation_is_used_no_more() {
        let mut entries = Entries::new();
        let first = entries.put(0, 'a');
        entries.at(first.index).generation = u32::MAX;
        let last = Key { index: first.index, generation: u32::MAX };
        assert_eq!(entries.find(last), Ok(first.index));
        entries.free(first.index);
        assert_eq!(entries.find(last), Err(StaleKey));
        let next = entries.put(0, 'b');
        assert_ne!(next.index, first.index);
        assert_eq!(entries.find(first), Err(StaleKey));
        assert_eq!(entries.len, 1);
    }

    #[test]
    fn freed_slots_are_used_again() {
        let mut entries = Entries::new();
        for round in 0..10_u32 {
            let keys = [0, 1, 2].map(|id| entries.put(0, id));
            keys.iter().for_each(|key| assert_eq!(key.generation, 2 * round + 1));
            keys.iter().for_each(|key| _ = entries.free(key.index));
        }
        assert_eq!((entries.slots.len(), entries.len), (3, 0));
    }
}
