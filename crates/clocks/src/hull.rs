//! The messages of one direction that bound the clocks: the lower convex hull of their delays over time.
//!
//! With linear clocks, a line that lies below the hull lies below all points (wait paper, section 2.2).

/// A message: when it was sent, and how much later it was received, both on the coarse line (ns).
pub type Point = (i64, i64);

/// Points that wait to be looked at together.
const BUFFER: usize = 16;

/// The lower hull of the points that came so far, in any order.
#[derive(Clone, Debug, Default)]
pub struct Hull {
    points: Vec<Point>,
    buffer: Vec<Point>,
}

/// Twice the area of a triangle; positive where `c` lies above the line from `a` to `b`.
fn turn(a: Point, b: Point, c: Point) -> i128 {
    let wide = |p: Point| (i128::from(p.0), i128::from(p.1));
    let ((ax, ay), (bx, by), (cx, cy)) = (wide(a), wide(b), wide(c));
    (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
}

impl Hull {
    /// Takes a point in.
    pub fn add(&mut self, p: Point) {
        let after = self.points.partition_point(|q| q.0 < p.0);
        if after > 0 && after < self.points.len() && turn(self.points[after - 1], self.points[after], p) >= 0 {
            return;
        }
        self.buffer.push(p);
        if self.buffer.len() >= BUFFER {
            self.settle();
        }
    }

    /// Takes in all points of another.
    pub fn merge(&mut self, other: &Hull) {
        for &p in other.points.iter().chain(&other.buffer) {
            self.add(p);
        }
    }

    fn settle(&mut self) {
        let mut all = std::mem::take(&mut self.points);
        all.append(&mut self.buffer);
        all.sort_unstable();
        for p in all {
            if self.points.last().is_some_and(|q| q.0 == p.0) {
                continue;
            }
            while let [.., a, b] = self.points[..]
                && turn(a, b, p) <= 0
            {
                self.points.pop();
            }
            self.points.push(p);
        }
    }

    /// Its corners, in order of time.
    pub fn corners(&mut self) -> &[Point] {
        if !self.buffer.is_empty() {
            self.settle();
        }
        &self.points
    }

    /// Points held.
    pub fn held(&self) -> usize {
        self.points.len() + self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lies_below_all_points_whatever_their_order(points in prop::collection::vec((-500i64..500, -1_000i64..1_000), 1..300)) {
            let mut hull = Hull::default();
            points.iter().for_each(|&p| hull.add(p));
            let corners = hull.corners().to_vec();
            prop_assert!(corners.iter().all(|c| points.contains(c)));
            prop_assert!(corners.windows(3).all(|w| turn(w[0], w[1], w[2]) > 0));
            for &p in &points {
                let i = corners.partition_point(|c| c.0 < p.0);
                let below = match corners.get(i) {
                    Some(c) if c.0 == p.0 => c.1 <= p.1,
                    Some(&c) if i > 0 => turn(corners[i - 1], c, p) >= 0,
                    _ => false,
                };
                prop_assert!(below, "{p:?} {corners:?}");
            }
            let mut reversed = Hull::default();
            points.iter().rev().for_each(|&p| reversed.add(p));
            prop_assert_eq!(reversed.corners(), &corners[..]);
        }
    }
}
