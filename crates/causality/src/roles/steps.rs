//! What roles learn of exchanges, step by step.

use super::Roles;
use super::doing::{Asked, Doing, Taken, TurnFlag};
use super::habits::HabitId;
use super::resumed::Given;
use crate::exchange::{Channels, ExId, ExchangeFlag, More, Said, Side, Sign, Slab, Steps};
use crate::process::ProcessId;
use crate::process::dials::Dial;
use crate::process::known::{Does, ProcessFlag};
use wakepath_model::ids::{EndpointId, HostId, MonoNs, TaskId};
use wakepath_model::rows::{OPEN, OpRow, fingerprint};

impl Steps for Roles {
    const KEEPS: bool = false;

    fn begun(&mut self, xs: &Slab, x: ExId, _: MonoNs) {
        let e = xs.get(x);
        if e.is(ExchangeFlag::Internal) {
            return;
        }
        let process = self.process_of(e.request.actor);
        match e.side {
            Side::Client => {
                let dial = self.dialled(e.flow, true);
                if dial.is_none() {
                    self.called(e.request.actor, e.flow, e.request.began, false);
                }
                self.asks(x, e, process, dial);
                self.begins_stream(e, process);
                self.logical_tasks.called(xs, e, process, &mut self.habits);
                self.listens(e, process);
                if e.awaits() && e.request.actor == e.request.task {
                    self.consumers.asked(e.request.task, e.request.began);
                }
            }
            Side::Server => self.logical_tasks.took(xs, x),
        }
        let role = &mut self.known.at_task(e.request.actor).role;
        match e.side {
            Side::Client => {
                role.add(Does::Call);
                let takes = role.has(Does::Take);
                let p = self.known.at(process);
                if !takes && let Some(open) = p.now.open {
                    if open == 0 {
                        p.calls.unasked = e.request.began;
                    }
                    let idle_since = (open == 0).then_some(p.now.idle_since);
                    if !self.logical_tasks.is_in_line(e) {
                        self.logical_tasks.paced.called(e.request.actor, e.request.began, idle_since);
                    }
                    self.habits.at(process).case_if(HabitId::HelpersAreAsked, open > 0);
                    self.habits.at(process).exception_if(HabitId::HelpersAreAsked, open == 0);
                    self.known.at_task(e.request.actor).role.add_if(Does::CallUnasked, open == 0);
                }
            }
            Side::Server => {
                role.add(Does::Take);
                let multiplexes = role.has(Does::Multiplex);
                let Doing { activity, held, .. } = self.doing.or_default(e.request.actor);
                activity.takes();
                activity.taken = Taken { asked: e.flow, of: Some(x), answers: MonoNs(0), ..activity.taken };
                activity.epoll.asked_by =
                    if activity.epoll.given_by != 0 { activity.epoll.given_by } else { activity.epoll.asked_by };
                let p = self.known.at(process);
                if let Some(rest) = &mut p.now.rest {
                    rest.took += 1;
                }
                let open = p.now.open.get_or_insert(0);
                self.habits.at(process).case_if(HabitId::Idle, *open == 0);
                *open += 1;
                p.flags.add_if(ProcessFlag::Concurrent, *open > 1);
                p.flags.add_if(ProcessFlag::ServesClients, !Channels::is_end(e.flow));
                p.now.newest = Some(x);
                if multiplexes {
                    // no more is asked of what it has
                    *held = Vec::new();
                    return;
                }
                held.retain(|&h| {
                    xs.is_live(h) && {
                        let o = xs.get(h);
                        !(o.is(ExchangeFlag::Replied)
                            || o.is(ExchangeFlag::Cut)
                            || o.is(ExchangeFlag::Reset)
                            || (o.is(ExchangeFlag::OpenEnded) && o.reply.start != OPEN))
                    }
                });
                self.known
                    .at_task(e.request.actor)
                    .role
                    .set(Does::Multiplex, held.iter().any(|&h| xs.get(h).flow != e.flow));
                held.push(x);
            }
        }
    }

