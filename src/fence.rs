//! What the protected thing does with a token: refuse one that is older than the newest it has seen.

use core::fmt;

use crate::Token;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The highest token that was admitted: a check for the thing that a lease protects.
///
/// # What is not promised
///
/// - **Check and write are two steps.** A holder that was admitted and then paused can write after
///   a newer one did. Where the write cannot be made part of the check, the fence narrows the gap and
///   does not close it. For a value in memory, [`Fenced`] closes it; for a database, compare the token
///   in the same transaction or statement as the write.
/// - **Nothing is remembered.** A fence made anew admits any token. After a restart, first admit the
///   highest token that was stored with the data.
/// - **One fence, one resource.** Tokens of different resources are not comparable.
/// - **Nothing else is ordered** but this: who reads a token that an admission raised the mark to sees
///   what that thread did before that admission. What it writes *after* needs a synchronisation of
///   its own.
///
/// # Example
///
/// ```
/// use leasehold::{Fence, Token};
///
/// static DISK: Fence = Fence::new();
///
/// let (old, new) = (Token::new(7).unwrap(), Token::new(8).unwrap());
/// assert!(DISK.admit(old).is_ok());
/// assert!(DISK.admit(old).is_ok()); // The same grant, as often as it likes.
/// assert!(DISK.admit(new).is_ok());
///
/// let stale = DISK.admit(old).unwrap_err();
/// assert_eq!((stale.offered, stale.highest), (old, new));
/// ```
#[derive(Default)]
pub struct Fence {
    /// The highest token admitted, or 0, which no token is.
    highest: AtomicU64,
}

impl Fence {
    /// A fence that has admitted nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Fence;
    ///
    /// static DISK: Fence = Fence::new();
    /// assert_eq!(DISK.highest(), None);
    /// ```
    #[cfg(not(any(leasehold_loom, leasehold_shuttle)))]
    #[must_use]
    pub const fn new() -> Self {
        Self { highest: AtomicU64::new(0) }
    }

    /// A fence that has admitted nothing.
    #[cfg(any(leasehold_loom, leasehold_shuttle))]
    #[must_use]
    pub fn new() -> Self {
        Self { highest: AtomicU64::new(0) }
    }

    /// Admits a token that is not older than the highest so far, which it then is.
    ///
    /// Lock-free. Admitting the highest token again stores nothing.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token was admitted before: the caller's lease is over. It must not
    /// do what it was about to do.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Fence, Token};
    ///
    /// let fence = Fence::new();
    /// fence.admit(Token::new(2).unwrap())?;
    /// assert!(fence.admit(Token::new(1).unwrap()).is_err());
    /// # Ok::<(), leasehold::StaleToken>(())
    /// ```
    #[inline]
    pub fn admit(&self, token: Token) -> Result<(), StaleToken> {
        // Acquire: pairs with the Release of the admission that raised the mark to what is read.
        let mut highest = self.highest.load(Ordering::Acquire);
        if highest < token.get() {
            // AcqRel: Acquire as above; Release hands what this thread did so far to whoever reads
            // the new mark. The maximum is taken in one step, so that no higher token is undone.
            highest = self.highest.fetch_max(token.get(), Ordering::AcqRel);
        }
        match Token::new(highest) {
            Some(highest) if highest > token => Err(StaleToken { offered: token, highest }),
            _ => Ok(()),
        }
    }

    /// The highest token admitted, or `None` if none was. Another may be admitted meanwhile.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Fence, Token};
    ///
    /// let fence = Fence::new();
    /// assert_eq!(fence.highest(), None);
    /// let token = Token::new(2).unwrap();
    /// fence.admit(token)?;
    /// assert_eq!(fence.highest(), Some(token));
    /// # Ok::<(), leasehold::StaleToken>(())
    /// ```
    #[must_use]
    pub fn highest(&self) -> Option<Token> {
        // Acquire: as in `admit`.
        Token::new(self.highest.load(Ordering::Acquire))
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("highest", &self.highest()).finish()
    }
}

/// A value that only the newest grant can write: the token is checked and the value is written under
/// one lock.
///
/// # What is not promised
///
/// - **That the writer's lease is live.** A holder whose lease lapsed writes on until a newer token
///   arrives here. Nobody else has then relied on the value being its own.
/// - **Freedom from locks.** A thread suspended inside its closure holds up every other call. Compute
///   before, and only store inside.
/// - **Undoing.** A closure that panics leaves the value as it was at that moment, its token admitted
///   and the lock free. Nothing is marked as poisoned: the next writer finds what there is.
/// - **Re-entry.** A closure that uses the same `Fenced` deadlocks.
///
/// # Example
///
/// ```
/// use leasehold::{Fenced, Token};
///
/// let balance = Fenced::new(100);
/// let (old, new) = (Token::new(7).unwrap(), Token::new(8).unwrap());
///
/// balance.write(old, |b| *b -= 30)?;
/// balance.write(new, |b| *b -= 20)?;
/// // The first holder was paused, lost its lease, and goes on as if nothing had happened.
/// assert!(balance.write(old, |b| *b -= 30).is_err());
/// assert_eq!(balance.read(|b| *b), 50);
/// # Ok::<(), leasehold::StaleToken>(())
/// ```
pub struct Fenced<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    highest: Option<Token>,
    value: T,
}

