//! Names of work, places and limits of a system, for people.

use crate::units;
use wakepath_forecast::bottleneck::{LINK, Limit, WAKE_UP};
use wakepath_forecast::outcome::Place;
use wakepath_forecast::system::{Discipline, Queue, QueueKind, StateId, Station, StationId, System, Workers};

/// Processors that other tasks have are named from here on.
const OTHERS_SHOWN: f64 = 0.1;

/// A number of servers, tokens or times, for people.
pub fn number(n: f64) -> String {
    let text = format!("{n:.2}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Work in words.
pub fn work(system: &System, id: StateId) -> String {
    let Some(s) = system.states.get(id.index()) else { return "unnamed work".into() };
    let (host, process) = (&s.host, &s.process);
    match s.state.as_str() {
        "cpu" => format!("{process} computing on {host}"),
        "disk" => format!("{process} using the disk of {host}"),
        "timer" => format!("{process} on {host} in waits that a timer ended (sleeps and timeouts)"),
        "outside" if host == "unwatched" => format!("{process}, which is not recorded"),
        "outside" => format!("{process} on {host} in waits that the model does not follow (`wakepath why` names them)"),
        LINK => format!("network and delivery {process}"),
        WAKE_UP => format!("{process} on {host} waking up"),
        other => format!("{process} on {host} in {other}"),
    }
}

pub(super) fn station(system: &System, id: StationId) -> (String, &'static str) {
    system.stations.get(id.index()).map_or(("?".into(), "servers"), |s| (s.name.clone(), s.what))
}

/// Servers of a station in words, with how many there are.
fn servers(system: &System, id: StationId) -> String {
    let (name, what) = station(system, id);
    let now = number(Limit::Servers(id).now(system));
    match system.stations.get(id.index()) {
        Some(s) if is_quota(s) => format!("CPU quota of {name} ({now} {what})"),
        Some(s) if s.others >= OTHERS_SHOWN => {
            format!("{what} of {name} ({now}; tasks that serve no request have {})", number(s.others))
        }
        _ => format!("{what} of {name} ({now})"),
    }
}

/// That a task is ready and waits for one of a station's servers.
fn waiting(system: &System, id: StationId) -> String {
    let (name, what) = station(system, id);
    let now = number(Limit::Servers(id).now(system));
    match system.stations.get(id.index()) {
        Some(s) if is_quota(s) => format!("waiting for the CPU quota of {name} ({now} {what})"),
        _ => format!("waiting for {what} of {name} ({now})"),
    }
}

fn is_quota(s: &Station) -> bool {
    matches!(s.discipline, Discipline::Quota { .. })
}

/// The queue's name without what its kind says already.
pub(super) fn bare(q: &Queue) -> &str {
    let kind = match q.kind {
        QueueKind::Workers(kind) => kind.names()[1],
        QueueKind::AcceptQueue => "accept queue",
        _ => return &q.name,
    };
    q.name.strip_suffix(kind).map_or(&q.name, str::trim_end)
}

pub(super) const fn queue_kind(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::AcceptQueue => "accept queue",
        QueueKind::Workers(_) => "workers",
        QueueKind::Pool => "pool",
        QueueKind::Lock => "lock",
        QueueKind::Link => "link",
        QueueKind::Buffer => "buffer",
        QueueKind::Annotated => "queue",
    }
}

/// A place of a path: its class, and it in words.
pub fn place(system: &System, at: Place) -> (&'static str, String) {
    let queue = |id: wakepath_forecast::system::QueueId| system.queues.get(id.index());
    match at {
        Place::State(s) => ("work", work(system, s)),
        Place::Station(s) => ("waiting", waiting(system, s)),
        Place::Queue(q) => (
            "queue",
            queue(q).map_or_else(String::new, |q| match q.kind {
                QueueKind::Link => format!("on the link {}", q.name),
                QueueKind::Workers(_) | QueueKind::Pool | QueueKind::Lock => format!("handing over {}", held(q)),
                _ => format!("passing through {}", q.name),
            }),
        ),
        Place::Full(q) => ("full", queue(q).map_or_else(String::new, |q| format!("waiting for {}", held(q)))),
    }
}

/// What one waits for at a queue.
pub(super) fn held(q: &Queue) -> String {
    match q.kind {
        QueueKind::Workers(kind) => format!("a {} of {}", kind.names()[0], bare(q)),
        QueueKind::Pool => format!("a connection of the pool {}", q.name),
        QueueKind::Lock => format!("the lock {}", q.name),
        QueueKind::AcceptQueue => format!("room in the accept queue of {}", bare(q)),
        _ => format!("room in {}", q.name),
    }
}

/// Whether more of a limit gain as much as the model says: not of processes whose clients stay with those that accepted their connections.
pub(super) fn is_spread(system: &System, l: Limit) -> bool {
    let Limit::Room(q) = l else { return true };
    system.queues.get(q.index()).is_none_or(|q| q.kind != QueueKind::Workers(Workers::Processes))
}

/// What a quota does not give however large it is: processors that are not there, or turns of an interpreter.
pub(super) fn beyond(system: &System, l: Limit, enough: f64) -> Option<String> {
    let Limit::Servers(id) = l else { return None };
    let Discipline::Quota { at_once, .. } = system.stations.get(id.index())?.discipline else { return None };
    (enough > f64::from(at_once)).then(|| {
        format!(
            "with a quota alone it can use {at_once} at a time: beyond that it also needs more that can run at once"
        )
    })
}

/// A limit in words, with how much there is of it.
pub fn limit(system: &System, l: Limit) -> String {
    let queue = |id: wakepath_forecast::system::QueueId| system.queues.get(id.index());
    match l {
        Limit::Servers(s) => servers(system, s),
        Limit::Room(q) => queue(q).map_or_else(String::new, |q| {
            let now = l.now(system);
            match q.kind {
                QueueKind::Workers(kind) => format!("{} of {} ({})", kind.names()[1], bare(q), number(now)),
                QueueKind::Pool => format!("pool {} ({})", q.name, number(now)),
                QueueKind::Lock => format!("lock {}", q.name),
                QueueKind::AcceptQueue => format!("room in the accept queue of {} ({})", bare(q), number(now)),
                _ if q.is_bytes => format!("room in {} ({})", q.name, units::bytes(now as u64)),
                _ => format!("room in {} ({})", q.name, number(now)),
            }
        }),
        Limit::Bandwidth(q) => queue(q).map_or_else(String::new, |q| {
            let rate = if q.is_bytes {
                format!("{}/s", units::bytes((1e9 / q.ns_per_item) as u64))
            } else {
                units::rate(1_000_000, (q.ns_per_item * 1e6) as u64)
            };
            format!("bandwidth of the link {} ({rate})", q.name)
        }),
        Limit::Delay(q) => queue(q)
            .map_or_else(String::new, |q| format!("delay of the link {} ({})", q.name, units::duration(q.delay_ns))),
        Limit::Work(s) => work(system, s),
    }
}

pub(super) fn percent(part: f64) -> String {
    format!("{} %", number(100.0 * part))
}

pub(super) fn is_bytes(system: &System, l: Limit) -> bool {
    matches!(l, Limit::Room(q) if system.queues.get(q.index()).is_some_and(|q| q.is_bytes))
}

#[cfg(test)]
mod tests {
    use crate::bottleneck::BottleneckView;
    use wakepath_forecast::bottleneck::{Enough, Found, Limit};
    use wakepath_forecast::system::{Discipline, Station, StationId, System};

    /// What is said of a quota of half a processor, with two that can run at once, where so much would be enough.
    fn of_quota(enough: f64) -> String {
        let discipline = Discipline::Quota { period_ns: 100_000_000, at_once: 2 };
        let name = "/shop".to_owned();
        let station = Station { name, what: "processors", servers: 0.5, speed: 1.0, others: 0.0, discipline };
        let system = System { stations: vec![station], ..System::default() };
        let found = Found {
            limits: vec![Limit::Servers(StationId(0))],
            gain: 3.0,
            outcome: None,
            tried: Vec::new(),
            enough: Some(Enough { now: 0.5, then: enough }),
        };
        BottleneckView::new(&system, &found).sentence("mean latency")
    }

    #[test]
    fn how_much_there_is_stands_beside_how_much_is_enough() {
        assert_eq!(
            of_quota(1.52),
            "CPU quota of /shop (0.5 processors). Without that limit mean latency would be 3 times shorter. Raising it \
             from 0.5 to 1.52 gives 90 % of the gain."
        );
        let beyond = of_quota(3.52);
        assert!(
            beyond.contains("from 0.5 to 3.52 gives 90 % of the gain (with a quota alone it can use 2 at"),
            "{beyond}"
        );
    }
}
