//! Each rule at its edge. Ticks and order are written `start..end`, both ends meant.

use leasehold::testing::history::{Checker, Event, Violation};

use crate::story::*;

/// A grant of token 1 to holder 1 with a deadline of tick 110 to 112.
fn first_grant() -> Event {
    call(10..12, 0..1, 1, granted(1, 100))
}

/// Whether the history has an overlap of token 1 with token 2 whose end was set by `last`.
fn overlaps(events: &[Event], last: usize, until: u64) -> bool {
    let Violation::Overlap { grant, last: found, until: tick, next } = fault(events) else {
        return false;
    };
    grant.token() == Some(token(1))
        && next.token() == Some(token(2))
        && (found, tick) == (events[last], until)
}

#[test]
fn a_quiet_life_is_explained() {
    let events = [
        first_grant(),
        call(20..21, 1..2, 1, checked(1)),
        call(22..23, 2..3, 2, refused(1)),
        call(24..25, 3..4, 1, renewed(1, 100)),
        call(26..27, 4..5, 1, released(1)),
        call(28..29, 5..6, 2, granted(2, 100)),
        call(30..31, 6..7, 1, check_lost(1)),
        call(32..33, 7..8, 1, renew_lost(1)),
        call(34..35, 8..9, 1, release_lost(1)),
        call(36..37, 9..10, 3, closing(2, 10)),
        call(38..39, 10..11, 2, renew_refused(2)),
        call(40..41, 11..12, 2, dropped(2)),
        call(42..43, 12..13, 3, granted(3, 100)),
        call(44..45, 13..14, 1, revoked(3)),
    ];
    let summary = check(&events).unwrap();
    assert_eq!((summary.events(), summary.resources), (14, 1));
    assert_eq!((summary.granted, summary.refused, summary.renewed), (3, 1, 1));
    assert_eq!((summary.renew_refused, summary.renew_lost), (1, 1));
    assert_eq!((summary.released, summary.release_lost, summary.dropped), (1, 1, 1));
    assert_eq!((summary.checked, summary.check_lost), (1, 1));
    assert_eq!((summary.revoked, summary.closing), (1, 1));
    assert_eq!(check(&[]).unwrap().events(), 0);
}

#[test]
fn a_lapsed_lease_is_taken_after_its_deadline_and_not_at_it() {
    let taken = |after| [first_grant(), call(20..after, 1..2, 2, granted(2, 100))];
    assert!(overlaps(&taken(110), 0, 110));
    assert!(check(&taken(111)).is_ok());
    let slack = |after, ticks| Checker::new().slack(ticks).check(&taken(after)).is_ok();
    assert!(slack(110, 1) && !slack(109, 1) && slack(109, 2));
}

#[test]
fn the_same_holder_may_be_granted_again() {
    let again = |by| [first_grant(), call(20..21, 1..2, by, granted(2, 100))];
    assert!(check(&again(1)).is_ok());
    assert!(overlaps(&again(2), 0, 110));
}

#[test]
fn an_end_makes_way_if_it_began_before_the_next_grant_returned() {
    for end in [released(1), dropped(1), revoked(1)] {
        let ended = |began| {
            let next = call(20..21, 1..2, 2, granted(2, 100));
            [first_grant(), next, call(20..30, began..3, 1, end)]
        };
        assert!(check(&ended(1)).is_ok(), "{end}");
        assert!(overlaps(&ended(2), 0, 110), "{end}");
    }
    for nothing in [check_lost(1), release_lost(1), renew_lost(1), renew_refused(1), refused(1)] {
        let next = call(20..21, 2..3, 2, granted(2, 100));
        let events = [first_grant(), call(15..200, 1..2, 1, nothing), next];
        assert!(overlaps(&events, 0, 110), "{nothing}");
    }
}