    fn reply_began(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let e = xs.get(x);
        if e.side == Side::Server && !e.is(ExchangeFlag::Internal) {
            self.sends_on(xs, x, task, at);
            self.replies_to(xs, x, task, at);
            if task == e.request.actor {
                let Doing { activity, replies: (replies, unseen), .. } = self.doing.or_default(task);
                *replies += 1;
                *unseen += u32::from(activity.is_given_unseen(at));
            }
        }
        if e.side == Side::Server {
            let process = self.process_of(task);
            self.logical_tasks.replied(xs, x, (task, process), &mut self.habits);
        } else {
            self.logical_tasks.answered(e, false);
        }
        if e.side == Side::Server && task != TaskId::UNKNOWN && e.request.actor != TaskId::UNKNOWN {
            let first = self.doing.get_mut(task).and_then(|d| d.first_call.take());
            if let Some(at) = first.filter(|_| task != e.request.actor) {
                let habits = self.habits.at(self.process_of(task));
                habits.case_if(HabitId::CallsForOne, at >= e.request.taken);
                habits.exception_if(HabitId::CallsForOne, at < e.request.taken);
            }
            if self.is_taken_before_names(e, task) {
                // as one from before the recording: until now any call may be for it
                self.unseen_reply(task, at);
                return;
            }
            let role = &mut self.known.at_task(task).role;
            if task == e.request.actor {
                role.add(Does::ReplyItself);
            } else {
                role.add(Does::ReplyForOthers);
                self.known.at_task(e.request.actor).role.add(Does::GiveAway);
            }
        }
    }

