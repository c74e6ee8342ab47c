//! Whether each condition of the rules is guarded by a test: with the feature `canary`, the condition that `WAKEPATH_CANARY`
//! names is taken to hold always, and a test must fail (`cargo xtask canary`).

/// Every condition that is guarded so: its rule, and what it asks. `cargo xtask tables` writes the list.
pub const CONDITIONS: &[&str] = &[
    "answered.never_seen",
    "answered.nothing_was_handed_over",
    "awaited.by_an_open_request",
    "awaited.never_anothers",
    "awaited.never_passed_to_others",
    "awaited.nothing_else_was_given",
    "awaited.often",
    "awaited.often_passed_on",
    "before.began_in_the_recording",
    "behind.calls_once",
    "born.before_the_end",
    "born.hands_nothing_on",
    "born.leads_to_one",
    "born.never_for_others",
    "born.none_hands_on",
    "born.one_at_a_time",
    "born.told_to_the_end",
    "completion.holder_called_nobody",
    "completion.others_slept",
    "completion.signs_are_enough",
    "errand.made_for_one_call",
    "errand.of_none_but_its_maker",
    "errand.often",
    "errand.one_at_a_time",
    "errand.resumes_who_asked",
    "fired.none_was_waited_for",
    "fork.never_waited",
    "handed.lent_amid_others",
    "handed.no_call_behind",
    "handed.nothing_else_was_handed_back",
    "handed.nothing_else_was_taken",
    "handed.nothing_was_handed_to_others",
    "handed.nothing_was_lost",
    "handed.often_enough",
    "handoff.no_maker",
    "handoff.of_one_alone",
    "isolated.one_request",
    "isolated.others_are_elsewhere",
    "leaving.keeps_what_it_takes",
    "leaving.one_at_a_time",
    "loss.nothing_was_lost",
    "owner.got_no_other",
    "owner.made_alone",
    "owner.made_for_one",
    "owner.no_pool",
    "owner.nobody_was_accepted",
    "owner.used_by_who_made_it",
    "paired.never_another",
    "paired.often",
    "prompt.never_put_off",
    "prompt.not_answered",
    "prompt.often",
    "prompt.one_at_once",
    "reply.never_busy_before",
    "reply.one_call_under_way",
    "rest.no_timer_due",
    "rest.nobody_waits",
    "rest.nothing_of_others",
    "served.accepted_alone",
    "served.made_before_its_first_byte",
    "served.made_behind_its_accept",
    "served.made_for_one",
    "served.no_accept_was_lost",
    "served.one_each",
    "sole.handed_work",
    "sole.never_without_a_request",
    "sole.no_timer",
    "sole.not_of_its_maker",
    "sole.often",
    "spawned.ended_in_time",
    "spawned.never_otherwise",
    "thread.keeps_what_it_takes",
    "thread.one_at_a_time",
    "thread.read_whole",
    "turn.all_was_seen",
    "turn.no_answer",
    "turn.no_others_work",
    "turn.no_result_of_a_thread",
    "turn.no_timer_due",
    "turn.not_ahead",
    "turns.never_pushes",
    "unasked.never_seen",
    "waiting.never_several",
    "waiting.no_pool",
];

/// A condition of a rule.
#[inline]
pub(crate) fn holds(name: &'static str, condition: bool) -> bool {
    debug_assert!(CONDITIONS.contains(&name), "{name}");
    #[cfg(feature = "canary")]
    return condition || is_weakened(name);
    #[cfg(not(feature = "canary"))]
    condition
}

#[cfg(feature = "canary")]
fn is_weakened(name: &str) -> bool {
    static WEAKENED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    WEAKENED.get_or_init(|| std::env::var("WAKEPATH_CANARY").unwrap_or_default()) == name
}
