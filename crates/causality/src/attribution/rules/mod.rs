//! One file a rule. Each says under which condition it holds, and the smallest case in which the condition fails and a link
//! would be wrong (`tests/golden/link.*`).
//!
//! Rules of [`EXCLUSIONS`] are asked when a call begins: who can have made it? The others ([`completion`], [`fork`],
//! [`reply`], [`awaited`], [`same_reply`]) hear of what happens later, and name whose a call was that was left open or pending.

pub(super) mod answered;
pub(super) mod asked_again;
pub(super) mod awaited;
pub(super) mod background;
pub(super) mod born;
pub(super) mod channel;
pub(super) mod client_task;
pub(super) mod completion;
pub(super) mod connection_task;
pub(super) mod consumer;
pub(super) mod fork;
pub(super) mod handoff;
pub(super) mod isolated;
pub(super) mod owner;
pub(super) mod paced;
pub(super) mod paired;
pub(super) mod pickup;
pub(super) mod prompt;
pub(super) mod reply;
pub(super) mod rest;
pub(super) mod same_reply;
pub(super) mod sole;
pub(super) mod spawned;
pub(super) mod thread;
pub(super) mod turn;
pub(super) mod unasked;
pub(super) mod waiting;
pub(super) mod witness;

use super::exclusion::ExclusionRule;

/// All of them, in any order.
pub(super) const EXCLUSIONS: &[ExclusionRule] = &[
    rest::RULE,
    isolated::RULE,
    thread::RULE,
    turn::RULE,
    pickup::RULE,
    handoff::RULE,
    sole::RULE,
    waiting::RULE,
    answered::RULE,
    unasked::RULE,
    paired::RULE,
    prompt::RULE,
    born::RULE,
    background::RULE,
    paced::RULE,
    consumer::RULE,
    asked_again::RULE,
    connection_task::RULE,
    spawned::RULE,
    channel::RULE,
    client_task::RULE,
    witness::RULE,
];

const _: () = {
    let mut i = 0;
    while i < EXCLUSIONS.len() {
        assert!(!EXCLUSIONS[i].says.is_empty());
        i += 1;
    }
};
