//! Which hosts hang together: union-find, the spanning tree, and the closest way between two.

/// Sets of hosts that grow together: weighted quick union.
#[derive(Clone, Debug)]
pub struct Union {
    parent: Vec<usize>,
    size: Vec<usize>,
}

impl Union {
    /// Each by itself.
    pub fn new(count: usize) -> Union {
        Union { parent: (0..count).collect(), size: vec![1; count] }
    }

    /// Who stands for the set of `x`.
    pub fn find(&mut self, mut x: usize) -> usize {
        while self.parent[x] != x {
            self.parent[x] = self.parent[self.parent[x]];
            x = self.parent[x];
        }
        x
    }

    /// Joins two sets; false where they were one.
    pub fn join(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        let (small, large) = if self.size[a] < self.size[b] { (a, b) } else { (b, a) };
        self.parent[small] = large;
        self.size[large] += self.size[small];
        true
    }
}

/// An edge between two hosts, with what it costs in accuracy (ns).
pub type Edge = (usize, usize, f64);

/// The spanning forest of least cost: indices into `edges`, cheapest first.
pub fn spanning_tree(count: usize, edges: &[Edge]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by(|&a, &b| edges[a].2.total_cmp(&edges[b].2).then(a.cmp(&b)));
    let mut union = Union::new(count);
    order.retain(|&e| union.join(edges[e].0, edges[e].1));
    order
}

/// The way of least cost from `from` to every host: the cost and the host before it; `None` where there is no way.
pub fn ways(count: usize, edges: &[Edge], from: usize) -> Vec<Option<(f64, usize)>> {
    let mut way: Vec<Option<(f64, usize)>> = vec![None; count];
    way[from] = Some((0.0, from));
    // hosts are few: relax until nothing changes
    for _ in 0..count {
        let mut changed = false;
        for &(a, b, cost) in edges {
            for (a, b) in [(a, b), (b, a)] {
                if let Some((so_far, _)) = way[a]
                    && way[b].is_none_or(|w| so_far + cost < w.0)
                {
                    way[b] = Some((so_far + cost, a));
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    way
}

/// The hosts on a way, both ends included.
pub fn hosts_on(ways: &[Option<(f64, usize)>], mut to: usize) -> Vec<usize> {
    let mut hosts = vec![to];
    while let Some((_, before)) = ways[to]
        && before != to
    {
        hosts.push(before);
        to = before;
    }
    hosts.reverse();
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_and_ways() {
        let edges = [(0, 1, 5.0), (1, 2, 1.0), (0, 2, 2.0), (3, 4, 1.0)];
        assert_eq!(spanning_tree(6, &edges), [1, 3, 2]);
        let from0 = ways(6, &edges, 0);
        assert_eq!(from0[1], Some((3.0, 2)));
        assert_eq!(hosts_on(&from0, 1), [0, 2, 1]);
        assert_eq!((from0[3], from0[5]), (None, None));
        assert_eq!(hosts_on(&from0, 0), [0]);
    }
}
