//! The packing and the rules, without a table.
//!
//! - 13: extremes go through the packing unchanged, and no free slot reads as a lease.
//! - 5, 7, 10: every rule, against a second model that is written plainly, over a small domain that is
//!   gone through completely, and near the ends of the large one.
//! - No value of a word comes back: each transition moves it forward in one order.

use super::*;

const STATES: [State; 6] =
    [State::Free, State::Claimed, State::Vacant, State::Held, State::Closing, State::Expired];
const CAUSES: [Cause; 4] = [Cause::Released, Cause::Lapsed, Cause::Revoked, Cause::Superseded];

/// Ticks at which something could break: small ones, and the last ones.
fn ticks() -> impl Iterator<Item = u64> + Clone {
    let top = TICK_MAX - TICK_SLACK;
    (0..=6).chain([1 << 20, 1 << 41]).chain(top - 2..=top)
}

fn stamps() -> impl Iterator<Item = u64> + Clone {
    [0, 1, 2, STAMP_MAX - 2, STAMP_MAX - 1, STAMP_MAX].into_iter()
}

/// Every word of the domain.
fn words() -> impl Iterator<Item = Word> {
    STATES.into_iter().flat_map(|state| {
        stamps().flat_map(move |stamp| {
            ticks().flat_map(move |tick| {
                let word = Word::new(tick, stamp, state);
                [word, word.frozen()]
            })
        })
    })
}

fn leased() -> impl Iterator<Item = Word> {
    words().filter(|word| matches!(word.state(), State::Held | State::Closing | State::Expired))
}

#[test]
fn inv_13_extremes_round_trip() {
    for state in STATES {
        for stamp in [0, 1, STAMP_MAX] {
            for tick in [0, 1, 1 << 41, TICK_MAX - 1, TICK_MAX] {
                let word = Word::new(tick, stamp, state);
                for word in [word, word.frozen().thawed(), Word::from_bits(word.bits())] {
                    assert_eq!((word.tick(), word.stamp(), word.state()), (tick, stamp, state));
                    assert!(!word.is_frozen());
                }
                let frozen = word.frozen();
                assert!(frozen.is_frozen() && frozen != word);
                assert_eq!((frozen.tick(), frozen.stamp(), frozen.state()), (tick, stamp, state));
            }
        }
    }
}

/// What is said of a waited word: the same as if nobody waited, but that it is not simply granted, nor simply
/// held.
#[test]
fn inv_13_the_waited_bit_changes_nothing_else() {
    for word in words() {
        let waited = word.waited();
        assert!(waited.is_waited() && !word.is_waited() && waited.unwaited() == word);
        let parts = |word: Word| (word.tick(), word.stamp(), word.state(), word.is_frozen());
        assert_eq!(parts(waited), parts(word));
        assert_eq!((waited.is_dead(), waited.is_never()), (word.is_dead(), word.is_never()));
        assert_eq!(waited.frozen().thawed(), word.thawed().waited());
        assert_eq!(waited.grant_vacant(TICK_MAX - TICK_SLACK), None);
        for now in ticks() {
            assert_eq!(waited.is_valid(now), word.is_valid(now));
            assert_eq!(waited.is_reclaimable(now), word.is_reclaimable(now));
            assert!(!waited.is_held_at(now));
            let asked = waited.acquire(now, now + 1, true, false);
            assert!(matches!(asked, Acquire::Waited | Acquire::Frozen));
            // Whoever renews, closes or expires it keeps the bit.
            match (waited.renew(word.stamp(), now, now + 1), word.renew(word.stamp(), now, now + 1))
            {
                (Renew::To(a), Renew::To(b)) | (Renew::Expire(a), Renew::Expire(b)) => {
                    assert_eq!(a, b.waited());
                }
                (a, b) => assert_eq!(a, b),
            }
            if word.is_valid(now) && !word.is_frozen() {
                assert_eq!(waited.close(now), word.close(now).waited());
            }
        }
    }
}