#[test]
fn a_renewal_keeps_the_next_grant_out_for_longer() {
    let history = |term, after| {
        let next = call(20..after, 2..3, 2, granted(2, 100));
        [first_grant(), call(20..30, 1..2, 1, renewed(1, term)), next]
    };
    assert!(overlaps(&history(150, 170), 1, 170));
    assert!(check(&history(150, 171)).is_ok());
    // A shorter one shortens nothing.
    assert!(overlaps(&history(5, 110), 0, 110));
    // One that overlaps the next grant came first, or it would have failed.
    let racing = |after| {
        let next = call(90..after, 1..2, 2, granted(2, 100));
        [first_grant(), next, call(100..180, 1..3, 1, renewed(1, 100))]
    };
    assert!(overlaps(&racing(200), 2, 200));
    assert!(check(&racing(201)).is_ok());
    // One that was called after the next grant had returned is itself what is wrong.
    let stale = [
        first_grant(),
        call(90..150, 1..2, 2, granted(2, 100)),
        call(100..180, 2..3, 1, renewed(1, 100)),
    ];
    assert!(matches!(fault(&stale), Violation::Superseded { event, .. } if event == stale[2]));
}

#[test]
fn grace_lets_the_next_grant_in_earlier() {
    let history = |grace, after| {
        let next = call(20..after, 2..3, 2, granted(2, 100));
        [first_grant(), call(20..25, 1..2, 3, closing(1, grace)), next]
    };
    assert!(overlaps(&history(10, 30), 1, 30));
    assert!(check(&history(10, 31)).is_ok());
    assert!(overlaps(&history(1_000, 110), 0, 110));
    let late = [
        first_grant(),
        call(20..31, 1..2, 2, granted(2, 100)),
        call(20..25, 2..3, 3, closing(1, 10)),
    ];
    assert!(overlaps(&late, 0, 110));
    // The shortest grace counts.
    let twice = |after| {
        let shorter = call(24..25, 2..3, 3, closing(1, 20));
        let next = call(40..after, 3..4, 2, granted(2, 100));
        [first_grant(), call(20..22, 1..2, 3, closing(1, 50)), shorter, next]
    };
    assert!(overlaps(&twice(44), 2, 44));
    assert!(check(&twice(45)).is_ok());
}

#[test]
fn resources_do_not_mix() {
    let mut events = [first_grant(), call(20..21, 1..2, 2, granted(1, 100))];
    assert!(matches!(fault(&events), Violation::TokenTwice { .. }));
    events[1].resource = 1;
    assert_eq!(check(&events).unwrap().resources, 2);
}

#[test]
fn tokens_increase_in_the_order_of_calls() {
    let grants = |began| {
        let other = call(11..12, 1..2, 1, granted(5, 100));
        [call(10..12, 0..1, 1, granted(9, 100)), other, call(11..14, began..3, 1, granted(7, 100))]
    };
    // Token 5 comes after token 9, which had returned; token 7 overlaps 9.
    let Violation::TokenOrder { earlier, later } = fault(&grants(0)) else { panic!() };
    assert_eq!((earlier.token(), later.token()), (Some(token(9)), Some(token(5))));
    assert!(check(&[grants(0)[0], grants(0)[2]]).is_ok());
    assert!(check(&[grants(0)[1], grants(1)[2]]).is_ok());
    // Also when a grant with a token between them was called earlier.
    let events = [
        call(10..20, 0..3, 1, granted(6, 100)),
        call(10..12, 0..1, 1, granted(9, 100)),
        call(13..14, 1..2, 1, granted(5, 100)),
    ];
    let Violation::TokenOrder { earlier, later } = fault(&events) else { panic!() };
    assert_eq!((earlier, later), (events[1], events[2]));
}

#[test]
fn a_token_is_granted_once() {
    let events = [first_grant(), call(300..301, 0..2, 2, granted(1, 100))];
    let Violation::TokenTwice { first, second } = fault(&events) else { panic!() };
    assert_eq!((first, second), (events[0], events[1]));
}