impl<T> Fenced<T> {
    /// A value that any token may write first.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Fenced;
    ///
    /// static LEADER: Fenced<Option<u64>> = Fenced::new(None);
    /// assert_eq!(LEADER.read(|leader| *leader), None);
    /// ```
    pub const fn new(value: T) -> Self {
        Self { inner: Mutex::new(Inner { highest: None, value }) }
    }

    /// Calls `write` with the value, unless a token higher than `token` was here before.
    ///
    /// A panic of `write` is passed on; `token` stays admitted, and the value is as `write` left it.
    ///
    /// # Errors
    ///
    /// [`StaleToken`] if a higher token wrote before: the caller's lease is over. `write` was not
    /// called.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Fenced, Token};
    ///
    /// let log = Fenced::new(Vec::new());
    /// let length = log.write(Token::new(1).unwrap(), |log| {
    ///     log.push("started");
    ///     log.len()
    /// })?;
    /// assert_eq!(length, 1);
    /// # Ok::<(), leasehold::StaleToken>(())
    /// ```
    pub fn write<R>(&self, token: Token, write: impl FnOnce(&mut T) -> R) -> Result<R, StaleToken> {
        let mut inner = self.inner.lock();
        match inner.highest {
            Some(highest) if highest > token => Err(StaleToken { offered: token, highest }),
            _ => {
                inner.highest = Some(token);
                Ok(write(&mut inner.value))
            }
        }
    }

    /// Calls `read` with the value. Anyone may read; a reader that decides by what it read must say so
    /// in its own [`write`](Self::write).
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::Fenced;
    ///
    /// let value = Fenced::new(String::from("old"));
    /// assert_eq!(value.read(|text| text.len()), 3);
    /// ```
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.inner.lock().value)
    }

    /// The highest token that wrote, or `None` if none did. Another may write meanwhile.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Fenced, Token};
    ///
    /// let value = Fenced::new(0);
    /// value.write(Token::new(4).unwrap(), |v| *v = 1)?;
    /// assert_eq!(value.highest(), Token::new(4));
    /// # Ok::<(), leasehold::StaleToken>(())
    /// ```
    #[must_use]
    pub fn highest(&self) -> Option<Token> {
        self.inner.lock().highest
    }

    /// The value, without the fence.
    ///
    /// # Example
    ///
    /// ```
    /// use leasehold::{Fenced, Token};
    ///
    /// let value = Fenced::new(0);
    /// value.write(Token::new(4).unwrap(), |v| *v = 1)?;
    /// assert_eq!(value.into_inner(), 1);
    /// # Ok::<(), leasehold::StaleToken>(())
    /// ```
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner.into_inner().value
    }

    /// The value, without a token or a lock: nobody else has access to it.
    ///
    /// # Example
    ///
    /// ```
    /// let mut value = leasehold::Fenced::new(1);
    /// *value.get_mut() += 1;
    /// assert_eq!(value.into_inner(), 2);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner.get_mut().value
    }
}

impl<T: Default> Default for Fenced<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Fenced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Fenced");
        match self.inner.try_lock() {
            Some(inner) => {
                out.field("highest", &inner.highest).field("value", &inner.value).finish()
            }
            // Waiting could deadlock: the closure of a write may print.
            None => out.finish_non_exhaustive(),
        }
    }
}

/// A higher token came before: the lease of the one offered is over.
///
/// # Example
///
/// ```
/// use leasehold::{Fence, StaleToken, Token};
///
/// let fence = Fence::new();
/// fence.admit(Token::new(2).unwrap())?;
/// let stale = fence.admit(Token::new(1).unwrap()).unwrap_err();
/// assert_eq!((stale.offered.get(), stale.highest.get()), (1, 2));
/// # Ok::<(), StaleToken>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaleToken {
    /// The token that was refused.
    pub offered: Token,
    /// The highest token admitted so far.
    pub highest: Token,
}

impl fmt::Display for StaleToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, highest } = self;
        write!(f, "token {offered} is stale, {highest} was admitted: stop, the lease is over")
    }
}

impl core::error::Error for StaleToken {}

#[cfg(all(test, not(any(leasehold_loom, leasehold_shuttle))))]
mod tests;
