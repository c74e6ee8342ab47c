//! Laws that hold for any system.

use crate::build::*;
use proptest::prelude::*;
use wakepath_forecast::bottleneck::Limit;
use wakepath_forecast::outcome::Outcome;
use wakepath_forecast::replay::{Options, replay};
use wakepath_forecast::slack::slack;
use wakepath_forecast::system::*;

/// A pipeline of machines, each of which takes from the one before and gives to the one after, as it was recorded.
#[derive(Clone, Debug)]
struct Pipeline {
    /// Work of each machine on each item.
    work: Vec<Vec<u64>>,
    /// Room and delay of the queue before each machine but the first.
    queues: Vec<(Option<u64>, u64)>,
    /// What who waits for an item needs to go on, by queue.
    latency: Vec<u64>,
}

fn pipeline() -> impl Strategy<Value = Pipeline> {
    (1usize..5, 1usize..12).prop_flat_map(|(machines, items)| {
        let work = prop::collection::vec(prop::collection::vec(1u64..1000, items), machines);
        let queue = (prop::option::weighted(0.7, 1u64..4), prop_oneof![Just(0u64), 0u64..500]);
        let queues = prop::collection::vec(queue, machines - 1);
        let latency = prop::collection::vec(0u64..50, machines - 1);
        (work, queues, latency).prop_map(|(work, queues, latency)| Pipeline { work, queues, latency })
    })
}

impl Pipeline {
    /// When each machine is through, by the recurrence that defines it. `None` where an item arrives in the very
    /// nanosecond in which its machine asks for it: whether the machine waited, and so whether it pays the latency,
    /// then depends on which of the two happens first, and the recording does not say.
    fn ends(&self) -> Option<Vec<u64>> {
        let (machines, items) = (self.work.len(), self.work[0].len());
        // when item i left machine m's queue, and when it was put into the next
        let mut taken = vec![vec![0u64; items]; machines];
        let mut given = vec![vec![0u64; items]; machines];
        for i in 0..items {
            for m in 0..machines {
                let free = if i == 0 { 0 } else { given[m][i - 1] };
                taken[m][i] = match m {
                    0 => free,
                    _ => {
                        let there = given[m - 1][i] + self.queues[m - 1].1;
                        if there == free && self.latency[m - 1] > 0 {
                            return None;
                        }
                        if there > free { there + self.latency[m - 1] } else { free }
                    }
                };
                // room is there when the item so many before was taken; all of an item's way is known by then, since
                // the next machine's takes depend on earlier items only
                let done = taken[m][i] + self.work[m][i];
                given[m][i] = match self.queues.get(m) {
                    Some(&(Some(room), _)) if i as u64 >= room => done.max(taken[m + 1][i - room as usize]),
                    _ => done,
                };
            }
        }
        Some(given.iter().map(|g| *g.last().unwrap()).collect())
    }

    fn system(&self) -> System {
        let mut b = Build::new();
        for (i, &(room, delay)) in self.queues.iter().enumerate() {
            b.queue(&format!("queue {i}"), room, 0);
            b.0.queues[i].delay_ns = delay;
        }
        for (m, works) in self.work.iter().enumerate() {
            let state = b.state(&format!("machine {m}"), "works", None);
            let kind = b.kind(&format!("machine {m}"));
            let mut steps = vec![Step::Begin { kind }];
            for &ns in works {
                if m > 0 {
                    steps.push(get_late(QueueId(m as u32 - 1), self.latency[m - 1]));
                }
                steps.push(work(state, ns));
                if m < self.queues.len() {
                    steps.push(put(QueueId(m as u32), 1));
                }
            }
            steps.push(Step::End);
            b.machine(&format!("machine {m}"), steps);
        }
        b.0
    }
}

