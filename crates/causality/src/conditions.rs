//! The conditions of the rules, each with a name and a sentence.
//!
//! Where somebody asks how a call is known, [`watch`] and [`failed`] give the conditions that did not hold. In a build for tests, the condition
//! that `WAKEPATH_CANARY` names is taken to hold always, and a test must fail (`cargo xtask canary`).

use std::cell::{Cell, RefCell};

/// A condition of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The rule, or what it is about, and what it asks.
    pub name: &'static str,
    /// What is true where it holds.
    pub says: &'static str,
}

/// Every condition, by name.
pub const CONDITIONS: &[Condition] = &[
    is("answered.never_seen", "a request of this process never makes a call after its reply"),
    is("answered.nothing_was_handed_over", "requests of this process stay with the task that took them"),
    is("asked-again.alone", "no more than one request was open when it asked again"),
    is("asked-again.always", "the loop never asked again in a later turn for what it waits for elsewhere"),
    is("asked-again.often", "the loop often asked again as soon as it was answered for what it waits for elsewhere"),
    is(
        "awaited.by_an_open_request",
        "one of the open requests made the call, and not the program itself or a request that is over",
    ),
    is(
        "awaited.never_anothers",
        "a loop that received one answer only never replied to another request than the one that had asked",
    ),
    is("awaited.never_passed_to_others", "an answer was never passed to another request than the one that had asked"),
    is("awaited.nothing_else_was_given", "the answer was all that the loop received, and no timer was due"),
    is("awaited.often", "the process often replied right after it received one answer only"),
    is(
        "awaited.often_passed_on",
        "the process often replied right after it read an answer, while other requests were open",
    ),
    is("background.calls_once", "a task that calls after the end of its request makes one call"),
    is("background.none_was_waited_for", "no request of this process waits for the tasks that it makes"),
    is("before.began_in_the_recording", "all requests from before the recording had ended"),
    is("born.before_the_end", "the task was made before its maker's request ended"),
    is("born.hands_nothing_on", "the task handed nothing to another request's task"),
    is("born.leads_to_one", "what the task made replied to one request only"),
    is("born.never_for_others", "the task never worked for another request than its own"),
    is("born.none_hands_on", "no task of this kind in the process hands work to other requests"),
    is("born.one_at_a_time", "the task had one request at a time"),
    is("born.told_to_the_end", "the task that was named for the request also sent the end of the reply"),
    is("completion.holder_called_nobody", "the task that was woken had made no call itself since"),
    is("completion.others_slept", "every other task with an open request slept until after the wake-up"),
    is("completion.signs_are_enough", "helpers of this process wake somebody after nearly every call"),
    is("consumer.all_was_seen", "no wait was lost"),
    is("consumer.began_before_the_request", "the thread had begun to ask for work before the request came"),
    is("consumer.hands_nothing_on", "the thread let no task of its process go on, but at locks"),
    is("consumer.is_handed_nothing", "no task of its process let the thread go on, but at locks"),
    is("consumer.often", "the thread often asked for work, slept until it had the answer, and asked again"),
    is("consumer.takes_no_requests", "the thread takes no requests, and replies to none"),
    is("errand.made_for_one_call", "a client's task that is woken in this way makes one call each time"),
    is("errand.of_none_but_its_maker", "each time a client's task was woken in this way, it is known who woke it"),
    is("errand.often", "who woke a client's task in this way often received the answer, and nobody else did"),
    is("errand.one_at_a_time", "a client's task that is woken in this way has one call under way"),
    is("errand.resumes_who_asked", "a client's task that is woken in this way resumes who woke it, and nobody else"),
    is("fork.never_waited", "the new task did not wait for other work since it was made"),
    is(
        "handed.comes_not_round",
        "who received an item of this type never sends it on, as it does connections of a pool",
    ),
    is("handed.lent_amid_others", "items of this type are lent, as connections of a pool are, and are no work"),
    is("handed.nothing_else_was_handed_back", "the task handed back nothing else"),
    is("handed.nothing_else_was_taken", "the task took no other work meanwhile"),
    is("handed.nothing_was_handed_to_others", "the task handed no result to others meanwhile"),
    is("handed.nothing_was_lost", "no hand-over was lost meanwhile"),
    is("handed.often_enough", "workers of this process often handed a result back to who gave them the work"),
    is("handoff.never_unasked", "the helper never called while no request was open"),
    is("handoff.no_lock", "the helper was not woken at a lock, where tasks that take requests wait too"),
    is("handoff.no_maker", "the helper was not made for a request"),
    is("handoff.of_one_alone", "the task that woke the helper worked on one request only"),
    is("isolated.one_request", "the input that the library handed over was of one request only"),
    is("isolated.others_are_elsewhere", "every other request that could continue was in another task's hands"),
    is("leaving.keeps_what_it_takes", "the task replies to the requests that it takes"),
    is("leaving.one_at_a_time", "the task works on one request at a time"),
    is("loss.nothing_was_lost", "no operation was lost meanwhile"),
    is("owner.bears_the_identifier", "no other request bears the identifier that the call carries"),
    is("owner.got_no_other", "the request that opened the connection used no other one of this protocol meanwhile"),
    is("owner.made_alone", "no other connection was being opened at the same time"),
    is("owner.made_for_one", "this process always uses a new connection for the request that opened it"),
    is("owner.no_pool", "the process has no pool of connections that any task may use"),
    is("owner.nobody_was_accepted", "the loop had no accepted connection whose first request was still to come"),
    is("owner.used_by_who_made_it", "the task that opened the connection is also the first to use it"),
    is("paced.by_itself", "the task also called while its process had had no request since its last call"),
    is("paced.never_sooner", "the task never called sooner than its own pace"),
    is("paced.often", "the task often called at its own pace"),
    is("paired.never_another", "each connection for calls only ever served requests of one other connection"),
    is("paired.often", "connections for calls were often seen to serve one other connection only"),
    is("prompt.never_put_off", "the loop never left something for later while it took other inputs"),
    is("prompt.not_answered", "the request that was just read was not answered yet"),
    is("prompt.often", "the loop was often seen to do at once what an input asks for"),
    is("prompt.one_at_once", "one read took the bytes of one request only"),
    is("relays.again", "it was seen more than once to pass on what a client had sent"),
    is(
        "relays.given_one",
        "what a client sent was all that the loop was given before it sent something to another client",
    ),
    is("reply.all_were_replied_to", "every request that was open when the worker called was replied to"),
    is("reply.never_busy_before", "workers of this process begin with a request's calls after it was taken"),
    is("reply.one_call_under_way", "the worker had one call under way"),
    is("rest.no_timer_due", "no timer of the process can have been due"),
    is("rest.nobody_waits", "no other request of the process could continue"),
    is("rest.nothing_of_others", "the process took nothing of another request since its last input"),
    is("same-reply.all_were_read", "the first bytes of every reply that was under way meanwhile were read"),
    is(
        "same-reply.always_passed_on",
        "the process often answered a request as a call was answered, and never otherwise",
    ),
    is("same-reply.asked_and_answered_meanwhile", "the call was made, and answered, before the request was answered"),
    is("same-reply.of_one_call", "no other call got an answer that begins alike"),
    is("same-reply.to_one_request", "no other request was answered alike"),
    is("served.accepted_alone", "no other connection was accepted before the task was made"),
    is("served.made_before_its_first_byte", "the task was made before the connection's first byte was read"),
    is("served.made_behind_its_accept", "the task was made after the connection was accepted"),
    is("served.made_for_one", "tasks that were made for a connection never replied on another one"),
    is("served.no_accept_was_lost", "no accept was lost"),
    is("served.one_each", "each connection of this process has its own task"),
    is("shared.same_errand", "nobody can have asked the task for anything after it sent the bytes before"),
    is("shared.sends_for_itself", "no task was seen to send what others had left to be sent on this connection"),
    is("sole.calls_often", "helpers of this process were often seen to call"),
    is("sole.handed_work", "requests hand work to this helper, or the process never calls on its own"),
    is("sole.never_without_a_request", "helpers of this process never called while no request was open"),
    is("sole.no_timer", "the helper was not woken by a timer"),
    is("sole.not_of_its_maker", "the helper had waited for work since it was made"),
    is("sole.often", "the process was often without an open request, so that calls of its own would have been seen"),
    is("spawned.ended_in_time", "the task ended before its request was answered"),
    is("spawned.never_otherwise", "tasks that a request makes always end before it is answered"),
    is("thread.keeps_what_it_takes", "the thread replies to the requests that it takes"),
    is("thread.one_at_a_time", "the thread works on one request at a time, and is no event loop"),
    is("thread.read_whole", "the thread has read the complete request"),
    is("turn.all_was_seen", "everything that the loop received in this turn was seen"),
    is("turn.no_answer", "the loop received no answer in this turn, which could let another request continue"),
    is("turn.no_others_work", "the event loops of this process do not give each other work"),
    is("turn.no_result_of_a_thread", "no thread of this process can have left a result for the loop"),
    is("turn.no_timer_due", "no timer of the loop can have been due"),
    is("turn.not_ahead", "the kernel does not receive ahead of the program (io_uring)"),
    is("turns.never_pushes", "the server of a WebSocket never sends messages unasked"),
    is("unasked.never_seen", "the process never makes a call without a request"),
    is("unasked.not_asked_again", "the call does not ask again for what its connection has just told"),
    is("waiting.never_several", "a request of this process never makes several calls at once"),
    is("waiting.no_pool", "the process has no pool, from which a request that waits could get another connection"),
    is("witness.all_of_one", "all identifiers that the call carries are of one request"),
    is("witness.all_were_read", "of every open request of the process the head was read"),
    is("witness.borne_by_one", "no other request of the process was seen to bear the call's identifier"),
    is("witness.is_open", "the request that bears the call's identifier is open"),
];

