//! What is in the buckets of a wheel: lists of chunks, each with room for some items.
//!
//! A list of single items would do. But to sort a bucket down is to walk along its list, and each step
//! would wait for memory: the next item is found only when this one has come. A chunk has seven in two
//! cache lines.

use super::buckets::Bucket;
use crate::prefetch::prefetch;

/// Where a list ends.
pub(super) const NONE: u32 = u32::MAX;

/// Items of a chunk, and the bits of a position that say which.
const ROOM: usize = 7;
const PLACE_BITS: u32 = 3;
/// More cannot be told apart by a position.
const CHUNKS_MAX: u32 = 1 << (u32::BITS - PLACE_BITS);

const _: () = assert!(ROOM <= 1 << PLACE_BITS);

/// An entry in its bucket.
#[derive(Clone, Copy)]
pub(super) struct Item<T> {
    /// When it is due.
    pub(super) tick: u64,
    /// Its seat; [`NONE`] if it was taken out.
    pub(super) seat: u32,
    pub(super) id: T,
}

#[derive(Clone, Copy)]
struct Chunk<T> {
    items: [Item<T>; ROOM],
    previous: u32,
    /// The one behind it; of a free chunk, the next free one.
    next: u32,
    /// How many places were used: the items from here on are of an earlier life.
    used: u8,
    /// Whatever is before this place was taken out.
    first: u8,
    /// Items that are there.
    live: u8,
}

impl<T> Chunk<T> {
    fn used(&self) -> &[Item<T>] {
        &self.items[usize::from(self.first)..usize::from(self.used).min(ROOM)]
    }
}

/// The chunks of all buckets.
#[derive(Clone)]
pub(super) struct Chunks<T> {
    chunks: Vec<Chunk<T>>,
    /// The first free chunk.
    free: u32,
}

impl<T: Copy> Chunks<T> {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE }
    }

    /// The item at a position.
    #[inline]
    pub(super) fn at(&mut self, position: u32) -> &mut Item<T> {
        let (chunk, place) = split(position);
        &mut self.chunks[chunk as usize].items[place]
    }

    /// Puts an item behind all others of a bucket, and returns its position.
    ///
    /// # Panics
    ///
    /// If there are 2^29 chunks.
    #[inline]
    pub(super) fn append(&mut self, bucket: &mut Bucket, item: Item<T>) -> u32 {
        let tail = bucket.tail;
        if let Some(chunk) = self.chunks.get_mut(tail as usize)
            && let Some(place) = chunk.items.get_mut(usize::from(chunk.used))
        {
            *place = item;
            let position = join(tail, chunk.used);
            chunk.used += 1;
            chunk.live += 1;
            return position;
        }
        let index = self.chunk_with(item, tail);
        match tail {
            NONE => bucket.head = index,
            _ => self.chunks[tail as usize].next = index,
        }
        bucket.tail = index;
        join(index, 0)
    }

    /// Takes an item out of its bucket.
    #[inline]
    pub(super) fn take(&mut self, bucket: &mut Bucket, position: u32) -> Item<T> {
        let (index, place) = split(position);
        let chunk = &mut self.chunks[index as usize];
        let item = chunk.items[place];
        chunk.items[place].seat = NONE;
        chunk.live -= 1;
        if chunk.live == 0 {
            self.unlink(bucket, index);
            self.free_chunk(index);
        }
        item
    }

    /// Takes out the first item of a bucket that has some.
    #[inline]
    pub(super) fn take_first(&mut self, bucket: &mut Bucket) -> Item<T> {
        let chunk = &mut self.chunks[bucket.head as usize];
        while chunk.items[usize::from(chunk.first)].seat == NONE {
            chunk.first += 1;
        }
        let position = join(bucket.head, chunk.first);
        self.take(bucket, position)
    }

    /// Takes the first chunk out of a list that is no bucket's any more, and returns it with what is the
    /// head then.
    #[inline]
    pub(super) fn take_head(&mut self, head: u32) -> (TakenChunk<T>, u32) {
        let chunk = self.chunks[head as usize];
        if let Some(next) = self.chunks.get(chunk.next as usize) {
            prefetch(next);
        }
        self.free_chunk(head);
        (TakenChunk(chunk), chunk.next)
    }

    /// A chunk with one item, behind another.
    fn chunk_with(&mut self, item: Item<T>, previous: u32) -> u32 {
        let index = self.free;
        if let Some(chunk) = self.chunks.get_mut(index as usize) {
            self.free = chunk.next;
            chunk.items[0] = item;
            (chunk.previous, chunk.next) = (previous, NONE);
            (chunk.used, chunk.first, chunk.live) = (1, 0, 1);
            return index;
        }
        let index = u32::try_from(self.chunks.len()).unwrap_or(NONE);
        assert!(index < CHUNKS_MAX, "a wheel has at most 2^29 chunks");
        let items = [item; ROOM];
        self.chunks.push(Chunk { items, previous, next: NONE, used: 1, first: 0, live: 1 });
        index
    }

    #[inline]
    fn free_chunk(&mut self, index: u32) {
        self.chunks[index as usize].next = self.free;
        self.free = index;
    }

    #[inline]
    fn unlink(&mut self, bucket: &mut Bucket, index: u32) {
        let Chunk { previous, next, .. } = self.chunks[index as usize];
        match previous {
            NONE => bucket.head = next,
            _ => self.chunks[previous as usize].next = next,
        }
        match next {
            NONE => bucket.tail = previous,
            _ => self.chunks[next as usize].previous = previous,
        }
    }
}

/// A chunk that is in no list any more.
pub(super) struct TakenChunk<T>(Chunk<T>);

impl<T: Copy> TakenChunk<T> {
    /// Its items, in their order.
    #[inline]
    pub(super) fn items(&self) -> impl Iterator<Item = Item<T>> {
        self.0.used().iter().copied().filter(|item| item.seat != NONE)
    }
}

#[inline]
const fn join(chunk: u32, place: u8) -> u32 {
    chunk << PLACE_BITS | place as u32
}

#[inline]
const fn split(position: u32) -> (u32, usize) {
    (position >> PLACE_BITS, (position % (1 << PLACE_BITS)) as usize)
}