/// A system of anything.
fn anything() -> impl Strategy<Value = System> {
    let number = || prop_oneof![0u64..5, Just(u64::MAX), 0u64..100_000];
    let id = || 0u32..4;
    let step = prop_oneof![
        (id(), number()).prop_map(|(s, ns)| Step::Work { state: StateId(s), ns }),
        (id(), 0u64..4, number()).prop_map(|(q, count, latency_ns)| Step::Enqueue {
            queue: QueueId(q),
            count,
            latency_ns
        }),
        (id(), 0u64..4, number()).prop_map(|(q, count, latency_ns)| Step::Dequeue {
            queue: QueueId(q),
            count,
            latency_ns
        }),
        id().prop_map(|s| Step::Fork { script: ScriptId(s) }),
        Just(Step::Join),
        id().prop_map(|k| Step::Begin { kind: KindId(k) }),
        Just(Step::End),
    ];
    let float = || {
        prop_oneof![Just(0.0), Just(1.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), Just(1e-300), 0.1f64..4.0]
    };
    let station = (float(), float(), any::<bool>()).prop_map(|(servers, speed, shared)| Station {
        name: "station".into(),
        what: "processors",
        servers,
        speed,
        others: 0.0,
        discipline: if shared { Discipline::Shared } else { Discipline::Fifo },
    });
    let kind = prop_oneof![Just(QueueKind::Pool), Just(QueueKind::Buffer), Just(QueueKind::Annotated)];
    let retry = |(first_ns, linear)| WhenFull::Retry { first_ns, linear };
    let full = prop_oneof![Just(WhenFull::Wait), (number(), any::<u8>()).prop_map(retry)];
    let queue = (kind, prop::option::of(number()), number(), number(), float(), full).prop_map(
        |(kind, capacity, initial, delay_ns, ns_per_item, when_full)| Queue {
            name: "queue".into(),
            kind,
            capacity,
            initial,
            delay_ns,
            ns_per_item,
            when_full,
            is_bytes: false,
        },
    );
    let state = prop::option::of(id()).prop_map(|station| State {
        host: "host".into(),
        process: "process".into(),
        state: "state".into(),
        station: station.map(StationId),
    });
    let runs = prop_oneof![id().prop_map(|s| Runs::Script(ScriptId(s))), Just(Runs::Shared)];
    let actor = (number(), runs).prop_map(|(start_ns, runs)| Actor { name: "actor".into(), start_ns, runs });
    let few = 0usize..4;
    (
        prop::collection::vec(station, few.clone()),
        prop::collection::vec(queue, few.clone()),
        prop::collection::vec(state, few.clone()),
        prop::collection::vec(prop::collection::vec(step, 0..12), few),
        prop::collection::vec(actor, 0..8),
        prop::collection::vec((id(), number()), 0..4),
        0u32..4,
    )
        .prop_map(|(stations, queues, states, scripts, actors, shared, rounds)| {
            let mut b = Build(System { stations, queues, states, actors, rounds, ..System::default() });
            b.0.kinds = vec!["kind".into(); 3];
            for steps in scripts {
                b.script(steps);
            }
            b.0.shared = shared.into_iter().map(|(script, pause)| (ScriptId(script), pause)).collect();
            b.0
        })
}

/// Transactions of a sensible system: clients with work on hosts, pools and ways.
fn clients() -> impl Strategy<Value = System> {
    let station = (1u32..8, any::<bool>()).prop_map(|(quarters, fifo)| (quarters, fifo));
    let part = prop_oneof![(0usize..2, 1u64..500).prop_map(Ok), (1u64..200).prop_map(Err)];
    let job = prop::collection::vec(part, 1..5);
    (prop::collection::vec(station, 2), prop::collection::vec(job, 1..30), 1usize..6, 1u64..4).prop_map(
        |(stations, jobs, clients, tokens)| {
            let mut b = Build::new();
            for (quarters, fifo) in stations {
                match fifo {
                    true => b.station(f64::from(quarters.div_ceil(4)), Discipline::Fifo),
                    false => b.station(f64::from(quarters) / 4.0, Discipline::Shared),
                };
            }
            let states: Vec<StateId> = (0..2).map(|i| b.state("p", "works", Some(StationId(i)))).collect();
            let pool = b.queue("pool", None, tokens);
            b.0.queues[0].kind = QueueKind::Pool;
            let kind = b.kind("job");
            for job in jobs {
                let mut steps = vec![Step::Begin { kind }];
                for part in job {
                    match part {
                        Ok((state, ns)) => steps.push(work(states[state], ns)),
                        Err(ns) => steps.extend([get(pool, 1), work(states[0], ns), put(pool, 1)]),
                    }
                }
                steps.push(Step::End);
                let script = b.script(steps);
                b.0.shared.push((script, 0));
            }
            b.clients(clients);
            b.0
        },
    )
}

fn run(system: &System) -> Outcome {
    replay(system, &Options { steps_max: 20_000, window: 64, ..Options::default() })
}

