//! Names a slice: what it was spent on and where, by the outermost wait in which it lies or by what went on after that.

use super::{Detail, INTERPRETER, LOCK_ERRORS, Outer, Place, Reader, What};
use super::{is_flush, is_poll, port_of, stable};
use crate::causes::{Account, Cause};
use crate::reasons;
use crate::slices::{Slice, State};
use wakepath_model::ids::{HostId, TaskId};

/// A slice, and what lies around it.
pub(super) struct Naming<'n> {
    reader: &'n Reader<'n>,
    slice: &'n Slice,
    /// The wait of the path's own task in which it lies.
    outer: Option<&'n Outer>,
    /// The span in which it lies.
    place: Option<&'n Place>,
    /// All spans of the request.
    places: &'n [Place],
    /// The slice's own process.
    process: &'n str,
}

impl<'n> Naming<'n> {
    pub(super) fn new(
        reader: &'n Reader<'n>,
        slice: &'n Slice,
        outer: Option<&'n Outer>,
        place: Option<&'n Place>,
        places: &'n [Place],
    ) -> Naming<'n> {
        let process = reader.names.program(slice.host, slice.task);
        Naming { reader, slice, outer, place, places, process }
    }

    /// The slice's cause, and what is known besides.
    pub(super) fn name(&self) -> (What, Detail) {
        if let Some(named) = self.by_event().or_else(|| self.by_name_server()) {
            return named;
        }
        match self.outer {
            Some(o) => self.by_wait(o).or_else(|| self.by_others(o)).unwrap_or_else(|| self.by_work_behind()),
            None => self.by_itself(),
        }
    }

    /// What was to happen elsewhere is the cause, whatever the one that was asked did until then.
    fn by_event(&self) -> Option<(What, Detail)> {
        let (what, who, host) = self.place?.awaits.clone()?;
        let detail = Detail { object: Some(what), by: None, ..self.detail() };
        Some((self.what(Cause::Event, who, host), detail))
    }

    /// A name server's answer is the cause, whoever asked and whatever went on meanwhile.
    fn by_name_server(&self) -> Option<(What, Detail)> {
        let (server, asker, host) = self.place.and_then(|p| p.asked.clone()).or_else(|| {
            let o = self.outer?;
            Some((o.name_server.clone()?, self.service(o.waiter), o.waiter.0))
        })?;
        let meanwhile = self.outer.is_some_and(|o| self.task() != o.waiter).then(|| self.process.to_owned());
        Some((
            self.what(Cause::Dns, asker, host),
            Detail { object: Some(server), by: None, meanwhile, ..self.detail() },
        ))
    }

    /// Outside any wait: what the task did itself.
    fn by_itself(&self) -> (What, Detail) {
        let cause = self.reader.leaf(self.slice);
        let place = self.place.filter(|_| cause.about().account == Account::Taker);
        let service = place.map_or_else(|| self.service(self.task()), |p| p.service.clone());
        let object = place.and(self.slice.object.clone());
        (self.what(cause, service, self.slice.host), Detail { serving: self.serving(cause), object, ..self.detail() })
    }

    /// The wait itself, where that says more than what went on after it.
    fn by_wait(&self, o: &Outer) -> Option<(What, Detail)> {
        let s = self.slice;
        let named = |cause, detail| Some((self.what(cause, self.service(o.waiter), o.waiter.0), detail));
        let (syscall, by) = (o.syscall, o.by.map(|t| self.process_of(t)));
        let detail = self.detail();
        // a disk that is waited for is the cause for whoever waits, and for those of its service who wait for the one that waits; who
        // holds up another service by that did not make that wait for a disk
        let is_behind = matches!(o.state, State::Lock | State::Futex);
        let is_own = !is_behind || self.is_of_service(o.waiter);
        let is_paging = s.state == State::PageFault && is_behind && is_own;
        if is_flush(o.syscall) || is_paging || (s.state == State::Disk && o.state != State::Network && is_own) {
            let read = || s.object.clone().filter(|_| matches!(s.state, State::Disk | State::PageFault));
            let own = self.reader.file_of(o).filter(|_| !is_paging);
            // the file of another's call, after which it waits, is none of its own call's
            let is_anothers = own.is_none() && !is_paging && s.object.as_deref().is_some_and(|o| o.starts_with('…'));
            let (object, syscall) = (own.or_else(read), syscall.filter(|_| !is_anothers));
            let cause = if is_paging { Cause::PageFault } else { Cause::Disk };
            return named(cause, Detail { object, syscall, by, ..detail });
        }
        let asked_for = self.place.and_then(|p| p.asked_for.clone());
        if s.reason == Some(reasons::ALARM)
            && let Some(error) = self.place.map(|p| p.error.as_str()).filter(|e| LOCK_ERRORS.contains(e))
        {
            // the reply says what the wait was for, though not who held it
            let object = Some(format!("given up: {error}"));
            return named(Cause::Lock, Detail { syscall, object, serving: asked_for, ..detail });
        }
        if let Some(cause) = s.reason.and_then(Cause::of_reason).filter(|c| c.about().account == Account::Waiter) {
            let object = s.object.clone().filter(|_| cause == Cause::Inside);
            return named(cause, Detail { syscall, object, ..detail });
        }
        if s.reason == Some(reasons::HELD_INSIDE) {
            return named(Cause::Lock, Detail { object: s.object.clone(), serving: asked_for, ..detail });
        }
        let meanwhile = (s.depth > self.place.map_or(0, |p| p.depth)).then(|| self.process.to_owned());
        if o.state == State::Unread {
            let object = self.reader.unread(o);
            return named(Cause::SlowReader, Detail { syscall, by, object, meanwhile, ..detail });
        }
        if let Some(cause) = o.stopped_for {
            return named(cause, Detail { syscall, by, meanwhile, ..detail });
        }
        let tgid = |t: (HostId, TaskId)| (t.0, self.reader.names.tgid(t.0, t.1));
        if o.state == State::Futex {
            let is_own_thread = o.by.is_some_and(|by| tgid(by) == tgid(o.waiter));
            return named(Cause::Futex, Detail { syscall, by, meanwhile, is_own_thread, serving: asked_for, ..detail });
        }
        if Reader::is_lock(o) {
            let holder = self.reader.holder(o, s);
            let is_own_thread = holder.is_some_and(|by| tgid(by) == tgid(o.waiter));
            let by = holder.map(|t| self.process_of(t));
            let interpreter = || o.is_for_an_interpreter.then(|| INTERPRETER.to_owned());
            let file = || self.reader.file_of(o);
            let object = self.reader.asked_of_holder(o, holder).or_else(interpreter).or_else(file);
            let detail = Detail { syscall, by, meanwhile, is_own_thread, serving: asked_for, object, ..detail };
            return named(Cause::Lock, detail);
        }
        None
    }

    /// A loop's wait that a service of the request's ended while it served no part of it: what went on there was for another request. (A
    /// thread that reads waits for an answer of its own.)
    fn by_others(&self, o: &Outer) -> Option<(What, Detail)> {
        let (s, by) = (self.slice, o.by?);
        let names = self.reader.names;
        let is_its = |p: &&Place| p.task.is_some_and(|of| names.is_one_process(of, by) || names.is_alike(of, by));
        let first = self.places.iter().find(is_its)?;
        let is_served = self.places.iter().filter(is_its).any(|p| p.served.start < s.to && s.from < p.served.end);
        let is_within = s.depth <= self.place.map_or(0, |p| p.depth) || names.is_one_process(o.waiter, by);
        if is_served || is_within || !o.row.is_some_and(|w| is_poll(&w)) {
            return None;
        }
        let detail = Detail { reason: Some(reasons::OTHERS_ANSWERED), by: None, ..self.detail() };
        Some((self.what(Cause::Queue, first.service.clone(), first.host), detail))
    }

    /// What went on after a wait for another's work.
    fn by_work_behind(&self) -> (What, Detail) {
        let s = self.slice;
        let cause = self.reader.leaf(s);
        let mut detail = Detail { serving: self.serving(cause), ..self.detail() };
        let own = || self.service(self.task());
        let object = || s.object.as_deref().map(stable);
        let (service, host) = match (cause.about().account, self.place) {
            (Account::OwnWithPeer, _) => {
                detail.object = object();
                (own(), s.host)
            }
            (Account::Listener, _) => {
                detail.object = s.object.clone();
                (self.listener(), s.host)
            }
            (Account::Between | Account::Callee, Some(p)) if s.depth <= p.depth => {
                let caller = p.caller.as_deref().unwrap_or("the client");
                detail.object = Some(format!("between {caller} and {}", p.service));
                (p.service.clone(), p.host)
            }
            (Account::Callee, _) if s.object.is_some() => {
                detail.by = Some(self.process.to_owned());
                (object().unwrap_or_default(), s.host)
            }
            (Account::Between | Account::Callee, _) => {
                detail.object = object().map(|o| format!("between {} and {o}", self.process));
                (own(), s.host)
            }
            (Account::Taker, Some(p)) => {
                detail.object = s.object.clone();
                (p.service.clone(), p.host)
            }
            _ => {
                detail.object = s.object.clone().filter(|_| !matches!(s.state, State::Lock | State::Futex));
                (own(), s.host)
            }
        };
        (self.what(cause, service, host), detail)
    }

    /// The listener whose queue had no room: its process and port, or its address alone.
    fn listener(&self) -> String {
        let object = self.slice.object.as_deref();
        match self.slice.by {
            Some(by) => {
                let port = object.and_then(port_of).map_or_else(String::new, |p| format!(":{p}"));
                format!("{}{port}", self.process_of(by))
            }
            None => object.map_or_else(String::new, stable),
        }
    }

    /// What is known of the slice itself.
    fn detail(&self) -> Detail {
        let s = self.slice;
        Detail {
            state: s.state,
            syscall: s.syscall.filter(|_| s.state != State::Running && s.state != State::Preempted),
            by: s.by.map(|t| self.process_of(t)),
            object: None,
            meanwhile: None,
            is_own_thread: false,
            serving: None,
            reason: s.reason,
        }
    }

    fn what(&self, cause: Cause, service: String, host: HostId) -> What {
        What { cause, service, host: self.reader.names.host(host).to_owned() }
    }

    fn task(&self) -> (HostId, TaskId) {
        (self.slice.host, self.slice.task)
    }

    /// Whether the slice is of the process of a task, or of one like it.
    fn is_alike(&self, of: (HostId, TaskId)) -> bool {
        let (names, task) = (self.reader.names, self.task());
        names.is_one_process(of, task) || names.is_alike(of, task)
    }

    /// Whether the slice is of the service of a task. A helper of a server, which may be called otherwise than those that serve, listens
    /// nowhere.
    fn is_of_service(&self, of: (HostId, TaskId)) -> bool {
        let (names, (host, task)) = (self.reader.names, self.task());
        let is_helper = || self.reader.index.listens_at(host, names.tgid(host, task)).is_none();
        self.is_alike(of) || (of.0 == host && names.program(of.0, of.1) == self.process && is_helper())
    }

    fn process_of(&self, (host, task): (HostId, TaskId)) -> String {
        self.reader.names.program(host, task).to_owned()
    }

    /// The service that a task is of, else its process; two of one program's name are told apart. A caller takes the answer in the
    /// time of the one that it called.
    fn service(&self, task: (HostId, TaskId)) -> String {
        let names = self.reader.names;
        let places = || self.place.into_iter().chain(self.places);
        let served = |is: &dyn Fn((HostId, TaskId)) -> bool| places().find(|p| p.task.is_some_and(is));
        if let Some(place) = served(&|of| names.is_one_process(of, task)) {
            return place.service.clone();
        }
        let program = names.program(task.0, task.1);
        // who listens elsewhere is another service, also where it was forked from this one
        if let Some(port) = self.reader.index.listens_at(task.0, names.tgid(task.0, task.1)) {
            return format!("{program}:{port}");
        }
        match served(&|of| names.is_alike(of, task)) {
            Some(place) => place.service.clone(),
            None if places().any(|p| p.process == program) => names.with_argument(task.0, task.1),
            None => program.to_owned(),
        }
    }

    /// What the service had been asked for, of causes of its own.
    fn serving(&self, cause: Cause) -> Option<String> {
        let p = self.place.filter(|_| cause.about().names_request)?;
        p.asked_for.clone().filter(|_| p.task.is_some_and(|of| self.is_alike(of)))
    }
}
