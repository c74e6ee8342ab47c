//! False pairings: messages that no clock puts in order with the others, though without them one does.
//!
//! The hulls of both directions leave no line between them where a single message was paired with something else. Such
//! a message contradicts nearly all that go the other way, and a true one only the false ones: those that contradict most
//! are taken out until a line comes back. Where several contradict equally many, nobody can tell which of them is the
//! false one, and all are left out: a true message that is missing makes bounds wider and never wrong.

use super::bounds::Lines;
use super::fit::DRIFT_USUAL;
use super::hull::Point;

/// Of a pair's messages, one in so many may be left out, ...
const MESSAGES_EACH: u64 = 100;
/// ... and so many in all. If more contradict the others, it is the clocks that do.
const REJECTED_MAX: u64 = 16;

/// How many messages of so many may be left out.
pub fn allowed(messages: u64) -> u64 {
    (messages / MESSAGES_EACH).min(REJECTED_MAX)
}

/// The corners of two hulls (by direction) over an interval that have to go for a line to come between the hulls; none,
/// where there is one already or none comes.
pub fn candidates(corners: &[Vec<Point>; 2], from: i64, to: i64) -> Vec<(usize, Point)> {
    let mut left: Vec<(usize, Point)> = (0..2).flat_map(|d| corners[d].iter().map(move |p| (d, *p))).collect();
    let mut gone = Vec::new();
    while !has_line(&left, from, to) {
        let against = |p: &(usize, Point)| left.iter().filter(|q| contradict(*p, **q)).count();
        let counts: Vec<usize> = left.iter().map(against).collect();
        let most = counts.iter().copied().max().unwrap_or(0);
        if most == 0 || gone.len() as u64 >= REJECTED_MAX {
            return Vec::new();
        }
        let mut counts = counts.into_iter();
        left.retain(|p| {
            let goes = counts.next() == Some(most);
            gone.extend(goes.then_some(*p));
            !goes
        });
    }
    gone
}

fn has_line(points: &[(usize, Point)], from: i64, to: i64) -> bool {
    let mut lines = Lines::all(from, to);
    for &(direction, p) in points {
        if direction == 0 { lines.below(p) } else { lines.above(p) }
    }
    !lines.is_empty()
}

/// Whether two messages of opposite directions leave no offset between them, if the clocks drift as clocks do.
fn contradict((way, p): (usize, Point), (other, q): (usize, Point)) -> bool {
    if way == other {
        return false;
    }
    let (below, above) = if way == 0 { (p, q) } else { (q, p) };
    let apart = below.0.abs_diff(above.0.saturating_add(above.1)) as f64;
    (below.1.saturating_add(above.1) as f64) < -DRIFT_USUAL * apart
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equal clocks, messages that take 100 µs, both ways.
    fn messages() -> [Vec<Point>; 2] {
        let points = |shift: i64| (0..10).map(|i| (i * 1_000_000 + shift, 100_000)).collect();
        [points(0), points(500_000)]
    }

    #[test]
    fn the_one_that_contradicts_all_others_is_found() {
        let mut corners = messages();
        assert_eq!(candidates(&corners, 0, 10_000_000), []);
        let false_one = (5_200_000, -2_000_000);
        corners[0].push(false_one);
        assert_eq!(candidates(&corners, 0, 10_000_000), [(0, false_one)]);
    }

    #[test]
    fn of_two_that_contradict_each_other_both_are() {
        let corners = [vec![(0, -500)], vec![(10, 400)]];
        assert_eq!(candidates(&corners, 0, 1_000), [(0, (0, -500)), (1, (10, 400))]);
    }

    #[test]
    fn several_at_once_are_found_and_the_others_stay() {
        let mut corners = messages();
        let false_ones = [(3_100_000, -2_000_000), (3_200_000, -900_000), (7_100_000, -2_000_000)];
        corners[1].extend(false_ones);
        let mut found = candidates(&corners, 0, 10_000_000);
        found.sort_unstable();
        assert_eq!(found, false_ones.map(|p| (1, p)));
    }

    #[test]
    fn clocks_that_were_set_are_not_made_right() {
        let mut corners = messages();
        corners[0].iter_mut().skip(5).for_each(|p| p.1 += 50_000_000);
        corners[1].iter_mut().skip(5).for_each(|p| p.1 -= 50_000_000);
        let found = candidates(&corners, 0, 10_000_000).len() as u64;
        assert!(found == 0 || found > allowed(20), "{found}");
        assert_eq!((allowed(99), allowed(100), allowed(1 << 40)), (0, 1, 16));
    }
}
