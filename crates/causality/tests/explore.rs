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
    for shape in Shape::ALL {
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
                    "ports" => { plan.ports = 8; plan.keepalive = false; }
                    "two" => { plan.clients = 2; plan.requests = 2; }
                    _ => {}
                }
                let mut r = simulate(&plan);
                let mut random = Random::new(seed);
                for h in &mut r.hosts { h.lose(losses, 2_000_000, &mut random); }
                let f = found(&r, Cuts::default());
                let v = r.truth.judge(&f.claims());
                right += v.right_paths; existing += v.existing_paths; links += v.links; reqs += f.requests.len();
                wrong += v.wrong.len(); wrong_paths += v.wrong_paths.len();
                if first.is_none() && !v.wrong.is_empty() { first = Some((seed, v.wrong[0].clone())); }
                if firstp.is_none() && !v.wrong_paths.is_empty() { firstp = Some((seed, v.wrong_paths[0].clone())); }
            }
            println!("{shape:?} {feature}: paths {right}/{existing} given {reqs} links {links} wrong {wrong} wrong paths {wrong_paths} {first:?} {firstp:?}");
        }
    }
}