/// Everything twice as long.
fn doubled(system: &System) -> System {
    let mut s = system.clone();
    for step in &mut s.steps {
        match step {
            Step::Work { ns, .. } => *ns *= 2,
            Step::Enqueue { latency_ns, .. } | Step::Dequeue { latency_ns, .. } if *latency_ns != NOT_SEEN => {
                *latency_ns *= 2;
            }
            _ => {}
        }
    }
    for queue in &mut s.queues {
        queue.delay_ns *= 2;
        queue.ns_per_item *= 2.0;
    }
    s.shared.iter_mut().for_each(|(_, pause)| *pause *= 2);
    s
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_recorded_comes_out_again(p in pipeline()) {
        let expected = p.ends();
        prop_assume!(expected.is_some());
        let outcome = run(&p.system());
        let ends: Vec<u64> = outcome.kinds.iter().map(|k| k.latency.max()).collect();
        prop_assert_eq!(Some(&ends), expected.as_ref());
        prop_assert_eq!(outcome.elapsed_ns, *ends.iter().max().unwrap());
        prop_assert!(outcome.stuck.is_empty());
        prop_assert_eq!(length(&outcome.path), outcome.elapsed_ns);
    }

    #[test]
    fn more_room_and_less_work_never_make_a_pipeline_slower(p in pipeline(), which in 0u32..4) {
        // the latency of who waits is paid by who is early: without it, earlier is never later
        let p = Pipeline { latency: vec![0; p.latency.len()], ..p };
        let system = p.system();
        let before = run(&system).elapsed_ns;
        let queue = QueueId(which);
        for limit in [Limit::Room(queue), Limit::Delay(queue), Limit::Bandwidth(queue), Limit::Work(StateId(which))] {
            let half = run(&widened(&system, limit, 2.0));
            let none = run(&widened(&system, limit, f64::INFINITY));
            prop_assert!(half.stuck.is_empty() && none.stuck.is_empty());
            prop_assert!(half.elapsed_ns <= before + p.work[0].len() as u64);
            prop_assert!(none.elapsed_ns <= half.elapsed_ns + p.work[0].len() as u64);
        }
    }

    #[test]
    fn of_what_comes_together_one_has_no_slack(p in pipeline()) {
        let all = slack(&p.system());
        for to in all.iter().map(|s| s.to) {
            let count: u64 = all.iter().filter(|s| s.to == to).map(|s| s.count).sum();
            prop_assert_eq!(count % 2, 0);
            prop_assert!(all.iter().any(|s| s.to == to && s.least_ns == 0));
        }
    }

    #[test]
    fn twice_as_much_takes_twice_as_long(system in clients(), p in pipeline()) {
        for system in [system, p.system()] {
            let (once, twice) = (run(&system), run(&doubled(&system)));
            // the sum is kept in fractions, the report is not
            prop_assert!(twice.elapsed_ns.abs_diff(2 * once.elapsed_ns) <= 1);
            prop_assert_eq!(once.transactions, twice.transactions);
        }
    }

    #[test]
    fn work_is_conserved(system in clients()) {
        let outcome = run(&system);
        prop_assert!(outcome.stuck.is_empty());
        prop_assert_eq!(outcome.transactions, system.shared.len() as u64);
        for (i, station) in system.stations.iter().enumerate() {
            let asked: u64 = system.steps.iter().map(|step| match step {
                Step::Work { state, ns } if state.index() == i => *ns,
                _ => 0,
            }).sum();
            prop_assert!(outcome.stations[i].busy_ns.abs_diff(asked) <= 1);
            // and no more is done than there are servers for
            prop_assert!(asked as f64 <= outcome.elapsed_ns as f64 * station.servers + 1.0);
        }
        // durations are the sum of their shares, the run that of its path
        let latency = outcome.kinds[0].latency.sum() as u64;
        prop_assert!(length(&outcome.kinds[0].shares).abs_diff(latency) <= outcome.transactions + 10);
        prop_assert!(length(&outcome.path).abs_diff(outcome.elapsed_ns) <= 10);
        prop_assert!(outcome.loops.iter().all(|l| l.ns <= outcome.elapsed_ns + 1));
        // the token is all there in the end
        prop_assert!(outcome.queues[0].most <= system.queues[0].initial);
    }

    #[test]
    fn the_same_again_is_the_same(system in anything()) {
        prop_assert_eq!(format!("{:?}", run(&system).path), format!("{:?}", run(&system).path));
    }

    #[test]
    fn nothing_panics_and_all_end(system in anything()) {
        let outcome = run(&system);
        prop_assert!(outcome.steps <= 20_000);
        slack(&System { rounds: 1, ..system.clone() });
        for i in 0..4 {
            run(&widened(&system, Limit::Room(QueueId(i)), f64::INFINITY));
            run(&widened(&system, Limit::Servers(StationId(i)), 3.3));
        }
    }
}