#[test]
fn a_token_is_not_current_before_its_grant() {
    for outcome in [checked(1), renewed(1, 5), released(1), revoked(1), closing(1, 500), refused(1)]
    {
        let history =
            |began| [call(10..12, 0..1, 2, outcome), call(10..13, began..2, 1, granted(1, 100))];
        assert!(check(&history(0)).is_ok(), "{outcome}");
        let Violation::Ungranted { event, grant } = fault(&history(1)) else { panic!() };
        assert_eq!((event, grant), (history(1)[0], Some(history(1)[1])));
        let Violation::Ungranted { grant: None, .. } = fault(&history(0)[..1]) else { panic!() };
    }
    for outcome in [check_lost(1), renew_lost(1), release_lost(1), dropped(1), renew_refused(1)] {
        // A guess is truly lost, and that is no end of the lease that is granted after.
        let guess = [
            call(10..11, 0..1, 2, outcome),
            call(12..13, 1..2, 1, granted(1, 100)),
            call(14..15, 2..3, 1, checked(1)),
        ];
        assert!(check(&guess).is_ok(), "{outcome}");
    }
}

#[test]
fn nothing_succeeds_at_the_deadline() {
    for outcome in [checked(1), renewed(1, 100)] {
        let history = |before| [first_grant(), call(before..200, 1..2, 1, outcome)];
        assert!(check(&history(111)).is_ok());
        let Violation::Outlived { grant, last, until: 112, event } = fault(&history(112)) else {
            panic!("{outcome}")
        };
        assert_eq!((grant, last, event), (first_grant(), first_grant(), history(112)[1]));
        let slack = |before, ticks| Checker::new().slack(ticks).check(&history(before)).is_ok();
        assert!(slack(112, 1) && !slack(113, 1));
    }
    // A release reads no clock.
    assert!(check(&[first_grant(), call(500..501, 1..2, 1, released(1))]).is_ok());
}

#[test]
fn renewals_extend_a_life() {
    let renewal = call(100..105, 1..4, 1, renewed(1, 100));
    // Also one that has not returned.
    let history = |before| [first_grant(), renewal, call(before..300, 2..3, 1, checked(1))];
    assert!(check(&history(204)).is_ok());
    let Violation::Outlived { last, until: 205, .. } = fault(&history(205)) else { panic!() };
    assert_eq!(last, renewal);
    // Also one that began later in the order, as a call may be held up before it reads its tick.
    let renewal = Event { began: 2, ..renewal };
    assert!(check(&[first_grant(), call(204..300, 1..3, 1, checked(1)), renewal]).is_ok());
    // A short one shortens nothing.
    let short = call(20..21, 1..2, 1, renewed(1, 5));
    assert!(check(&[first_grant(), short, call(111..112, 2..3, 1, checked(1))]).is_ok());
    // Two that overlap cannot pull each other over the deadline.
    let circle = [
        first_grant(),
        call(150..160, 1..2, 1, renewed(1, 100)),
        call(150..160, 1..3, 1, renewed(1, 100)),
    ];
    assert!(matches!(fault(&circle), Violation::Outlived { until: 112, .. }));
}

#[test]
fn grace_ends_a_life() {
    let revocation = call(20..25, 1..2, 3, closing(1, 10));
    let history =
        |before, began| [first_grant(), revocation, call(before..90, began..3, 1, checked(1))];
    assert!(check(&history(34, 2)).is_ok());
    assert!(check(&history(35, 1)).is_ok(), "the check may have come first");
    let Violation::Outlived { last, until: 35, .. } = fault(&history(35, 2)) else { panic!() };
    assert_eq!(last, revocation);
    // Of several that came first, the one with the earliest end.
    let second = call(30..31, 2..3, 3, closing(1, 60));
    let third = call(30..31, 3..4, 3, closing(1, 1));
    let several = |before, began| {
        [first_grant(), revocation, second, third, call(before..90, began..5, 1, checked(1))]
    };
    let Violation::Outlived { until: 35, .. } = fault(&several(35, 3)) else { panic!() };
    let Violation::Outlived { last, until: 32, .. } = fault(&several(32, 4)) else { panic!() };
    assert_eq!(last, third);
    assert!(check(&several(34, 3)).is_ok());
}

#[test]
fn a_closing_lease_is_not_renewed() {
    let history = |began| {
        let revocation = call(20..25, 1..2, 3, closing(1, 50));
        [first_grant(), revocation, call(26..27, began..3, 1, renewed(1, 100))]
    };
    assert!(check(&history(1)).is_ok());
    let Violation::RenewedClosing { closing, event } = fault(&history(2)) else { panic!() };
    assert_eq!((closing, event), (history(2)[1], history(2)[2]));
}

