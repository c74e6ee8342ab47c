//! x
mod support;
use support::found;
use wakepath_testkit::random::Random;
use wakepath_testkit::recording::Cuts;
use wakepath_testkit::shapes::{Plan, Shape, simulate};

#[test]
fn explore() {
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let losses: f64 = std::env::var("LOSS").ok().and_then(|s| s.parse().ok()).unwrap_or(0.0);
    let only = std::env::var("SHAPE").unwrap_or_default();
    for shape in Shape::ALL.into_iter().filter(|s| format!("{s:?}").starts_with(&only)) {
        for feature in ["plain", "close", "hosts", "nat", "split", "partial", "opaque", "ports", "two"] {
            let (mut right, mut existing, mut links, mut wrong, mut wrong_paths, mut reqs) = (0, 0, 0, 0, 0, 0);
            let (mut first, mut firstp) = (None, None);
            for seed in 0..seeds {
                let mut plan = Plan::new(shape, seed);
                match feature {
                    "close" => plan.keepalive = false,
                    "hosts" => plan.two_hosts = true,
                    "nat" => plan.translated = true,
                    "split" => plan.split_percent = 30.0,
                    "partial" => plan.partial_percent = 40.0,
                    "opaque" => plan.opaque = true,
                    "ports" => {
                        plan.ports = 8;
                        plan.keepalive = false;
                    }
                    "two" => {
                        plan.clients = 2;
                        plan.requests = 2;
                    }
                    _ => {}
                }
                let mut r = simulate(&plan);
                let mut random = Random::new(seed);
                for h in &mut r.hosts {
                    h.lose(losses, 2_000_000, &mut random);
                }
                let f = found(&r, Cuts::default());
                let v = r.truth.judge(&f.claims());
                right += v.right_paths;
                existing += v.existing_paths;
                links += v.links;
                reqs += f.requests.len();
                wrong += v.wrong.len();
                wrong_paths += v.wrong_paths.len();
                if first.is_none() && !v.wrong.is_empty() {
                    first = Some((seed, v.wrong[0].clone()));
                }
                if firstp.is_none() && !v.wrong_paths.is_empty() {
                    firstp = Some((seed, v.wrong_paths[0].clone()));
                }
            }
            println!(
                "{shape:?} {feature}: paths {right}/{existing} given {reqs} links {links} wrong {wrong} wrong paths {wrong_paths} {first:?} {firstp:?}"
            );
        }
    }
}
#[test]
fn dump() {
    for (two_hosts, split) in [(true, 0.0), (false, 40.0)] {
        let plan = Plan {
            clients: 1,
            requests: 4,
            two_hosts,
            split_percent: split,
            ..Plan::new(Shape::ThreadPerConnection, 3)
        };
        let r = simulate(&plan);
        let f = found(&r, Cuts::default());
        println!("{}\n{:?}", f.text(&r.truth), f.report);
        for h in &r.hosts {
            let mut rows = h.rows.clone();
            rows.sort_by_key(|r| r.at());
            for x in rows.iter().take(if split > 0.0 { 400 } else { 40 }) {
                use wakepath_model::rows::Event as E;
                match x {
                    E::Op(o) => println!(
                        "{} {} op {} {}..{} task {} flow {}",
                        h.name,
                        o.at.0 as i64 - h.clock_ns,
                        o.kind,
                        o.start,
                        o.end,
                        o.task.0,
                        o.flow.0
                    ),
                    E::Message(o) => println!(
                        "{} {} MSG role {} sent {} {}..{} flow {}",
                        h.name,
                        o.at.0 as i64 - h.clock_ns,
                        o.role,
                        o.sent,
                        o.start,
                        o.end,
                        o.flow.0
                    ),
                    E::Endpoint(o) => println!(
                        "{} {} EP flow {} side {} how {} {}>{} snd {} rcv {}",
                        h.name,
                        o.at.0 as i64 - h.clock_ns,
                        o.flow.0,
                        o.side,
                        o.how,
                        o.lport,
                        o.rport,
                        o.snd,
                        o.rcv
                    ),
                    _ => {}
                }
            }
        }
    }
}
