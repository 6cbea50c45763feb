//! The seats of a wheel's entries: where each is, by its key.

use super::{Key, StaleKey};

const NONE: u32 = u32::MAX;

/// One entry's seat, or a free one: the generation is odd while it is taken.
#[derive(Clone, Copy)]
struct Seat {
    generation: u32,
    /// Where the entry is; of a free seat, the next free one.
    position: u32,
}

/// All seats. A free one is used again, under a new generation.
#[derive(Clone)]
pub(super) struct Seats {
    seats: Vec<Seat>,
    /// The first free seat.
    free: u32,
    pub(super) taken: usize,
}

impl Seats {
    pub(super) const fn new() -> Self {
        Self { seats: Vec::new(), free: NONE, taken: 0 }
    }

    /// Gives an entry a seat. Where it is has yet to be said, by [`move_to`](Self::move_to).
    ///
    /// # Panics
    ///
    /// If there are 2^32 − 1 seats.
    #[inline]
    pub(super) fn take(&mut self) -> Key {
        let index = self.free;
        let generation = if index == NONE {
            return self.take_new();
        } else {
            let seat = &mut self.seats[index as usize];
            self.free = seat.position;
            seat.generation += 1;
            seat.generation
        };
        self.taken += 1;
        Key { seat: index, generation }
    }

    fn take_new(&mut self) -> Key {
        let seat = u32::try_from(self.seats.len()).unwrap_or(NONE);
        assert!(seat != NONE, "a wheel has at most 2^32 - 1 seats");
        self.seats.push(Seat { generation: 1, position: 0 });
        self.taken += 1;
        Key { seat, generation: 1 }
    }

    /// Frees a seat that is taken. One that has used up its generations is left alone for ever, so
    /// that no key of it comes back.
    #[inline]
    pub(super) fn free(&mut self, index: u32) {
        let seat = &mut self.seats[index as usize];
        // The last generation is odd, and a key's; what comes behind it, 0, is none's.
        seat.generation = seat.generation.wrapping_add(1);
        if seat.generation != 0 {
            seat.position = self.free;
            self.free = index;
        }
        self.taken -= 1;
    }

    /// Says where an entry is.
    #[inline]
    pub(super) fn move_to(&mut self, index: u32, position: u32) {
        self.seats[index as usize].position = position;
    }

    /// Where an entry is.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Result<u32, StaleKey> {
        match self.seats.get(key.seat as usize) {
            Some(seat) if seat.generation == key.generation => Ok(seat.position),
            _ => Err(StaleKey),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_12_a_seat_at_its_last_generation_is_used_no_more() {
        let mut seats = Seats::new();
        let first = seats.take();
        seats.move_to(first.seat, 77);
        seats.seats[first.seat as usize].generation = u32::MAX;
        let last = Key { generation: u32::MAX, ..first };
        assert_eq!(seats.find(last), Ok(77));
        seats.free(first.seat);
        assert_eq!(seats.find(last), Err(StaleKey));
        assert_ne!(seats.take().seat, first.seat);
        assert_eq!(seats.find(first), Err(StaleKey));
        assert_eq!(seats.taken, 1);
    }

    #[test]
    fn free_seats_are_used_again() {
        let mut seats = Seats::new();
        for round in 0..10 {
            let keys = [0, 1, 2].map(|_| seats.take());
            keys.iter().for_each(|key| assert_eq!(key.generation, 2 * round + 1));
            keys.iter().for_each(|key| seats.free(key.seat));
        }
        assert_eq!((seats.seats.len(), seats.taken), (3, 0));
    }
}
