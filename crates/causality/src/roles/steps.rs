//! What roles learn of exchanges, step by step.

use super::Roles;
use super::habits::HabitId;
use super::learned::{Asked, Dial, Taken};
use crate::exchange::{ExId, Side, Sign, Slab, Steps};
use crate::process::ProcessId;
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::OPEN;

impl Steps for Roles {
    const KEEPS: bool = false;

    fn begun(&mut self, xs: &Slab, x: ExId, _: MonoNs) {
        let e = xs.get(x);
        if e.is_internal {
            return;
        }
        let process = self.process_of(e.actor);
        match e.side {
            Side::Client => {
                let dial = self.dialled(e.flow, true);
                if dial.is_none() {
                    self.called(e.actor, e.flow, e.began, false);
                }
                self.asks(x, e, process, dial);
                self.answerers.called(xs, e, process, &mut self.habits);
            }
            Side::Server => self.answerers.took(xs, x),
        }
        let role = self.roles.entry(e.actor);
        match e.side {
            Side::Client => {
                role.calls = true;
                if !role.takes && self.requests.open.get(&process) == Some(&0) {
                    self.calls.unasked.insert(process, e.began);
                }
            }
            Side::Server => {
                role.takes = true;
                let round = self.loops.rounds.entry(e.actor);
                round.takes();
                round.taken = Taken { asked: e.flow, of: Some(x), answers: MonoNs(0), ..round.taken };
                round.epoll.asked_by =
                    if round.epoll.given_by != 0 { round.epoll.given_by } else { round.epoll.asked_by };
                if let Some((took, ..)) = self.loops.rests.get_mut(&process) {
                    *took += 1;
                }
                let open = self.requests.open.entry(process).or_default();
                if *open == 0 {
                    self.habits.at(process).cases(HabitId::Idle, 1);
                }
                *open += 1;
                self.requests.newest.insert(process, x);
                if *open > 1 {
                    self.requests.concurrent.insert(process);
                }
                if role.multiplexes {
                    // no more is asked of what it has
                    self.requests.held.remove(&e.actor);
                    return;
                }
                let held = self.requests.held.entry(e.actor).or_default();
                held.retain(|&h| {
                    xs.is_live(h) && {
                        let o = xs.get(h);
                        !(o.replied || o.cut || o.reset || (o.open_ended && o.reply_start != OPEN))
                    }
                });
                if held.iter().any(|&h| xs.get(h).flow != e.flow) {
                    role.multiplexes = true;
                }
                held.push(x);
            }
        }
    }

    fn reply_began(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let e = xs.get(x);
        if e.side == Side::Server && !e.is_internal {
            self.replies_to(xs, x, task, at);
            if task == e.actor {
                let (replies, unseen) = self.loops.replies.entry(task);
                *replies += 1;
                *unseen += u32::from(self.loops.rounds.get(task).is_given_unseen(at));
            }
        }
        if e.side == Side::Server {
            let process = self.process_of(task);
            self.answerers.replied(xs, x, (task, process), &mut self.habits);
        } else {
            self.answerers.answered(e, false);
        }
        if e.side == Side::Server && task != TaskId::UNKNOWN && e.actor != TaskId::UNKNOWN {
            let first = self.workers.first_calls.remove(&task);
            if let Some(at) = first.filter(|_| task != e.actor) {
                let habits = self.habits.at(self.process_of(task));
                habits.case_if(HabitId::CallsForOne, at >= e.taken);
                habits.exception_if(HabitId::CallsForOne, at < e.taken);
            }
            if self.is_taken_before_names(e, task) {
                // as one from before the recording: until now any call may be for it
                self.unseen_reply(task, at);
                return;
            }
            let role = self.roles.entry(task);
            if task == e.actor {
                role.replies_own = true;
            } else {
                role.replies_foreign = true;
                self.roles.entry(e.actor).gives_away = true;
            }
        }
    }

    fn request_progress(&mut self, _: &Slab, x: ExId, task: TaskId, _: MonoNs) {
        self.answerers.takes_more(task);
        let round = self.loops.rounds.entry(task);
        round.takes();
        (round.taken.of, round.taken.answers) = (Some(x), MonoNs(0));
    }