const fn is(name: &'static str, says: &'static str) -> Condition {
    Condition { name, says }
}

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static FAILED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// A condition of a rule.
#[inline]
pub(crate) fn holds(name: &'static str, condition: bool) -> bool {
    #[cfg(debug_assertions)]
    let condition = condition || is_weakened(name);
    if !condition && IS_WATCHED.get() {
        FAILED.with_borrow_mut(|failed| failed.push(name));
    }
    condition
}

/// From here on, conditions that do not hold are kept, until [`failed`] is asked.
pub(crate) fn watch() {
    IS_WATCHED.set(true);
    FAILED.take();
}

/// The conditions that did not hold since [`watch`], each once, in the order in which they were asked.
pub(crate) fn failed() -> Vec<Condition> {
    let mut found: Vec<Condition> = Vec::new();
    if IS_WATCHED.replace(false) {
        for name in FAILED.take() {
            let condition = CONDITIONS.iter().find(|c| c.name == name).copied();
            debug_assert!(condition.is_some(), "{name} is not listed");
            found.extend(condition.filter(|c| !found.contains(c)));
        }
    }
    found
}

#[cfg(debug_assertions)]
fn is_weakened(name: &str) -> bool {
    static WEAKENED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    WEAKENED.get_or_init(|| std::env::var("WAKEPATH_CANARY").unwrap_or_default()) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_fail_are_gathered_once_and_only_while_somebody_asks() {
        assert!(!holds("turn.all_was_seen", false));
        watch();
        let all = [("turn.no_timer_due", false), ("turn.no_answer", true), ("turn.no_timer_due", false)];
        assert_eq!(all.into_iter().filter(|&(name, is)| holds(name, is)).count(), 1);
        let said: Vec<_> = failed().into_iter().map(|c| (c.name, c.says)).collect();
        assert_eq!(said, [("turn.no_timer_due", "no timer of the loop can have been due")]);
        assert!(!holds("turn.all_was_seen", false));
        assert!(failed().is_empty());
    }
}
