//! Histories of real threads: what was asked of a lease table, what it answered, and whether that
//! can be true.
//!
//! A stress test that only counts how often two threads met in a critical section sees a broken
//! table when it is lucky. A history sees more: every answer is written down with when it can have
//! come about, and a [`Checker`] then looks for answers that contradict each other.
//!
//! # What is not promised
//!
//! - **Sound, not complete.** A [`Violation`] is a proof, given the premises below. A [`Summary`]
//!   is not: it says that no rule below found a contradiction in what this run happened to do.
//! - **A long call says little.** A rule may use only what holds wherever in its span a call took
//!   effect. Record the calls that do not wait, or keep waits short beside the terms.
//! - **Recording orders the threads.** The end of each call is a read-modify-write of one shared
//!   counter, so a history cannot witness a memory ordering that is too weak. Models are for that.
//!
//! # Premises
//!
//! 1. *Complete.* Every grant of a resource is in the history, and everything that may have ended
//!    one: a guard that is dropped is a release ([`Outcome::Dropped`]), a guard that is forgotten
//!    is nothing. Where a grant can get lost on its way, as to a future that is dropped, nobody can
//!    record it: then leave it out of refusals, too ([`Outcome::Refused`] `{ by: None }`).
//! 2. *In the call.* An operation takes effect at one instant between its [`began`](Event::began)
//!    and its [`returned`](Event::returned), and goes by one reading of the clock between its
//!    [`before`](Event::before) and its [`after`](Event::after).
//! 3. *One clock.* The recorder reads the clock that the table goes by, and no thread sees it step
//!    back. A reading is compared with deadlines only, never with a reading of another thread, so
//!    skew between cores is as harmless to the checker as it is to the table. Where the table
//!    counts in coarser ticks than its clock, or the reading of a counter may move a little among
//!    the instructions around it, allow for it with [`Checker::slack`].
//!
//! # When
//!
//! Two scales, for two questions:
//!
//! | question | answered by |
//! |---|---|
//! | which of two calls came first? | their place in the order of returns: one counter |
//! | was a call before or after a deadline? | ticks of the table's clock |
//!
//! Ticks are too coarse for the first: dozens of calls share one. An
//! [`Instant`](std::time::Instant) is finer, but each core reads its own, and a skew of a few
//! nanoseconds would claim an order of two calls that overlapped, hence a violation where there is
//! none. A counter cannot. A call that returns takes the next number, by a read-modify-write that
//! releases; a call that begins notes, by a load that acquires, how many have returned. So
//! [`Event::precedes`] implies "happens before", by which a linearizable object (Herlihy and Wing,
//! 1990) must abide. A load that is a little stale makes fewer pairs ordered, never a wrong one.
//!
//! # Rules
//!
//! A grant at reading *g* for *t* ticks has the deadline *D = g + t*; a renewal at reading *r* for
//! *t* ticks raises it to *r + t* if that is more. The lease is valid iff *now < D*, reclaimable
//! iff *now > D*. A revocation with grace, at reading *v*, lowers *D* to *v + grace* if that is
//! less. Since a reading is known to its call's `before` and `after`, *D* is known to two bounds,
//! the least and the greatest. That a token is granted once makes the check cheap (Gibbons and
//! Korach, 1997): each answer names the grant that it is about, so no order of effects needs to be
//! searched for.
//!
//! For each violation: what is found, on one resource, and why no interleaving explains it.
//!
//! - [`TokenTwice`](Violation::TokenTwice): two grants with one token. Tokens are distinct.
//! - [`TokenOrder`](Violation::TokenOrder): a grant that precedes another has the larger token. Its
//!   effect came first, and tokens increase.
//! - [`Ungranted`](Violation::Ungranted): a call that found a token current, and precedes every
//!   grant of it. By premise 1 there was no such lease.
//! - [`Overlap`](Violation::Overlap): the grant with the next token is another holder's, its
//!   `after` is at most the least *D*, and no release, drop or revocation began before it returned.
//!   Its reading is at most `after`, so the lease was not reclaimable. The least *D* is `before`
//!   plus term of the grant or of any renewal: one that succeeded came before the next grant. A
//!   grant to the same holder is always in order, as it takes the place of the earlier one.
//! - [`Superseded`](Violation::Superseded): a call that found a token current is preceded by a
//!   grant with a larger one, which had ended the lease.
//! - [`EndedTwice`](Violation::EndedTwice): two successful ends of one lease, each a release or a
//!   revocation at once. The one that took effect first left nothing for the other.
//! - [`Revived`](Violation::Revived): a call that found a token current is preceded by an end of
//!   it, or by a report that it is over. An end is for good, and so is a report: whoever was told
//!   that a lease is over may rely on it. (A grantor breaks this if a renewal that read the clock
//!   in time may still succeed after somebody was told.) A release may follow a failed check or
//!   renewal, though, since a lapsed lease that nobody took can be given back; and a refusal or a
//!   revocation may follow any report, since at *now = D* a lease is neither valid nor reclaimable.
//! - [`Outlived`](Violation::Outlived): a check or renewal succeeded with its `before` at or past
//!   the greatest *D*, so that its reading was, too. The greatest *D* is `after` plus term of the
//!   grant and of every renewal with a smaller `before`. A renewal with a larger one needs one that
//!   came earlier to explain itself; at the end of that chain is one with a smaller `before`, and
//!   it explains this call as well.
//! - [`RenewedClosing`](Violation::RenewedClosing): a renewal succeeded and is preceded by a
//!   revocation with grace. A lease that is closing is not renewed.
//! - [`LostEarly`](Violation::LostEarly): a call that found the lease over has its `after` before
//!   the least *D* (of the grant and the renewals that precede the call), and nothing that may have
//!   ended the lease, newer grants included, began before the call returned. Its reading was before
//!   *D*, and only the deadline was left to end it.
//!
//! # Example
//!
//! ```
//! use leasehold::testing::history::{Checker, Outcome, Recorder, Violation};
//! use leasehold::{HolderId, Token};
//!
//! // A grantor that never refuses: it grants token 1, then token 2.
//! let recorder = Recorder::new(|| 1_000);
//! for number in [1, 2] {
//!     let mut log = recorder.log(); // in a real test, one for each thread
//!     let call = log.begin("disk", HolderId::new(number)?);
//!     let token = Token::new(number).unwrap();
//!     log.end(call, Outcome::Granted { token, term_ticks: 50 });
//! }
//!
//! let violation = Checker::new().check(&recorder.take()).unwrap_err();
//! assert!(matches!(*violation, Violation::Overlap { until: 1_050, .. }));
//! assert!(violation.to_string().starts_with("two holders at once: grant of token 1"));
//! # Ok::<(), leasehold::InvalidHolder>(())
//! ```

mod checker;
mod event;
mod recorder;
mod rules;
mod summary;
mod violation;

pub use checker::Checker;
pub use event::{Event, Outcome};
pub use recorder::{Call, Log, Recorder};
pub use summary::Summary;
pub use violation::Violation;
