//! Types made into flat programs: fixed stretches are one step with known offsets, and only what somebody wants is taken
//! out of them.

use super::program::{Case, Count, Get, Kind, NO_SLOT, NONE, Op, Program};
use super::schema::{Array, Int, Labels, Len, NODES_MAX, Order, Path, Scope, Type, Variant, role};
use std::sync::Arc;

/// Says which output a field goes to ([`NONE`]: to none), by its scope, its path and its roles.
pub(super) type Wanted<'a> = &'a dyn Fn(Scope, &[Arc<str>], u16) -> u8;

/// Longest fixed stretch that is believed, in bits.
const FIXED_MAX: u64 = 1 << 43;

/// What is known of a position: its remainder by a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    by: u32,
    rest: u32,
}

impl Known {
    /// The begin of a packet.
    pub const START: Known = Known { by: super::schema::ALIGN_MAX, rest: 0 };
    /// Anywhere.
    pub const NOTHING: Known = Known { by: 1, rest: 0 };

    fn moved(self, bits: u64) -> Known {
        Known { rest: ((u64::from(self.rest) + bits) % u64::from(self.by)) as u32, ..self }
    }

    fn at_most(self, by: u32) -> Known {
        let by = self.by.min(by);
        Known { by, rest: self.rest % by }
    }

    fn or(self, other: Known) -> Known {
        let mut by = self.by.min(other.by);
        while self.rest % by != other.rest % by {
            by /= 2;
        }
        self.at_most(by)
    }
}

/// An integer that others may depend on.
struct Seen {
    scope: Scope,
    path: Vec<Arc<str>>,
    part: usize,
    place: Place,
    signed: bool,
    labels: Option<Arc<Labels>>,
    slot: u16,
}

#[derive(Clone, Copy)]
enum Place {
    Get(usize),
    Op(usize),
}

/// Makes the programs of one trace.
pub(super) struct Planner {
    big: bool,
    seen: Vec<Seen>,
    slots: u16,
    parts: Vec<Program>,
    known: Known,
    /// First `Get` and length of the stretch that is being made.
    open: (usize, u64),
    /// Nodes that were made so far.
    nodes: u32,
}

/// Values of what is switched by, the type that is there then, and its name in paths.
type Alternative<'t> = (Vec<(i128, i128)>, &'t Type, Option<&'t Arc<str>>);

type Result<T> = std::result::Result<T, String>;

impl Planner {
    pub fn new(big: bool) -> Planner {
        Planner { big, seen: Vec::new(), slots: 0, parts: Vec::new(), known: Known::NOTHING, open: (0, 0), nodes: 0 }
    }

    /// Makes a program of types that follow each other, from a position of which `known` is known. Gives its number and
    /// what is known after it.
    pub fn part(&mut self, types: &[(Scope, Option<&Type>)], known: Known, wanted: Wanted) -> Result<(usize, Known)> {
        self.parts.push(Program::default());
        self.known = known;
        self.open = (0, 0);
        for (scope, ty) in types {
            if let Some(ty) = ty {
                self.add(ty, *scope, &mut Vec::new(), wanted)?;
            }
        }
        self.close();
        Ok((self.parts.len() - 1, self.known))
    }

    /// How much has been seen, for [`Planner::forget`].
    pub fn mark(&self) -> usize {
        self.seen.len()
    }

    /// Forgets what was seen after a mark: another event's fields do not depend on it.
    pub fn forget(&mut self, mark: usize) {
        self.seen.truncate(mark);
    }

    /// The programs, and how many slots they need.
    pub fn done(mut self) -> (Vec<Program>, usize) {
        self.parts.iter_mut().for_each(Program::prune);
        (self.parts, usize::from(self.slots))
    }

