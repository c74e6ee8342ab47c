//! Which request comes next: routes by weight, as a pure function of seed and number.

use std::fmt;
use std::str::FromStr;

const ROUTES: [&str; 8] = ["vote", "results", "item", "health", "error", "slow", "login", "static"];

/// `{key}` in a literal path becomes a number below this.
const KEYS: f64 = 1000.0;

/// Routes and the share of each.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Names, each with the sum of weights up to and including its own.
    routes: Vec<(String, f64)>,
    /// As it was given.
    text: String,
}

/// One request, before it is sent.
#[derive(Debug, PartialEq)]
pub struct Shot {
    /// Index into the mix's routes.
    pub route_index: usize,
    pub rid: String,
    /// The path, as the truth names it: without the id, and with a query only where a literal path has one.
    pub path: String,
    /// The form that a POST carries.
    pub form: Option<String>,
}

impl Mix {
    pub fn route(&self, index: usize) -> &str {
        &self.routes[index].0
    }

    pub fn route_count(&self) -> usize {
        self.routes.len()
    }

    /// The request with this number. The same for the same seed, whichever thread sends it.
    pub fn shot(&self, seed: u32, number: u64) -> Shot {
        let random = scramble((u64::from(seed) << 32) ^ scramble(number));
        let total = self.routes.last().map_or(0.0, |(_, sum)| *sum);
        // 53 random bits are a number from 0 to below 1.
        let point = (random >> 11) as f64 / (1u64 << 53) as f64 * total;
        let route_index = self.routes.iter().position(|(_, sum)| point < *sum).unwrap_or(self.routes.len() - 1);
        let parameter = scramble(random) % 100 + 1;
        let mut form = None;
        let path = match self.route(route_index) {
            "vote" => format!("/vote/{parameter}"),
            "item" => format!("/item/{parameter}"),
            "static" => "/static-ish".into(),
            "login" => {
                form = Some(format!("user=user-{parameter}&password=secret-{parameter}-phrase"));
                "/login".into()
            }
            literal if literal.starts_with('/') => literal.replace("{key}", &key(random).to_string()),
            name => format!("/{name}"),
        };
        Shot { route_index, rid: format!("{seed:08x}-{number}"), path, form }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut routes = Vec::new();
        let mut sum = 0.0;
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            // the last one, since a path's query may have some of its own
            let (name, weight) = part.trim().rsplit_once('=').unwrap_or((part.trim(), "1"));
            let is_path = name.starts_with('/') && name.bytes().all(|b| b.is_ascii_graphic());
            if !is_path && !ROUTES.contains(&name) {
                return Err(format!("no route `{name}`; there are {}, or a /path", ROUTES.join(", ")));
            }
            let weight: f64 = weight.parse().map_err(|_| format!("`{part}`: no weight"))?;
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(format!("`{part}`: no weight"));
            }
            sum += weight;
            routes.push((name.to_owned(), sum));
        }
        if sum > 0.0 { Ok(Self { routes, text: text.to_owned() }) } else { Err("all weights are zero".into()) }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A number from 1 to below [`KEYS`], each about as often as one over it (Zipf's law): a few are asked for all the time.
fn key(random: u64) -> u64 {
    let share = (scramble(random) >> 11) as f64 / (1u64 << 53) as f64;
    KEYS.powf(share) as u64
}

/// SplitMix64's output function: spreads neighbouring numbers over all 64 bits.
pub fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_weights() {
        let mix: Mix = "vote=3,health=1,error=0".parse().unwrap();
        let mut counts = vec![0; mix.route_count()];
        for number in 0..10_000 {
            counts[mix.shot(7, number).route_index] += 1;
        }
        assert!((7300..7700).contains(&counts[0]), "{counts:?}");
        assert_eq!(counts[2], 0);
    }

    #[test]
    fn a_seed_fixes_the_requests() {
        let mix: Mix = "vote,item,login,/x=2".parse().unwrap();
        for number in 0..100 {
            assert_eq!(mix.shot(1, number), mix.shot(1, number));
        }
        assert_ne!(mix.shot(1, 0).rid, mix.shot(2, 0).rid);
        assert_ne!(mix.shot(1, 0).rid, mix.shot(1, 1).rid);
        let login = (0..100).map(|n| mix.shot(1, n)).find(|shot| shot.path == "/login").unwrap();
        assert!(login.form.unwrap().contains("password=secret-"));
    }

    #[test]
    fn a_literal_path_may_have_a_query() {
        let mix: Mix = "/a?b=c=2,/a=0".parse().unwrap();
        assert_eq!(mix.route(0), "/a?b=c");
        assert_eq!(mix.shot(1, 0).path, "/a?b=c");
    }

    #[test]
    fn keys_follow_zipf() {
        let mix: Mix = "/scan/{key}".parse().unwrap();
        let mut counts = [0; KEYS as usize];
        for number in 0..10_000 {
            let shot = mix.shot(7, number);
            counts[shot.path.strip_prefix("/scan/").unwrap().parse::<usize>().unwrap()] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!((900..1110).contains(&counts[1]), "{}", counts[1]);
        let tens: u32 = counts[10..20].iter().sum();
        assert!((900..1110).contains(&tens), "{tens}");
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for wrong in ["", "vote=0", "vote=-1", "vote=x", "vote=inf", "nothing=1", "/a?b=x", "/a b=1"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }
}