#[test]
fn inv_13_different_words_have_different_bits() {
    let bits: std::collections::HashSet<u64> = words().map(Word::bits).collect();
    assert_eq!(bits.len(), words().count());
}

#[test]
fn inv_13_tokens_holders_and_identities_round_trip() {
    for stamp in [0, 1, STAMP_MASK, (1 << STAMP_BITS) - 1] {
        for incarnation in [1, 2, INCARNATION_MAX - 1, INCARNATION_MAX] {
            assert_eq!(token_parts(token_bits(incarnation, stamp)), (incarnation, stamp));
            assert_ne!(token_bits(incarnation, stamp), 0);
        }
        for holder in [0, 1, (1 << 46) - 1] {
            assert_eq!(holder_parts(holder_bits(stamp, holder)), (stamp, holder));
        }
    }
    for tag in [0, 1, (1 << 18) - 1] {
        for incarnation in [1, INCARNATION_MAX] {
            let identity = identity_bits(tag, incarnation);
            assert_eq!(identity_incarnation(identity), incarnation);
            assert_eq!(identity >> INCARNATION_BITS, tag);
        }
    }
}

/// Tokens rise with the stamp, and with the incarnation over any stamp.
#[test]
fn inv_02_tokens_are_ordered_by_incarnation_then_stamp() {
    let mut tokens = Vec::new();
    for incarnation in [1, 2, 1 << 20, INCARNATION_MAX - 1, INCARNATION_MAX] {
        tokens.extend([0, 1, STAMP_MAX].map(|stamp| token_bits(incarnation, stamp)));
    }
    assert!(tokens.is_sorted_by(|a, b| a < b));
}

#[test]
fn inv_13_nothing_free_reads_as_a_lease() {
    for word in words() {
        let lease = matches!(word.state(), State::Held | State::Closing | State::Expired);
        assert_eq!(word.is_leased(), lease);
        assert_eq!(word.is_published(), lease || word.state() == State::Vacant);
        for now in ticks() {
            assert!(lease || !word.is_valid(now) && !word.is_reclaimable(now));
        }
        let never = word.state() == State::Free && word.stamp() == 0;
        assert_eq!(word.is_never(), never);
        assert_eq!(word.is_dead(), word.state() == State::Vacant && word.stamp() == STAMP_MAX);
    }
    for tick in ticks() {
        let never = Word::never(tick);
        assert!(never.is_never() && !never.is_published() && !never.is_frozen());
        assert_eq!(never.tick(), tick);
    }
}

#[test]
fn inv_05_the_boundary_is_the_same_in_every_rule() {
    for word in leased().filter(|word| !word.is_frozen() && word.stamp() < STAMP_MAX) {
        for now in ticks() {
            let (before, after) = (now < word.tick(), now > word.tick());
            assert_eq!(word.is_valid(now), before && word.state() != State::Expired);
            assert_eq!(word.is_reclaimable(now), after);
            let taken = matches!(
                word.acquire(now, now + 1, true, false),
                Acquire::Grant { ended: Some(Cause::Lapsed), .. }
            );
            assert_eq!(taken, after);
            let over =
                matches!(word.renew(word.stamp(), now, now + 1), Renew::Expire(_) | Renew::Expired);
            assert_eq!(over, !before || word.state() == State::Expired);
        }
    }
}

/// What an acquirer finds, said again in another way: who stands in the way, is that over, and can the
/// slot be granted once more?
fn plain_acquire(word: Word, (now, deadline): (u64, u64), told: bool, same: bool) -> Acquire {
    let over = now > word.tick();
    let ended = match (word.is_frozen(), word.state()) {
        (true, _) => return Acquire::Frozen,
        (_, State::Vacant) if word.stamp() == STAMP_MAX => return Acquire::Dead,
        (_, State::Vacant) => None,
        _ if over => Some(Cause::Lapsed),
        (_, State::Held) if same => Some(Cause::Superseded),
        _ => return Acquire::Refused,
    };
    if told && word.stamp() < STAMP_MAX {
        let next = Word::new(deadline, word.stamp() + 1, State::Held);
        return Acquire::Grant { next, ended };
    }
    let (since, cause) = match ended {
        Some(cause) if over => (word.tick(), cause),
        Some(cause) => (now, cause),
        None => (word.tick(), word.cause()),
    };
    let next = Word::new(since / 4 * 4 + cause as u64, STAMP_MAX, State::Vacant);
    Acquire::Bury { next, ended }
}