#[test]
fn no_token_is_current_after_a_newer_one() {
    for outcome in [checked(1), renewed(1, 5), released(1), revoked(1), closing(1, 5), refused(1)] {
        // Token 3 returned before token 2 did.
        let history = |began| {
            [
                first_grant(),
                call(20..30, 1..4, 1, granted(2, 100)),
                call(20..21, 1..2, 1, granted(3, 100)),
                call(20..22, began..3, 1, outcome),
            ]
        };
        assert!(check(&history(1)).is_ok(), "{outcome}");
        let Violation::Superseded { newer, event } = fault(&history(2)) else { panic!() };
        assert_eq!((newer, event), (history(2)[2], history(2)[3]));
    }
}

#[test]
fn what_is_over_stays_over() {
    let revived = |over, outcome, began| {
        let end = call(20..150, 1..2, 1, over);
        let again = call(25..26, began..3, 1, outcome);
        let events = [first_grant(), end, again];
        let found = check(&events).err().map(|violation| *violation);
        (found, Violation::Revived { over: end, event: again })
    };
    let ends = [released(1), revoked(1), dropped(1), release_lost(1), check_lost(1), renew_lost(1)];
    for (index, over) in ends.into_iter().enumerate() {
        let answers = [
            (checked(1), true),
            (renewed(1, 5), true),
            (released(1), index < 4),
            (refused(1), index < 2),
            (closing(1, 500), index < 2),
            (revoked(1), index < 2),
            (renew_refused(1), false),
            (dropped(1), false),
        ];
        for (outcome, contradicts) in answers {
            let twice = index < 2 && [released(1), revoked(1)].contains(&outcome);
            if twice {
                continue; // see below
            }
            assert_eq!(revived(over, outcome, 1).0, None, "{over}, {outcome}");
            let (found, expected) = revived(over, outcome, 2);
            assert_eq!(found, contradicts.then_some(expected), "{over}, {outcome}");
        }
    }
}

#[test]
fn a_lease_is_ended_once() {
    for (one, two) in [
        (released(1), released(1)),
        (released(1), revoked(1)),
        (revoked(1), released(1)),
        (revoked(1), revoked(1)),
    ] {
        for began in [1, 2] {
            let events =
                [first_grant(), call(20..21, 1..2, 1, one), call(20..21, began..3, 1, two)];
            let Violation::EndedTwice { first, second } = fault(&events) else { panic!() };
            assert_eq!((first, second), (events[1], events[2]));
        }
    }
    let dropped = [
        first_grant(),
        call(20..21, 1..2, 1, dropped(1)),
        call(20..21, 1..3, 1, released(1)),
        call(22..23, 3..4, 1, dropped(1)),
    ];
    assert!(check(&dropped).is_ok(), "the drop found the lease released");
}

#[test]
fn a_lease_is_not_lost_before_its_deadline() {
    for report in [check_lost(1), renew_lost(1), release_lost(1)] {
        let history = |after| [first_grant(), call(20..after, 1..2, 1, report)];
        assert!(check(&history(110)).is_ok());
        let Violation::LostEarly { grant, last, until: 110, event } = fault(&history(109)) else {
            panic!("{report}")
        };
        assert_eq!((grant, last, event), (first_grant(), first_grant(), history(109)[1]));
        let slack = |after, ticks| Checker::new().slack(ticks).check(&history(after)).is_ok();
        assert!(slack(109, 1) && !slack(108, 1));
    }
    // While the grant is under way, the token is not granted yet.
    let early = [call(10..15, 0..2, 1, granted(1, 100)), call(11..12, 0..1, 2, check_lost(1))];
    assert!(check(&early).is_ok());
}