    fn request_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, _: MonoNs) {
        let e = xs.get(x);
        self.logical_tasks.resumed.takes(e.request.task, e.flow, Some(Given::Request(e.request.actor)));
        let activity = &mut self.doing.or_default(task).activity;
        activity.takes();
        (activity.taken.of, activity.taken.answers) = (Some(x), MonoNs(0));
    }

    fn moved_within(&mut self, way: u64, r: &OpRow) {
        self.logical_tasks.moved_within(way, r);
    }

    fn sends_more(&mut self, xs: &Slab, y: ExId, task: TaskId, _: MonoNs) -> More {
        let e = xs.get(y);
        if self.logical_tasks.are_several(e, task) {
            self.multiplexed.add(e.flow);
        }
        More::OfIt
    }

    fn reply_progress(&mut self, xs: &Slab, x: ExId, task: TaskId, at: MonoNs) {
        let call = self.answered(x);
        if xs.get(x).side == Side::Server {
            let process = self.process_of(task);
            self.logical_tasks.replies_on(xs, x, (task, process), &mut self.habits);
        } else {
            self.logical_tasks.hears(xs.get(x));
            if xs.get(x).awaits() {
                self.consumers.answered(task);
                self.listening.hears(xs.get(x).flow, at);
            }
        }
        if xs.get(x).side == Side::Client && !xs.get(x).is(ExchangeFlag::Internal) {
            let activity = &mut self.doing.or_default(task).activity;
            let is_before_kept = activity.keeps_an_answer() && activity.taken.call != Some(x);
            activity.takes();
            let e = xs.get(x);
            let (of, dialled_for) = (call.and_then(|call| call.of), call.and_then(|call| call.dialled_for));
            activity.taken =
                Taken { heard: e.flow, call: Some(x), of, answers: e.request.began, dialled_for, ..activity.taken };
            if is_before_kept {
                let process = self.process_of(task);
                self.habits.at(process).exception_if(HabitId::PassesOn, true);
            }
            // it may wait for an answer that another task reads
            self.doing.or_default(xs.get(x).request.actor).first_call.get_or_insert(xs.get(x).request.began);
        }
    }

    fn said(&mut self, process: ProcessId, side: Side, said: Said) {
        if said.fingerprint <= fingerprint::NOTHING {
            return;
        }
        const NO_SUCCESS: u16 = 300;
        let answers = self.answers.entry(process).or_default();
        if side == Side::Client {
            answers.at(said.fingerprint);
        } else if said.status < NO_SUCCESS {
            // other replies may be a proxy's own
            let is_passed_on = answers.get(said.fingerprint).is_some();
            let habits = self.habits.at(process);
            habits.case_if(HabitId::PassesAnswersOn, is_passed_on);
            habits.exception_if(HabitId::PassesAnswersOn, !is_passed_on);
        }
    }

    fn identified(&mut self, xs: &Slab, x: ExId) {
        self.logical_tasks.lineage.identified(xs, x);
    }

    fn read_frames(&mut self, task: TaskId) {
        let taken = &mut self.doing.or_default(task).activity.taken;
        (taken.of, taken.answers) = (None, MonoNs(0));
    }

    fn closed(&mut self, xs: &Slab, x: ExId, at: MonoNs) {
        self.answered(x);
        let e = xs.get(x);
        if e.is(ExchangeFlag::Internal) {
            return;
        }
        if e.side != Side::Server {
            self.logical_tasks.answered(e, true);
            self.logical_tasks.paced.answered(e.request.actor, e.reply.ended);
            if let Some(asked) = self.under_way.asked_on.get_mut((HostId(0), e.flow)) {
                asked.under_way = asked.under_way.saturating_sub(1);
                let process = self.known.process_of(e.request.actor);
                self.known.at(process).now.spare += u32::from(asked.under_way == 0);
            }
            return;
        }
        self.logical_tasks.closed(xs, x, at);
        // what it called between parts of that reply was for it
        if let Some(doing) = self.doing.get_mut(e.reply.actor) {
            doing.first_call = None;
        }
        let process = self.process_of(e.request.actor);
        if e.is(ExchangeFlag::Replied) {
            self.has_replied(e.reply.actor, at);
            let (count, longest) = &mut self.known.at(process).lasted;
            (*count, *longest) = (*count + 1, (*longest).max(e.duration_ns()));
        } else if e.reply.is_none() {
            let until = at.0.saturating_add(self.longest(process));
            self.known.at(process).unanswered.push(e.request.taken.0, until);
        }
        let now = &mut self.known.at(process).now;
        if let Some(open) = &mut now.open {
            *open = open.saturating_sub(1);
            now.idle_since = now.idle_since.max(at);
            let is_more = self.under_way.dials.count(process) > *open as usize;
            self.habits.at(process).exception_if(HabitId::DialsForOne, is_more);
        }
        if let Some(doing) = self.doing.get_mut(e.request.actor) {
            doing.held.retain(|&h| h != x);
        }
    }

    fn accepted(&mut self, flow: EndpointId, task: TaskId, at: MonoNs) {
        self.logical_tasks.connection_tasks.accepted(flow, self.known.process_of(task), at);
        // the poll found the listener, with which there is nothing to go on; what is read of each new connection is another matter
        let activity = &mut self.doing.or_default(task).activity;
        activity.promptness.has_accepted = true;
        let is_again = !activity.flags.insert(TurnFlag::Accepted);
        activity.turn.ready = activity.turn.ready.saturating_add(u32::from(is_again));
    }

    fn connecting(&mut self, _: &Slab, flow: EndpointId, task: TaskId, at: MonoNs) {
        let (of, process) = (self.maker(task, at), self.process_of(task));
        let dial = Dial { of, by: task, process, since: at, ..Dial::default() };
        if self.under_way.dials.begin(flow, dial) {
            self.doing.or_default(task).activity.flags.add(TurnFlag::Dialled);
            self.called(task, flow, at, true);
        }
    }

    fn unseen_reply(&mut self, task: TaskId, at: MonoNs) {
        let process = self.process_of(task);
        let is_beside_another = self.doing.get(task).is_some_and(|d| !d.held.is_empty());
        let p = self.known.at(process);
        p.unseen_until = p.unseen_until.max(at);
        // it had that request in hand all the while
        p.flags.add_if(ProcessFlag::Concurrent, is_beside_another);
        self.known.at_task(task).role.add_if(Does::Multiplex, is_beside_another);
    }

    fn stray_reply(&mut self, _: TaskId, at: MonoNs) {
        // the request that it answers was lost: until now nobody knew that it was open
        self.losses.lasts_to(at);
    }

    fn gave_up(&mut self, _: &Slab, y: ExId, _: TaskId) {
        self.answered(y);
    }

    fn flow_gone(&mut self, _: &Slab, flow: EndpointId) {
        self.logical_tasks.gone(flow);
        self.multiplexed.gone(flow);
        if let Some(Asked { under_way: 0, process, .. }) = self.under_way.asked_on.remove((HostId(0), flow)) {
            let spare = &mut self.known.at(process).now.spare;
            *spare = spare.saturating_sub(1);
        }
        if let Some(dial) = self.dialled(flow, false) {
            // refused: somebody tries again elsewhere
            let activity = &mut self.doing.or_default(dial.by).activity;
            activity.turn.ready = activity.turn.ready.saturating_add(1);
        }
    }

    fn pushed(&mut self, process: ProcessId, side: Side) {
        self.known.pushed(process, side);
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
