//! Habits of processes, as data: how often each could have been broken, and how often it was.
//!
//! A habit is no proof: what rests on one says so, with its cases. Workers that one master forked, and that run one program, count
//! together: one that got few connections in a short recording has too few cases of its own. What one of them does at times is no habit
//! of the others' either, but where they show it: then each goes by its own cases. Counts are sums, so that those of parts of a
//! recording can be added.

use crate::process::ProcessId;
use HabitId as H;
use Merge::{Always, Never, Unless};
use rustc_hash::FxHashMap;
use std::hash::Hash;
use wakepath_model::ids::StrId;

/// In how many cases an exception could have shown before most habits are believed.
pub(super) const CASES_MIN: u32 = 8;

/// How the habits of siblings become one's own.
enum Merge {
    /// They do not: each process has its own.
    Never,
    /// Where none of them ever made an exception from these.
    Unless(&'static [HabitId]),
    /// In any case: exceptions are so rare that one tells against all.
    Always,
}

/// Declares the habits, each with how those of siblings become one's own.
macro_rules! habits {
    ($($(#[$doc:meta])* $id:ident: $merge:expr,)+) => {
        /// What a process is seen to keep to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum HabitId { $($(#[$doc])* $id),+ }

        impl HabitId {
            const ALL: [HabitId; [$(stringify!($id)),+].len()] = [$(HabitId::$id),+];

            fn merge(self) -> Merge {
                match self { $(HabitId::$id => $merge),+ }
            }
        }
    };
}

/// What shows that a request is over with its reply.
const AFTER_REPLY: [HabitId; 3] = [H::OverWithReply, H::OverWithReplyDialled, H::OverWithReplyBesideOthers];

habits! {
    /// A request makes one call at a time. A case: one input led to just one call, and another one would have found a connection. An
    /// exception: several calls at once for one input, or more of them than requests.
    OneCall: Unless(&[H::OneCall]),
    /// The same of turns in which a connection was made for the call.
    OneCallDialled: Unless(&[H::OneCall, H::OneUse]),
    /// Each call has a connection of its own: no connection is used again.
    OneUse: Unless(&[H::OneUse]),
    /// Calls come after inputs. A case: a call was made after one. An exception: one was made before any.
    Asked: Unless(&[H::Asked, H::Idle]),
    /// Nothing is done while no request is open. A case: a time without one, between two that it had. An exception: a call then.
    Idle: Unless(&[H::Idle]),
    /// A request is over with its reply. A case: a turn with one input in which one was answered, and a call after that would have found
    /// a connection. An exception: such a call.
    OverWithReply: Unless(&AFTER_REPLY),
    /// The same of turns in which that call would have made a connection, or waited for one.
    OverWithReplyDialled: Unless(&[H::OverWithReply, H::OverWithReplyDialled, H::OverWithReplyBesideOthers, H::OneUse]),
    /// The same of calls while other requests are open: where requests move between tasks, one may have been handed over meanwhile.
    OverWithReplyBesideOthers: Unless(&AFTER_REPLY),
    /// After the answer to a call alone, the request is replied to that made it. A case: a reply to another one could have shown.
    AwaitsItsOwn: Unless(&[H::AwaitsItsOwn]),
    /// The same in turns in which the loop was given more. An exception, too: it took two answers before it did anything with the first.
    PassesOn: Unless(&[H::AwaitsItsOwn, H::PassesOn]),
    /// Connections are made for what was asked. A case: nothing was made for a connection that was accepted. An exception: one was.
    DialsWhenAsked: Unless(&[H::DialsWhenAsked]),
    /// What an input asks for is done at once. A case: a turn with several inputs in which calls were made, and never two after the same
    /// input. An exception: a second one behind it, which an earlier input had left for later.
    Prompt: Always,
    /// Each connection is made for one request. A case: one was used that was made beside another. An exception: there were more of them
    /// under way than requests when one was answered; or the first answer on one, taken before any other message of that turn, went to
    /// another request than the one for which it was made.
    DialsForOne: Always,
    /// Tasks that take no requests call for those that are open. A case: a call while one was open. An exception: one while none was.
    HelpersAreAsked: Unless(&[H::HelpersAreAsked]),
    /// A connection on which a loop waits for what happens elsewhere is its own. A case: it asked there again in the turn in which it was
    /// answered, while at most one request was open. An exception: it asked again in a later turn.
    ListensAgain: Unless(&[H::ListensAgain]),
    /// A connection serves the requests of one other connection. A case: one was used for the same again though another one was idle, and
    /// had not been used last. An exception: one was used for another.
    Paired: Never,
    /// A task that a request makes, and that calls, ends with it. A case: one did. An exception: one went on, or called after its end.
    EndsWithRequest: Never,
    /// A connection has a task of its own, which replies to all its requests. A case: one that replied again. An exception: one that
    /// replied on several.
    OneTaskReplies: Never,
    /// Who takes up a request calls for no other request until the reply. A case: all its calls since the last reply came after it had taken
    /// the request up. An exception: one came before.
    CallsForOne: Never,
    /// Who takes an item hands back what came of it, and does nothing for others meanwhile. A case: one called meanwhile. Exceptions show
    /// by the types of items.
    HandsBack: Never,
    /// A task for which its request does not wait makes all its calls after the end of that, and ends with the last answer. A case: one
    /// did. What did otherwise shows as an exception of the tasks that end with their request.
    Background: Never,
    /// Who replies to requests that another task read was made for their connection. A case: a reply of such a one. An exception: one of
    /// another task that replied again.
    MadeForConnection: Never,
    /// What a request makes hands on nothing to another request. An exception: one of its tasks got the answer to its call, and then that
    /// other one went on.
    HandsNothingOn: Never,
    /// Of a way in which tasks are woken before they send: who woke one so is resumed with the answer, or made it. A case: that. An
    /// exception: it resumed another one.
    ResumesWhoAsked: Never,
    /// Of such a way: tasks are woken so by others, or made by those that they send for. An exception: no task woke one so, or one was made
    /// so that others woke.
    WokenByWhoAsks: Never,
    /// Of such a way: a task that is made so sends once. An exception: one that sent again may have taken up others' work.
    MadeForOneCall: Never,
    /// Of such a way: a task that is woken so has one call at a time. An exception: it sent another before it had the answer.
    OneCallAtATime: Never,
    /// Requests are answered with what calls were answered with. A case: such an answer. An exception: one that no call had brought.
    PassesAnswersOn: Always,
}

impl HabitId {
    /// In how many cases an exception could have shown before it is believed.
    pub(crate) const fn min_cases(self) -> u32 {
        match self {
            // one that puts off every other time looks so, too, for a while
            HabitId::Prompt => 2 * CASES_MIN,
            _ => CASES_MIN,
        }
    }
}

/// How often a habit could have been broken, and how often it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) cases: u32,
    pub(crate) exceptions: u32,
}

impl Evidence {
    /// Whether it was never broken.
    pub(crate) fn is_kept(self) -> bool {
        self.exceptions == 0
    }

    /// In how many cases a habit was kept, where it was never broken and could have been often enough; else 0.
    pub(crate) fn believed_cases(self, id: HabitId) -> u32 {
        if self.is_kept() && self.cases >= id.min_cases() { self.cases } else { 0 }
    }
}

/// What one process is seen to keep to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits([Evidence; HabitId::ALL.len()]);

impl Habits {
    /// Counts cases.
    pub(crate) fn cases(&mut self, id: HabitId, count: u32) {
        let of = &mut self.0[id as usize];
        of.cases = of.cases.saturating_add(count);
    }

    /// Counts a case, if it is one.
    pub(crate) fn case_if(&mut self, id: HabitId, is_one: bool) {
        self.cases(id, u32::from(is_one));
    }

    /// Counts an exception, if it is one.
    pub(crate) fn exception_if(&mut self, id: HabitId, is_one: bool) {
        let of = &mut self.0[id as usize];
        of.exceptions = of.exceptions.saturating_add(u32::from(is_one));
    }

    /// What was seen of a habit.
    pub(crate) fn of(&self, id: HabitId) -> Evidence {
        self.0[id as usize]
    }

    /// What two processes did, as if one had done it.
    fn add(&mut self, other: &Habits) {
        for (own, others) in self.0.iter_mut().zip(&other.0) {
            own.cases = own.cases.saturating_add(others.cases);
            own.exceptions = own.exceptions.saturating_add(others.exceptions);
        }
    }

    /// Learns from all siblings together, of which it is one.
    fn learn(&mut self, all: &Habits) {
        for id in HabitId::ALL {
            match id.merge() {
                Merge::Always => self.0[id as usize] = all.of(id),
                Merge::Unless(broken) if broken.iter().all(|&id| all.of(id).is_kept()) => {
                    self.0[id as usize].cases = all.of(id).cases;
                }
                Merge::Unless(_) | Merge::Never => {}
            }
        }
    }
}

/// Most ways in which tasks are woken of which habits are kept: those beyond have none that are believed.
const WAYS_MAX: usize = 1 << 16;

/// All habits that were seen.
#[derive(Default)]
pub(crate) struct HabitTable {
    of: FxHashMap<ProcessId, Habits>,
    /// Those of a process's tasks that are woken in one way.
    of_ways: FxHashMap<(ProcessId, u64), Habits>,
}

impl HabitTable {
    /// Those of tasks of a process that have one name; its own where they have none. To count at; none where there is no room.
    pub(crate) fn at_kind(&mut self, process: ProcessId, kind: StrId) -> Option<&mut Habits> {
        if kind == StrId::EMPTY { Some(self.at(process)) } else { self.at_way(process, kind.0.into()) }
    }

    /// What was seen of a habit of such tasks.
    pub(crate) fn of_kind(&self, process: ProcessId, kind: StrId, id: HabitId) -> Evidence {
        if kind == StrId::EMPTY { self.of(process, id) } else { self.of_way(process, kind.0.into(), id) }
    }

    /// Those of a process, to count at.
    pub(crate) fn at(&mut self, process: ProcessId) -> &mut Habits {
        self.of.entry(process).or_default()
    }

    /// Those of tasks of a process that are woken in one way, to count at; none where there is no room for another way.
    pub(crate) fn at_way(&mut self, process: ProcessId, way: u64) -> Option<&mut Habits> {
        let has_room = self.of_ways.len() < WAYS_MAX || self.of_ways.contains_key(&(process, way));
        has_room.then(|| self.of_ways.entry((process, way)).or_default())
    }

    /// The processes that were seen to have one.
    pub(crate) fn processes(&self) -> Vec<ProcessId> {
        self.of.keys().copied().collect()
    }

    /// Counts at each worker what its siblings show; `master_of` names the master of a worker.
    pub(crate) fn merge<Master: Eq + Hash>(&mut self, master_of: impl Fn(ProcessId) -> Option<Master>) {
        let mut of_workers: FxHashMap<Master, Habits> = FxHashMap::default();
        for (&process, habits) in &self.of {
            if let Some(master) = master_of(process) {
                of_workers.entry(master).or_default().add(habits);
            }
        }
        for (&process, habits) in &mut self.of {
            if let Some(all) = master_of(process).and_then(|master| of_workers.get(&master)) {
                habits.learn(all);
            }
        }
    }

    /// Whether it could have been seen often enough that a process does not keep to a habit.
    pub(crate) fn is_often(&self, process: ProcessId, id: HabitId) -> bool {
        self.of(process, id).cases >= id.min_cases()
    }

    /// Whether a process is believed to keep to a habit.
    pub(crate) fn is_believed(&self, process: ProcessId, id: HabitId) -> bool {
        self.believed_cases(process, id) > 0
    }

    /// In how many cases a process kept to a habit; 0 where it is not believed to.
    pub(crate) fn believed_cases(&self, process: ProcessId, id: HabitId) -> u32 {
        self.of(process, id).believed_cases(id)
    }

    /// What was seen of a process's habit.
    pub(crate) fn of(&self, process: ProcessId, id: HabitId) -> Evidence {
        self.of.get(&process).map_or(Evidence::default(), |h| h.of(id))
    }

    /// What was seen of a habit of tasks that are woken in one way.
    pub(crate) fn of_way(&self, process: ProcessId, way: u64, id: HabitId) -> Evidence {
        self.of_ways.get(&(process, way)).map_or(Evidence::default(), |h| h.of(id))
    }
}

#[cfg(test)]
mod tests {
    use super::HabitId::*;
    use super::*;

    /// Of which habits the cases stay one's own, seen three times, beside a sibling that was seen ten times and broke these besides.
    fn own_beside(broken: &[HabitId]) -> Vec<HabitId> {
        let seen = |n: u32| {
            let mut habits = Habits::default();
            HabitId::ALL.iter().for_each(|&id| habits.cases(id, n));
            habits
        };
        let (mut one, mut all) = (seen(3), seen(3));
        all.add(&seen(10));
        broken.iter().for_each(|&id| all.exception_if(id, true));
        one.learn(&all);
        HabitId::ALL.into_iter().filter(|&id| one.of(id).cases == 3).collect()
    }

    /// Habits that each process has for itself.
    const OWN: &[HabitId] = &[
        Paired,
        EndsWithRequest,
        OneTaskReplies,
        CallsForOne,
        HandsBack,
        Background,
        MadeForConnection,
        HandsNothingOn,
        ResumesWhoAsked,
        WokenByWhoAsks,
        MadeForOneCall,
        OneCallAtATime,
    ];

    #[test]
    fn no_process_learns_what_a_sibling_does_not_keep_to() {
        let some: [(&[HabitId], &[HabitId]); 12] = [
            (&[Prompt], &[]),
            (&[OneCall], &[OneCall, OneCallDialled]),
            (&[OneUse], &[OneCallDialled, OneUse, OverWithReplyDialled]),
            (&[Idle], &[Asked, Idle]),
            (&[Asked], &[Asked]),
            (&[OverWithReply], &[OverWithReply, OverWithReplyDialled, OverWithReplyBesideOthers]),
            (&[OverWithReplyBesideOthers], &[OverWithReply, OverWithReplyDialled, OverWithReplyBesideOthers]),
            (&[AwaitsItsOwn], &[AwaitsItsOwn, PassesOn]),
            (&[PassesOn], &[PassesOn]),
            (&[DialsWhenAsked], &[DialsWhenAsked]),
            (&[HelpersAreAsked], &[HelpersAreAsked]),
            (&[ListensAgain], &[ListensAgain]),
        ];
        for (broken, own) in some {
            assert_eq!(own_beside(broken), [own, OWN].concat(), "{broken:?}");
        }
    }

    #[test]
    fn a_rare_exception_of_one_tells_against_all() {
        for id in [Prompt, DialsForOne, PassesAnswersOn] {
            let (mut one, mut all) = (Habits::default(), Habits::default());
            all.exception_if(id, true);
            one.learn(&all);
            assert!(!one.of(id).is_kept(), "{id:?}");
        }
    }
}