    fn reply_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, _: MonoNs) {
        let call = self.answered(x);
        if xs.get(x).side == Side::Server {
            let process = self.process_of(task);
            self.answerers.replies_on(xs, x, (task, process), &mut self.habits);
        } else {
            self.answerers.hears(xs.get(x));
        }
        if xs.get(x).side == Side::Client && !xs.get(x).is_internal {
            let round = self.loops.rounds.entry(task);
            let is_before_kept = round.keeps_an_answer() && round.taken.call != Some(x);
            round.takes();
            let e = xs.get(x);
            let (of, dialled_for) = (call.and_then(|call| call.of), call.and_then(|call| call.dialled_for));
            round.taken = Taken { heard: e.flow, call: Some(x), of, answers: e.began, dialled_for, ..round.taken };
            if is_before_kept {
                let process = self.process_of(task);
                self.habits.at(process).exception_if(HabitId::PassesOn, true);
            }
            // it may wait for an answer that another task reads
            self.workers.first_calls.entry(xs.get(x).actor).or_insert(xs.get(x).began);
        }
    }

    fn told(&mut self, xs: &Slab, x: ExId) {
        self.answerers.told(xs, x);
    }

    fn read_frames(&mut self, task: TaskId) {
        let taken = &mut self.loops.rounds.entry(task).taken;
        (taken.of, taken.answers) = (None, MonoNs(0));
    }

    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        self.answered(x);
        let e = xs.get(x);
        if e.is_internal {
            return;
        }
        if e.side != Side::Server {
            self.answerers.answered(e, true);
            if let Some(asked) = self.connections.asked_on.get_mut((HostId(0), e.flow)) {
                asked.under_way = asked.under_way.saturating_sub(1);
                *self.connections.spare.entry(self.process_of(e.actor)).or_default() += u32::from(asked.under_way == 0);
            }
            return;
        }
        self.answerers.closed(xs, x, at);
        // what it called between parts of that reply was for it
        self.workers.first_calls.remove(&e.reply_actor);
        let process = self.process_of(e.actor);
        if e.replied {
            self.has_replied(e.reply_actor, at);
            let (count, longest) = self.serving.lasted.entry(process).or_default();
            (*count, *longest) = (*count + 1, (*longest).max(e.ended.0.saturating_sub(e.began.0)));
        }
        if let Some(open) = self.requests.open.get_mut(&process) {
            *open = open.saturating_sub(1);
            if self.connections.dialling.get(&process).is_some_and(|dials| *dials > *open) {
                self.habits.at(process).exception_if(HabitId::DialsForOne, true);
            }
        }
        if let Some(held) = self.requests.held.get_mut(&e.actor) {
            held.retain(|&h| h != x);
        }
    }

    fn accepted(&mut self, flow: EndpointId, task: TaskId, at: MonoNs) {
        self.answerers.accepted(flow, self.process_of(task), at);
        // the poll found the listener, with which there is nothing to go on; what is read of each new connection is another matter
        let round = self.loops.rounds.entry(task);
        round.promptness.has_accepted = true;
        round.polled.ready =
            round.polled.ready.saturating_add(u32::from(std::mem::replace(&mut round.has_accepted, true)));
    }

    fn connecting(&mut self, _: &Slab, flow: EndpointId, task: TaskId, at: MonoNs) {
        let dial = Dial { by: task, of: self.maker(task, at) };
        if self.connections.connecting.insert(flow, dial).is_none() {
            self.loops.rounds.entry(task).has_dialled = true;
            *self.connections.dialling.entry(self.process_of(task)).or_default() += 1;
            self.called(task, flow, at, true);
        }
    }

    fn unseen_reply(&mut self, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let until = self.unseen.until.entry(process).or_default();
        *until = (*until).max(at);
        // it had that request in hand all the while
        if self.requests.held.get(&task).is_some_and(|held| !held.is_empty()) {
            self.roles.entry(task).multiplexes = true;
            self.requests.concurrent.insert(process);
        }
    }

    fn stray_reply(&mut self, _: TaskId, at: MonoNs) {
        // the request that it answers was lost: until now nobody knew that it was open
        if let Some(last) = self.unseen.losses.last_mut() {
            last.1 = last.1.max(at.0);
        }
    }

    fn unclear(&mut self, _: &Slab, _: Side, _: TaskId, _: MonoNs) {}

    fn unread(&mut self, _: &Slab, _: ProcessId, _: MonoNs) {}

    fn gave_up(&mut self, _: &Slab, y: ExId, _: TaskId) {
        self.answered(y);
    }

    fn left(&mut self, _: ExId, _: TaskId, _: MonoNs) {}

    fn flow_gone(&mut self, _: &Slab, flow: EndpointId) {
        self.answerers.gone(flow);
        if let Some(Asked { under_way: 0, process, .. }) = self.connections.asked_on.remove((HostId(0), flow)) {
            let spare = self.connections.spare.entry(process).or_default();
            *spare = spare.saturating_sub(1);
        }
        if let Some(dial) = self.dialled(flow, false) {
            // refused: somebody tries again elsewhere
            let round = self.loops.rounds.entry(dial.by);
            round.polled.ready = round.polled.ready.saturating_add(1);
        }
    }

    fn pushed(&mut self, process: ProcessId, side: Side) {
        self.serving.pushing.insert((process, side));
    }

    fn pushes(&self, _: ProcessId, _: Side) -> bool {
        // that is known when all was seen
        false
    }

    fn turns_away(&self, task: TaskId) -> bool {
        Roles::turns_away(self, task)
    }

    fn sign(&self, _: &Slab, _: ExId) -> Sign {
        // whose calls are whose is not known yet
        Sign { has_dropped: true, ..Sign::default() }
    }

    fn longest(&self, process: ProcessId) -> u64 {
        Roles::longest(self, process)
    }

    fn process_of(&self, task: TaskId) -> ProcessId {
        Roles::process_of(self, task)
    }
}