fn plain_renew(word: Word, stamp: u64, now: u64, deadline: u64) -> Renew {
    let (mine, over) = (word.stamp() == stamp, word.tick() <= now);
    match (word.is_frozen(), mine, word.state()) {
        (true, ..) => Renew::Frozen,
        (_, false, _) | (.., State::Free | State::Claimed | State::Vacant) => Renew::Lost,
        (.., State::Expired) => Renew::Expired,
        (.., State::Held | State::Closing) if over => {
            Renew::Expire(Word::new(word.tick(), stamp, State::Expired))
        }
        (.., State::Closing) => Renew::Closing,
        (.., State::Held) if word.tick() < deadline => {
            Renew::To(Word::new(deadline, stamp, State::Held))
        }
        (.., State::Held) => Renew::Unchanged,
    }
}

#[test]
fn acquiring_agrees_with_the_plain_model() {
    for word in words().filter(|word| word.is_published()) {
        for now in ticks() {
            for deadline in ticks().filter(|&deadline| deadline > now) {
                for (told, same) in [(false, false), (true, false), (true, true)] {
                    let expected = plain_acquire(word, (now, deadline), told, same);
                    let found = word.acquire(now, deadline, told, same);
                    assert_eq!(found, expected, "{word:?} at {now} until {deadline}");
                }
            }
        }
    }
}

/// The short way to the commonest transition is the same as the long one.
#[test]
fn granting_what_is_vacant_agrees_with_acquiring() {
    for word in words() {
        for deadline in ticks().filter(|&deadline| deadline > 0) {
            let granted = word.grant_vacant(deadline);
            let vacant = word.state() == State::Vacant;
            let expected = match word.acquire(deadline - 1, deadline, true, false) {
                Acquire::Grant { next, ended: None } if vacant => Some(next),
                _ => None,
            };
            assert_eq!(granted, expected, "{word:?} until {deadline}");
        }
    }
}

#[test]
fn renewing_agrees_with_the_plain_model() {
    for word in words() {
        for stamp in stamps() {
            for now in ticks() {
                for deadline in ticks() {
                    let expected = plain_renew(word, stamp, now, deadline);
                    let found = word.renew(stamp, now, deadline);
                    assert_eq!(found, expected, "{word:?} by {stamp} at {now} until {deadline}");
                }
            }
        }
    }
}

#[test]
fn inv_07_a_renewal_never_lowers_the_deadline() {
    for word in words() {
        for now in ticks() {
            for deadline in ticks() {
                if let Renew::To(next) = word.renew(word.stamp(), now, deadline) {
                    assert!(next.tick() > word.tick() && next.is_valid(now));
                }
            }
        }
    }
}

#[test]
fn a_slot_is_claimed_only_when_it_can_still_be_granted() {
    for word in words() {
        for now in ticks() {
            let open = word.state() == State::Free && !word.is_frozen();
            // A claim takes a stamp, and the first grant another.
            let claimed = (open && word.stamp() + 2 <= STAMP_MAX)
                .then(|| Word::new(now / 4 * 4, word.stamp() + 1, State::Claimed));
            assert_eq!(word.claim(now), claimed);
        }
    }
}

#[test]
fn an_end_keeps_its_cause_and_a_copy_keeps_both() {
    for word in leased() {
        for cause in CAUSES {
            for since in ticks() {
                let ended = word.end(since, cause);
                if cause == Cause::Released {
                    assert_eq!(word.released(since), ended);
                }
                assert_eq!((ended.state(), ended.cause()), (State::Vacant, cause));
                assert_eq!((ended.tick() / 4, ended.stamp()), (since / 4, word.stamp()));
                assert!(!ended.is_frozen());
                for tick in ticks() {
                    let copy = ended.at_tick(tick);
                    assert_eq!((copy.cause(), copy.tick() / 4), (cause, tick / 4));
                    assert_eq!((copy.state(), copy.stamp()), (State::Vacant, word.stamp()));
                }
            }
        }
        let copy = word.thawed().at_tick(77);
        assert_eq!((copy.tick(), copy.stamp(), copy.state()), (77, word.stamp(), word.state()));
    }
}