#[test]
fn a_lease_may_be_lost_to_what_may_have_ended_it() {
    for end in [released(1), dropped(1), revoked(1), granted(2, 50)] {
        let history = |began| {
            [first_grant(), call(20..21, 1..2, 1, check_lost(1)), call(20..30, began..3, 1, end)]
        };
        assert!(check(&history(1)).is_ok(), "{end}");
        // A release of what was reported lost is in order, but does not explain the report.
        assert!(matches!(fault(&history(2)), Violation::LostEarly { .. }), "{end}");
    }
    let grace = |after| {
        let revocation = call(20..25, 1..2, 3, closing(1, 10));
        [first_grant(), revocation, call(20..after, 2..3, 1, check_lost(1))]
    };
    assert!(check(&grace(30)).is_ok());
    assert!(matches!(fault(&grace(29)), Violation::LostEarly { until: 30, .. }));
    // Only a revocation that began before the report returned can have cut the lease short.
    let racing = |graces: [u64; 2]| {
        [
            first_grant(),
            call(20..50, 1..3, 1, check_lost(1)),
            call(20..55, 4..5, 3, closing(1, graces[0])),
            call(20..55, 2..6, 3, closing(1, graces[1])),
        ]
    };
    assert!(check(&racing([500, 30])).is_ok());
    let early = fault(&racing([30, 500]));
    assert!(matches!(early, Violation::LostEarly { until: 110, .. }));
}

#[test]
fn a_renewal_that_precedes_a_loss_defers_it() {
    let history = |after, began| {
        let renewal = call(20..30, 1..2, 1, renewed(1, 150));
        [first_grant(), renewal, call(20..after, began..3, 1, check_lost(1))]
    };
    assert!(check(&history(170, 2)).is_ok());
    let Violation::LostEarly { last, until: 170, .. } = fault(&history(169, 2)) else { panic!() };
    assert_eq!(last, history(169, 2)[1]);
    // One that overlaps the report may have come later: by a reading from before the deadline. And
    // what precedes one report need not precede another that returned after it.
    let long = call(20..120, 1..4, 1, check_lost(1));
    let [grant, renewal, report] = history(170, 2);
    assert!(check(&[grant, renewal, report, long]).is_ok());
    assert!(check(&history(110, 1)).is_ok());
    assert!(matches!(fault(&history(109, 1)), Violation::LostEarly { until: 110, .. }));
}

#[test]
fn a_record_that_runs_backwards_says_nothing() {
    let sound = call(10..10, 1..2, 1, granted(1, 1));
    let stepped = Event { after: 9, ..sound };
    for event in [stepped, Event { began: 2, ..sound }] {
        assert_eq!(fault(&[first_grant(), event]), Violation::Malformed { event });
    }
    assert!(check(&[sound]).is_ok());
    assert!(Checker::new().slack(1).check(&[stepped]).is_ok());
}

#[test]
fn the_first_culprit_is_reported() {
    let other = |mut event: Event| {
        event.resource = 9;
        event
    };
    let events = [
        first_grant(),
        call(500..501, 3..4, 1, checked(1)),
        other(call(10..11, 1..2, 1, granted(1, 100))),
        other(call(300..301, 2..3, 1, checked(1))),
    ];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
        let violation = fault(&order.map(|index| events[index]));
        assert_eq!(violation.culprit(), &events[3]);
    }
}

#[test]
fn nothing_wraps_at_the_ends_of_the_scale() {
    let end = u64::MAX;
    let events = [
        call(end - 1..end, 0..1, 1, granted(u64::MAX, end)),
        call(end - 1..end, 1..2, 1, renewed(u64::MAX, end)),
        call(end..end, 2..3, 1, checked(u64::MAX)),
        call(end..end, 3..4, 1, closing(u64::MAX, end)),
        call(end..end, 4..5, 1, checked(u64::MAX)),
        call(end..end, 5..6, 1, released(u64::MAX)),
    ];
    assert!(check(&events).is_ok());
    assert!(Checker::new().slack(end).check(&events).is_ok());
    let intruder = call(end..end, 1..2, 2, granted(u64::MAX, 1));
    let events = [call(0..0, 0..1, 1, granted(1, end)), intruder];
    assert!(matches!(fault(&events), Violation::Overlap { until: u64::MAX, .. }));
}
