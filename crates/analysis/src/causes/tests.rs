use super::*;
use std::collections::BTreeSet;

#[test]
fn every_state_has_one_cause_and_no_reason_has_two() {
    let all = || Cause::ALL.iter().map(|c| c.about());
    let states: Vec<State> = all().flat_map(|a| a.states).copied().collect();
    assert_eq!((states.len(), states.iter().collect::<BTreeSet<_>>().len()), (State::ALL.len(), State::ALL.len()));
    let reasons: Vec<&str> = all().flat_map(|a| a.reasons).copied().collect();
    assert_eq!(reasons.iter().collect::<BTreeSet<_>>().len(), reasons.len());
}

#[test]
fn names_and_marks_are_told_apart() {
    assert_eq!(Cause::ALL.iter().map(|c| c.name()).collect::<BTreeSet<_>>().len(), Cause::ALL.len());
    assert_eq!(State::ALL.iter().map(|s| s.name()).collect::<BTreeSet<_>>().len(), State::ALL.len());
    assert_eq!(State::ALL.iter().map(|s| s.mark()).collect::<BTreeSet<_>>().len(), State::ALL.len());
}

#[test]
fn something_can_be_said_of_every_cause_of_which_nothing_more_is_known() {
    for cause in Cause::ALL {
        let Sentence { when, text } = cause.about().says.last().expect("a sentence");
        let is_known = |word: &str| word.starts_with("service}") || word.split('}').any(|w| w.contains('|'));
        assert!(*when == When::Always && text.split('{').skip(1).all(is_known), "{cause:?}: {text}");
    }
}