    fn program(&mut self) -> &mut Program {
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// Ends the stretch that is being made.
    fn close(&mut self) {
        let (first, bits) = self.open;
        let end = self.program().gets.len();
        if bits > 0 || end > first {
            self.program().ops.push(Op::Block { first: first as u32, end: end as u32, bits });
        }
        self.open = (end, 0);
    }

    fn op(&mut self, op: Op) -> usize {
        self.close();
        let ops = &mut self.program().ops;
        ops.push(op);
        ops.len() - 1
    }

    fn align(&mut self, align: u32) {
        if align <= self.known.by {
            let bits = (align - self.known.rest % align) % align;
            self.open.1 += u64::from(bits);
            self.known = self.known.moved(bits.into());
        } else {
            self.op(Op::Align(align));
            self.known = Known { by: align, rest: 0 };
        }
    }

    fn advance(&mut self, bits: u64) -> Result<()> {
        self.open.1 = self.open.1.saturating_add(bits);
        self.known = self.known.moved(bits);
        if self.open.1 > FIXED_MAX { Err("fields of an absurd size".into()) } else { Ok(()) }
    }

    fn big(&self, order: Order) -> bool {
        match order {
            Order::Native => self.big,
            Order::Little => false,
            Order::Big => true,
        }
    }

    fn add(&mut self, ty: &Type, scope: Scope, path: &mut Vec<Arc<str>>, wanted: Wanted) -> Result<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err("metadata that unfold without end".into());
        }
        match ty {
            Type::Int(int) => {
                self.align(int.align.max(1));
                let out = wanted(scope, path, int.roles);
                self.int(int, scope, path, out)?;
            }
            Type::Float { bits, align, .. } => {
                self.align((*align).max(1));
                self.advance((*bits).into())?;
            }
            Type::Var(var) => {
                self.align(8);
                let out = wanted(scope, path, var.roles);
                let clock = is_clock(scope, var.roles, false);
                let place = self.op(Op::Var { signed: var.signed, out, slot: NO_SLOT, clock });
                self.known = Known { by: 8, rest: 0 };
                self.see(scope, path, Place::Op(place), var.signed, var.labels.clone());
            }
            Type::Str { unit } => {
                self.align(8);
                let out = wanted(scope, path, 0);
                self.op(Op::Str { unit: *unit, out });
                self.known = Known { by: 8, rest: 0 };
            }
            Type::Bytes { len, roles, .. } => {
                self.align(8);
                let out = wanted(scope, path, *roles);
                self.run(len, 8, 8, out, scope, path)?;
            }
            Type::Array(a) => self.array(a, scope, path, wanted)?,
            Type::Struct(s) => {
                self.align(s.align);
                for m in &s.members {
                    path.push(m.name.clone());
                    let added = self.add(&m.ty, scope, path, wanted);
                    path.pop();
                    added?;
                }
            }
            Type::Variant(v) => self.variant(v, scope, path, wanted)?,
            Type::Optional(o) => {
                let (slot, signed, _) = self.refer(&o.selector, scope, path)?;
                let not_zero = vec![(i128::MIN, -1), (1, i128::MAX)];
                let ranges = o.ranges.clone().unwrap_or(not_zero);
                self.switch(slot, signed, vec![(ranges, &o.ty, None)], false, scope, path, wanted)?;
            }
        }
        Ok(())
    }

    /// Elements that follow each other.
    fn array(&mut self, a: &Array, scope: Scope, path: &mut Vec<Arc<str>>, wanted: Wanted) -> Result<()> {
        self.align(a.align);
        let element = match &a.element {
            Type::Int(i) => Some((i.bits, i.align)),
            Type::Float { bits, align, .. } => Some((*bits, *align)),
            _ => None,
        };
        if let Some((bits, align)) = element {
            let stride = super::bits::align(bits.into(), align.max(1));
            let out = if stride.is_multiple_of(8) { wanted(scope, path, 0) } else { NONE };
            return self.run(&a.len, bits.into(), stride, out, scope, path);
        }
        let count = match &a.len {
            Len::Fixed(n) => Count::Fixed(*n),
            Len::Field(at) => Count::Slot(self.refer(at, scope, path)?.0),
        };
        let place = self.op(Op::Loop { count, end: 0 });
        self.known = Known::NOTHING;
        let mark = self.mark();
        path.push("".into());
        let added = self.add(&a.element, scope, path, wanted);
        path.pop();
        added?;
        // what may not be there, or be there many times, is nothing that others could depend on
        self.forget(mark);
        self.close();
        self.known = Known::NOTHING;
        let after = self.program().ops.len() as u32;
        self.program().ops[place] = Op::Loop { count, end: after };
        Ok(())
    }

    fn int(&mut self, int: &Int, scope: Scope, path: &[Arc<str>], out: u8) -> Result<()> {
        let big = self.big(int.order);
        let whole = self.known.by >= 8 && self.known.rest.is_multiple_of(8);
        let kind = match (int.bits, whole) {
            (8, true) => Kind::Byte,
            (16, true) => Kind::Two,
            (32, true) => Kind::Four,
            (64, true) => Kind::Eight,
            _ => Kind::Bits,
        };
        let clock = is_clock(scope, int.roles, int.clock.is_some());
        let off = self.open.1;
        let get = Get { off, kind, bits: int.bits, signed: int.signed, big, out, slot: NO_SLOT, clock };
        let place = self.program().gets.len();
        self.program().gets.push(get);
        self.advance(int.bits.into())?;
        self.see(scope, path, Place::Get(place), int.signed, int.labels.clone());
        Ok(())
    }

    fn see(&mut self, scope: Scope, path: &[Arc<str>], place: Place, signed: bool, labels: Option<Arc<Labels>>) {
        let part = self.parts.len() - 1;
        self.seen.push(Seen { scope, path: path.to_vec(), part, place, signed, labels, slot: NO_SLOT });
    }

    /// An array whose elements are `bits` bits, one every `stride` bits.
    fn run(&mut self, len: &Len, bits: u64, stride: u64, out: u8, scope: Scope, path: &[Arc<str>]) -> Result<()> {
        match len {
            Len::Fixed(0) => Ok(()),
            Len::Fixed(n) => {
                let bits = (n - 1).checked_mul(stride).and_then(|b| b.checked_add(bits)).unwrap_or(u64::MAX);
                if out != NONE && bits < FIXED_MAX {
                    let off = self.open.1;
                    let kind = Kind::Bytes((bits / 8) as u32);
                    let slot = NO_SLOT;
                    let get = Get { off, kind, bits: 8, signed: false, big: false, out, slot, clock: false };
                    self.program().gets.push(get);
                }
                self.advance(bits)
            }
            Len::Field(at) => {
                let slot = self.refer(at, scope, path)?.0;
                self.op(Op::Skip { slot, bits, stride, out });
                // the power of two in both is kept
                self.known = self.known.at_most(1 << (bits | stride).trailing_zeros().min(15));
                Ok(())
            }
        }
    }

    fn variant(&mut self, v: &Variant, scope: Scope, path: &mut Vec<Arc<str>>, wanted: Wanted) -> Result<()> {
        let tag = v.tag.as_ref().ok_or("a variant without a tag")?;
        let (slot, signed, labels) = self.refer(tag, scope, path)?;
        let mut options = Vec::new();
        for o in &v.options {
            let ranges = match (&o.ranges, &labels) {
                (Some(ranges), _) => ranges.clone(),
                (None, Some(labels)) => label_ranges(labels, &o.name),
                (None, None) => return Err("a variant by what is no enumeration".into()),
            };
            options.push((ranges, &o.ty, Some(&o.name)));
        }
        self.switch(slot, signed, options, true, scope, path, wanted)
    }

    #[allow(clippy::too_many_arguments)] // what `add` is given, and what is to be chosen between
    fn switch(
        &mut self,
        slot: u16,
        signed: bool,
        options: Vec<Alternative<'_>>,
        must: bool,
        scope: Scope,
        path: &mut Vec<Arc<str>>,
        wanted: Wanted,
    ) -> Result<()> {
        let place = self.op(Op::Align(1));
        let known = self.known;
        let mut behind = if must { None } else { Some(known) };
        let mut cases = Vec::new();
        for (ranges, ty, name) in options {
            let first = self.program().ops.len() as u32;
            let mark = self.mark();
            self.known = known;
            path.extend(name.cloned());
            let added = self.add(ty, scope, path, wanted);
            path.truncate(path.len() - usize::from(name.is_some()));
            added?;
            self.forget(mark);
            self.close();
            behind = Some(behind.map_or(self.known, |b| b.or(self.known)));
            let end = self.program().ops.len() as u32;
            cases.extend(ranges.into_iter().map(|(low, high)| Case { low, high, first, end }));
        }
        self.known = behind.unwrap_or(known);
        let program = self.program();
        let first = program.cases.len() as u32;
        program.cases.extend(cases);
        let (end, after) = (program.cases.len() as u32, program.ops.len() as u32);
        program.ops[place] = Op::Switch { slot, signed, first, end, after, must };
        Ok(())
    }

    /// The slot of the field that another one at `path` depends on.
    fn refer(&mut self, to: &Path, scope: Scope, path: &[Arc<str>]) -> Result<(u16, bool, Option<Arc<Labels>>)> {
        let find = |scope: Option<Scope>, prefix: &[Arc<str>]| {
            let is = |s: &Seen| {
                scope.is_none_or(|scope| s.scope == scope)
                    && s.path.len() == prefix.len() + to.names.len()
                    && s.path.starts_with(prefix)
                    && s.path.ends_with(&to.names)
            };
            self.seen.iter().rposition(is)
        };
        let found = match to.scope {
            Some(scope) => find(Some(scope), &[]),
            // from the field's own structure outwards, then in what was read before, the latest first
            None => (0..path.len()).rev().find_map(|n| find(Some(scope), &path[..n])).or_else(|| find(None, &[])),
        };
        let Some(at) = found else {
            return Err(format!("no field `{}` comes before what depends on it", to.names.join(".")));
        };
        if self.seen[at].slot == NO_SLOT {
            if self.slots == u16::MAX {
                return Err("too many fields that others depend on".into());
            }
            let slot = self.slots;
            self.slots += 1;
            self.seen[at].slot = slot;
            let program = &mut self.parts[self.seen[at].part];
            match self.seen[at].place {
                Place::Get(i) => program.gets[i].slot = slot,
                Place::Op(i) => {
                    if let Op::Var { slot: s, .. } = &mut program.ops[i] {
                        *s = slot;
                    }
                }
            }
        }
        let seen = &self.seen[at];
        Ok((seen.slot, seen.signed, seen.labels.clone()))
    }
}

/// The values that an enumeration calls by an option's name, or, where it has no such label, by that name but for
/// an underscore before it.
pub(super) fn label_ranges(labels: &Labels, name: &str) -> Vec<(i128, i128)> {
    let bare = |n: &str| n.strip_prefix('_').unwrap_or(n).to_owned();
    let those = |is: &dyn Fn(&str) -> bool| -> Vec<_> {
        labels.iter().filter(|(label, ..)| is(label)).map(|(_, low, high)| (*low, *high)).collect()
    };
    let exact = those(&|label| label == name);
    if exact.is_empty() { those(&|label| bare(label) == bare(name)) } else { exact }
}

fn is_clock(scope: Scope, roles: u16, mapped: bool) -> bool {
    match scope {
        Scope::PacketContext => roles & role::TIME != 0,
        Scope::EventHeader => roles & role::TIME != 0 || mapped,
        _ => false,
    }
}
