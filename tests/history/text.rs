//! What a violation says, and how the recorder behaves at its edges.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold::testing::history::{Checker, Event, Outcome, Recorder, Violation};

use crate::story::*;

#[test]
fn every_violation_says_what_is_wrong() {
    let grant = call(10..12, 0..1, 1, granted(1, 100));
    let event = call(20..21, 1..2, 2, checked(1));
    let renewal = call(14..15, 1..2, 1, renewed(1, 100));
    let says = |violation: Violation, what: &str| {
        let text = violation.to_string();
        assert!(text.starts_with(what), "{text}");
        assert!(text.contains(&violation.culprit().to_string()), "{text}");
    };
    says(Violation::Malformed { event }, "the record of one call runs backwards");
    says(Violation::TokenTwice { first: grant, second: event }, "one token was granted twice");
    says(Violation::TokenOrder { earlier: grant, later: event }, "tokens decreased");
    says(
        Violation::Ungranted { event, grant: None },
        "a token was current that nobody was granted",
    );
    says(Violation::Ungranted { event, grant: Some(grant) }, "a token was current before it was");
    says(Violation::Superseded { newer: grant, event }, "a token was current after a newer one");
    says(Violation::Revived { over: grant, event }, "a lease that was over came back");
    says(Violation::EndedTwice { first: grant, second: event }, "one lease was ended twice");
    says(Violation::RenewedClosing { closing: grant, event }, "a closing lease was renewed");
    for last in [grant, renewal] {
        let next = event;
        says(Violation::Overlap { grant, last, until: 114, next }, "two holders at once");
        says(
            Violation::Outlived { grant, last, until: 114, event },
            "a lease outlived its deadline",
        );
        says(
            Violation::LostEarly { grant, last, until: 114, event },
            "a lease was lost before its",
        );
    }
    let text = Violation::Overlap { grant, last: renewal, until: 114, next: event }.to_string();
    assert_eq!(
        text,
        "two holders at once: \
         grant of token 1 for 100 ticks on 0 by holder 1 \
         [ticks 10 to 12; 0 had returned when it began, it was no. 1] \
         was live at least until tick 114 by \
         renewal of token 1 for 100 ticks on 0 by holder 1 \
         [ticks 14 to 15; 1 had returned when it began, it was no. 2] \
         and nothing ended it before that, yet there was \
         check that found token 1 valid on 0 by holder 2 \
         [ticks 20 to 21; 1 had returned when it began, it was no. 2]"
    );
}

#[test]
fn every_outcome_says_what_it_was() {
    let outcomes = [
        (granted(7, 5), "grant of token 7 for 5 ticks"),
        (refused(7), "refusal because of token 7"),
        (Outcome::Refused { by: None }, "refusal"),
        (renewed(7, 5), "renewal of token 7 for 5 ticks"),
        (renew_refused(7), "refused renewal of token 7"),
        (renew_lost(7), "renewal that found token 7 over"),
        (released(7), "release of token 7"),
        (release_lost(7), "release that found token 7 over"),
        (dropped(7), "drop of the guard of token 7"),
        (checked(7), "check that found token 7 valid"),
        (check_lost(7), "check that found token 7 over"),
        (revoked(7), "revocation of token 7"),
        (closing(7, 5), "revocation of token 7 with a grace of 5 ticks"),
    ];
    for (outcome, text) in outcomes {
        assert_eq!(outcome.to_string(), text);
        let named = outcome != Outcome::Refused { by: None };
        assert_eq!(outcome.token(), named.then(|| token(7)));
    }
}

#[test]
fn a_summary_names_what_there_was() {
    let events = [call(1..2, 0..1, 1, granted(1, 9)), call(3..4, 1..2, 2, refused(1))];
    let text = check(&events).unwrap().to_string();
    assert_eq!(text, "2 events on 1 resources: 1 granted, 1 refused");
    assert_eq!(check(&[]).unwrap().to_string(), "0 events on 0 resources");
}

#[test]
fn a_violation_is_an_error_that_a_test_can_return() {
    let returned = || -> Result<(), Box<dyn core::error::Error>> {
        Checker::new().check(&[call(1..2, 0..1, 1, checked(1))])?;
        Ok(())
    };
    assert!(returned().unwrap_err().to_string().starts_with("a token was current"));
}

#[test]
fn a_call_is_recorded_from_its_begin_to_its_end() {
    let ticks = parking_lot::Mutex::new(100);
    let recorder = Recorder::new(move || {
        let mut tick = ticks.lock();
        *tick += 1;
        *tick
    });
    let (mut one, mut two) = (recorder.log(), recorder.clone().log());
    two.reserve(1);
    let long = one.begin("a", holder(1));
    let short = two.begin("b", holder(2));
    two.end(short, granted(5, 50));
    one.end(long, refused(4));
    drop(one);
    two.finish();
    let short = Event {
        before: 102,
        after: 103,
        began: 0,
        returned: 1,
        resource: "b",
        holder: holder(2),
        outcome: granted(5, 50),
    };
    let long = Event {
        before: 101,
        after: 104,
        returned: 2,
        resource: "a",
        holder: holder(1),
        outcome: refused(4),
        ..short
    };
    assert_eq!(recorder.take(), [short, long]);
    assert_eq!(recorder.take(), [], "what was taken is gone");
}

#[test]
fn a_history_with_an_open_log_is_not_handed_out() {
    let recorder = Recorder::<u64>::new(|| 0);
    let log = recorder.log();
    let taken = catch_unwind(AssertUnwindSafe(|| recorder.take())).unwrap_err();
    assert_eq!(taken.downcast_ref::<String>().unwrap(), "1 logs are still open: finish them first");
    log.finish();
    assert_eq!(recorder.take(), []);
}

#[test]
fn what_a_thread_did_before_it_panicked_is_kept() {
    let recorder = Recorder::new(|| 0);
    let mut log = recorder.log();
    let panicked = std::thread::spawn(move || {
        let call = log.begin(1, holder(1));
        log.end(call, granted(1, 1));
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    assert_eq!(recorder.take().len(), 1);
    assert_eq!(format!("{recorder:?}"), "Recorder { returned: 1, .. }");
}
