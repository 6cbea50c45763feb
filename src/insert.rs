//! The word that orders a page's insertions.

/// The page's `insert` word: `[version 56 | announced slot + 1 : 7 | frozen 1]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Insert(pub(crate) u64);

impl Insert {
    const FROZEN: u64 = 1;
    const ANNOUNCED_SHIFT: u32 = 1;
    const ANNOUNCED: u64 = 0x7f << Self::ANNOUNCED_SHIFT;
    const VERSION: u64 = 1 << 8;

    pub(crate) fn is_frozen(self) -> bool {
        self.0 & Self::FROZEN != 0
    }

    pub(crate) fn announced(self) -> Option<usize> {
        let slot = (self.0 & Self::ANNOUNCED) >> Self::ANNOUNCED_SHIFT;
        (slot as usize).checked_sub(1)
    }

    pub(crate) fn announce(self, slot: usize) -> Self {
        Self(self.0 | (slot as u64 + 1) << Self::ANNOUNCED_SHIFT)
    }

    /// The version is 56 bits, and one insertion takes one: a page has at most 62 in a life.
    pub(crate) fn clear(self) -> Self {
        Self((self.0 & !Self::ANNOUNCED).wrapping_add(Self::VERSION))
    }

    pub(crate) fn freeze(self) -> Self {
        Self(self.0 | Self::FROZEN)
    }
}