#[test]
fn closing_never_raises_the_deadline() {
    for word in leased() {
        for until in ticks() {
            let closed = word.close(until);
            assert_eq!(closed.state(), State::Closing);
            assert_eq!((closed.tick(), closed.stamp()), (word.tick().min(until), word.stamp()));
        }
    }
}

/// Where a word stands in the order that every transition follows.
fn rank(word: Word) -> (u64, u8, u64, bool, bool) {
    let (of_state, within) = match word.state() {
        State::Claimed => (0, 0),
        State::Free => (1, 0),
        State::Held => (2, word.tick()),
        // The deadline of a closing lease falls.
        State::Closing => (3, TICK_MAX - word.tick()),
        State::Expired => (4, 0),
        State::Vacant => (5, 0),
    };
    // Of a lease it comes to be waited for; of a vacant slot it goes.
    let waited = word.is_waited() == word.is_leased();
    (word.stamp(), of_state, within, waited, word.is_frozen())
}

/// Every word that one transition leads to, whoever takes it.
fn next_words(word: Word, now: u64, deadline: u64) -> Vec<Word> {
    let mut next = vec![word.frozen()];
    next.extend(word.claim(now));
    if word.state() == State::Claimed {
        // A claim is its claimant's, frozen or not.
        next.extend([word.unclaim(), word.publish()]);
    }
    if word.is_frozen() {
        return next;
    }
    if word.is_published() {
        for (told, same) in [(false, false), (true, false), (true, true)] {
            match word.acquire(now, deadline, told, same) {
                Acquire::Grant { next: to, .. } | Acquire::Bury { next: to, .. } => next.push(to),
                Acquire::Dead | Acquire::Refused | Acquire::Frozen | Acquire::Waited => {}
            }
        }
        let can_be_passed_on = !word.is_leased() || word.is_reclaimable(now);
        if word.is_waited() && can_be_passed_on && word.stamp() < STAMP_MAX {
            next.extend([false, true].map(|more| word.passed_on(deadline, more)));
            let ended = word.is_leased().then_some(Cause::Lapsed);
            next.push(word.buried(now, ended));
        }
        if word.is_waited() && !word.is_leased() {
            next.push(word.unwaited());
        }
    }
    if word.is_leased() {
        next.push(word.waited());
    }
    if let Renew::To(to) | Renew::Expire(to) = word.renew(word.stamp(), now, deadline) {
        next.push(to);
    }
    if word.is_leased() {
        next.extend(CAUSES.map(|cause| word.end(now.min(word.tick()), cause)));
    }
    if word.is_valid(now) {
        next.push(word.close(deadline));
    }
    next
}

#[test]
fn no_value_of_a_word_comes_back() {
    // A dead slot is waited for by nobody.
    let waited = words().filter(|word| word.is_published() && !word.is_dead()).map(Word::waited);
    for word in words().chain(waited) {
        for now in ticks() {
            for deadline in ticks().filter(|&deadline| deadline > now) {
                for next in next_words(word, now, deadline) {
                    assert!(
                        next == word || rank(next) > rank(word),
                        "{word:?} went back to {next:?} at {now}"
                    );
                }
            }
        }
    }
}

#[test]
fn debug_shows_what_is_packed() {
    let word = Word::new(42, 2, State::Held);
    assert_eq!(format!("{word:?}"), "Held(2 @ 42)");
    assert_eq!(format!("{:?}", word.frozen()), "Held(2 @ 42, frozen)");
    assert_eq!(format!("{:?}", word.waited().frozen()), "Held(2 @ 42, waited, frozen)");
}
