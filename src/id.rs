//! The names of things: who holds ([`HolderId`]), which grant ([`Token`]), which table ([`TableId`]).

use core::fmt;
use core::num::NonZeroU64;

use crate::sync::process;

/// Who holds a lease: a non-zero integer below 2^46.
///
/// The table compares holders by this number and nothing else: two parties that use one number are
/// one holder. Make one from an integer of your own ([`HolderId::new`]: a worker's index, an actor's
/// address) or have one minted ([`HolderId::mint`]). Minted ids are 2^45 and up, so an integer of
/// your own below that never meets one.
///
/// # Example
///
/// ```
/// use leasehold::HolderId;
///
/// let worker = HolderId::new(7)?;
/// assert_eq!(worker.get(), 7);
/// assert_ne!(HolderId::mint(), HolderId::mint());
/// assert!(HolderId::new(0).is_err());
/// # Ok::<(), leasehold::InvalidHolder>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(NonZeroU64);

impl HolderId {
    /// How many bits an id has.
    pub(crate) const BITS: u32 = 46;
    /// The largest id: 2^46 − 1.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    ///
    /// assert!(HolderId::new(HolderId::MAX).is_ok());
    /// assert!(HolderId::new(HolderId::MAX + 1).is_err());
    /// ```
    pub const MAX: u64 = (1 << Self::BITS) - 1;
    /// The smallest id that [`mint`](Self::mint) returns: 2^45.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    ///
    /// assert!(HolderId::mint().get() >= HolderId::FIRST_MINTED);
    /// ```
    pub const FIRST_MINTED: u64 = 1 << (Self::BITS - 1);

    /// A holder with the caller's own number.
    ///
    /// # Errors
    ///
    /// [`InvalidHolder`] if `id` is 0 or above [`HolderId::MAX`].
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{HolderId, InvalidHolder};
    ///
    /// assert_eq!(HolderId::new(7)?.get(), 7);
    /// assert!(HolderId::new(0).is_err()); // 0 is nobody.
    /// # Ok::<(), InvalidHolder>(())
    /// ```
    pub const fn new(id: u64) -> Result<Self, InvalidHolder> {
        match NonZeroU64::new(id) {
            Some(id) if id.get() <= Self::MAX => Ok(Self(id)),
            _ => Err(InvalidHolder { id }),
        }
    }

    /// A holder that no other call in this process returns.
    ///
    /// # Panics
    ///
    /// When 2^45 ids were minted, which at a million a second takes a year: an id is for a worker or
    /// an actor, not for a task. A counter that wrapped would make two holders one.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    ///
    /// assert_ne!(HolderId::mint(), HolderId::mint());
    /// ```
    #[must_use]
    pub fn mint() -> Self {
        let n = process::next_holder();
        let id = Self::FIRST_MINTED.checked_add(n).and_then(|id| Self::new(id).ok());
        id.expect("2^45 holder ids were minted: mint one for each worker, not for each task")
    }

    /// The number.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::HolderId;
    ///
    /// assert_eq!(HolderId::new(7)?.get(), 7);
    /// # Ok::<(), leasehold::InvalidHolder>(())
    /// ```
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The holder with a number that was unpacked from a word; 0 is nobody.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        match Self::new(bits) {
            Ok(holder) => Some(holder),
            Err(_) => None,
        }
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HolderId({})", self.get())
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl TryFrom<u64> for HolderId {
    type Error = InvalidHolder;

    fn try_from(id: u64) -> Result<Self, InvalidHolder> {
        Self::new(id)
    }
}

/// The integer is not a holder's id.
///
/// # Example
///
/// ```
/// use leasehold::HolderId;
///
/// let error = HolderId::new(u64::MAX).unwrap_err();
/// assert_eq!(error.id, u64::MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidHolder {
    /// What was offered.
    pub id: u64,
}

impl fmt::Display for InvalidHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not a holder id: use 1 to {}, or HolderId::mint()", self.id, HolderId::MAX)
    }
}

impl core::error::Error for InvalidHolder {}

/// A fencing token: the number of a grant, larger than that of every earlier grant of its resource.
///
/// Hand it to whatever the lease protects, and have that refuse a token older than the newest it has
/// seen ([`Fence`](crate::Fence), [`Fenced`](crate::Fenced)): a holder that was paused past its
/// deadline then does no harm. A renewal keeps the token. Tokens of different resources are not
/// comparable, and a token is never 0.
///
/// The idea is from Gray and Cheriton's leases (SOSP 1989) and Chubby's sequencers (Burrows, OSDI
/// 2006).
///
/// # Example
///
/// ```
/// use leasehold::Token;
///
/// let token = Token::new(3).unwrap();
/// assert!(token > Token::new(2).unwrap());
/// assert_eq!(Token::new(0), None);
/// assert_eq!(token.get(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    /// The token with this number, for one that was stored or sent; `None` for 0.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Token;
    ///
    /// assert_eq!(Token::new(3).map(Token::get), Some(3));
    /// assert_eq!(Token::new(0), None);
    /// ```
    #[must_use]
    pub const fn new(token: u64) -> Option<Self> {
        match NonZeroU64::new(token) {
            Some(token) => Some(Self(token)),
            None => None,
        }
    }

    /// The number.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Token;
    ///
    /// assert_eq!(Token::new(3).unwrap().get(), 3);
    /// ```
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.get())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Which table a [`Grant`](crate::Grant) is of: a number that no other table of this process has.
///
/// # Example
///
/// ```
/// use leasehold::LeaseTable;
///
/// let (one, two) = (LeaseTable::<u64>::new(), LeaseTable::<u64>::new());
/// assert_ne!(one.id(), two.id());
/// assert_eq!(one.id(), one.clone().id());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TableId(NonZeroU64);

impl TableId {
    pub(crate) fn mint() -> Self {
        let id = NonZeroU64::MIN.saturating_add(process::next_table());
        Self(id)
    }

    /// The number.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::LeaseTable;
    ///
    /// assert!(LeaseTable::<u64>::new().id().get() > 0);
    /// ```
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableId({})", self.get())
    }
}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_within_its_bits() {
        assert_eq!(HolderId::new(0), Err(InvalidHolder { id: 0 }));
        assert_eq!(HolderId::new(1).unwrap().get(), 1);
        assert_eq!(HolderId::new(HolderId::MAX).unwrap().get(), HolderId::MAX);
        let beyond = HolderId::MAX + 1;
        assert_eq!(HolderId::new(beyond), Err(InvalidHolder { id: beyond }));
        assert_eq!(HolderId::new(u64::MAX), Err(InvalidHolder { id: u64::MAX }));
        assert_eq!(HolderId::from_bits(0), None);
    }

    #[test]
    fn minted_ids_differ_and_start_high() {
        let (a, b) = (HolderId::mint(), HolderId::mint());
        assert_ne!(a, b);
        assert!(a.get() >= HolderId::FIRST_MINTED);
    }

    #[test]
    fn tables_differ() {
        assert_ne!(TableId::mint(), TableId::mint());
    }
}
