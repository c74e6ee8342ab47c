//! Types that are written out: structures, variants, enumerations, integers, floating-point numbers.

use super::{Parser, Result, Value};
use crate::readers::ctf::lexer::Token;
use crate::readers::ctf::schema::{ALIGN_MAX, Choice, Int, Labels, Member, Order, Type, WEIGHT_MAX};
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn structure(&mut self) -> Result<Type> {
        let name = self.tag()?.map(|n| format!("struct {n}"));
        if !self.is_sign(b'{') {
            return match name {
                Some(name) => self.find(&name),
                None => self.fault("expected `{`"),
            };
        }
        let members = self.members()?;
        let mut align = 1;
        if self.is_word("align") {
            self.next()?;
            self.expect(b'(')?;
            align = match self.next()? {
                Token::Number(n) => self.alignment(n)?,
                _ => return self.fault("expected a number of bits"),
            };
            self.expect(b')')?;
        }
        let ty = self.made(Type::structure(members, align))?;
        if let Some(name) = name {
            self.declare(name, ty.clone());
        }
        Ok(ty)
    }

    pub(super) fn variant(&mut self) -> Result<Type> {
        let name = self.tag()?.map(|n| format!("variant {n}"));
        let mut tag = None;
        if self.take(b'<')? {
            tag = Some(self.path()?);
            self.expect(b'>')?;
        }
        if !self.is_sign(b'{') {
            let Some(name) = name else { return self.fault("expected `{`") };
            return match (self.find(&name)?, tag) {
                (Type::Variant(v), Some(tag)) => {
                    self.spend(v.options.len() as u32)?;
                    self.made(Type::variant(Some(tag), v.options.clone()))
                }
                (ty, _) => Ok(ty),
            };
        }
        let choice = |m: Member| Choice { name: m.name, ty: m.ty, ranges: None };
        let options = self.members()?.into_iter().map(choice).collect();
        let ty = self.made(Type::variant(tag, options))?;
        if let Some(name) = name {
            self.declare(name, ty.clone());
        }
        Ok(ty)
    }

    pub(super) fn enumeration(&mut self) -> Result<Type> {
        let name = self.tag()?.map(|n| format!("enum {n}"));
        let container = if self.take(b':')? {
            self.specifier()?
        } else if self.is_sign(b'{') {
            self.find("int")?
        } else {
            return match name {
                Some(name) => self.find(&name),
                None => self.fault("expected `{`"),
            };
        };
        let Type::Int(mut int) = container else { return self.fault("an enumeration of what is no integer") };
        if self.is_sign(b'{') {
            int.labels = Some(Arc::new(self.labels()?));
        } else if let Some(name) = &name {
            // `enum x : type` without a body names what was declared
            return self.find(name);
        }
        let ty = Type::Int(int);
        if let Some(name) = name {
            self.declare(name, ty.clone());
        }
        Ok(ty)
    }

    pub(super) fn labels(&mut self) -> Result<Labels> {
        self.expect(b'{')?;
        let mut out: Labels = Vec::new();
        let mut next = 0i128;
        while !self.take(b'}')? {
            let label = match self.next()? {
                Token::Word(w) | Token::Text(w) => w,
                _ => return self.fault("expected a label"),
            };
            let (mut low, mut high) = (next, next);
            if self.take(b'=')? {
                low = self.number()?;
                high = low;
                if self.token == Token::Dots {
                    self.next()?;
                    high = self.number()?;
                }
            }
            next = high.saturating_add(1);
            if out.len() > WEIGHT_MAX as usize {
                return self.fault("an enumeration with too many labels");
            }
            out.push((label.into(), low, high));
            if !self.is_sign(b'}') {
                self.expect(b',')?;
            }
        }
        Ok(out)
    }

    pub(super) fn number(&mut self) -> Result<i128> {
        match self.value()? {
            Value::Number(n) => Ok(n),
            _ => self.fault("expected a number"),
        }
    }

    pub(super) fn alignment(&self, bits: i128) -> Result<u32> {
        match u32::try_from(bits) {
            Ok(bits) if bits.is_power_of_two() && bits <= ALIGN_MAX => Ok(bits),
            _ => self.fault(format!("an alignment of {bits} bits")),
        }
    }

    pub(super) fn order(&self, value: &str) -> Result<Order> {
        match value {
            "le" => Ok(Order::Little),
            "be" | "network" => Ok(Order::Big),
            "native" => Ok(Order::Native),
            _ => self.fault("a byte order that is none"),
        }
    }

    pub(super) fn integer(&mut self) -> Result<Type> {
        self.expect(b'{')?;
        let mut int = Int::default();
        let mut align = None;
        for (key, value) in self.attributes()? {
            match (key.as_str(), value) {
                ("size", Value::Number(n @ 1..=64)) => int.bits = n as u8,
                ("align", Value::Number(n)) => align = Some(self.alignment(n)?),
                ("signed", Value::Number(n)) => int.signed = n != 0,
                ("signed", Value::Text(t)) => int.signed = t.eq_ignore_ascii_case("true"),
                ("byte_order", Value::Text(t)) => int.order = self.order(&t)?,
                ("encoding", Value::Text(t)) => int.text = !t.eq_ignore_ascii_case("none"),
                ("map", Value::Text(t)) => {
                    int.clock = t.strip_prefix("clock.").and_then(|t| t.strip_suffix(".value")).map(Arc::from);
                }
                _ => {}
            }
        }
        if int.bits == 0 {
            return self.fault("an integer without a size of 1 to 64 bits");
        }
        int.align = align.unwrap_or(if int.bits.is_multiple_of(8) { 8 } else { 1 });
        Ok(Type::Int(int))
    }

    pub(super) fn float(&mut self) -> Result<Type> {
        self.expect(b'{')?;
        let (mut exponent, mut mantissa, mut align, mut order) = (0i128, 0i128, None, Order::Native);
        for (key, value) in self.attributes()? {
            match (key.as_str(), value) {
                ("exp_dig", Value::Number(n)) => exponent = n,
                ("mant_dig", Value::Number(n)) => mantissa = n,
                ("align", Value::Number(n)) => align = Some(self.alignment(n)?),
                ("byte_order", Value::Text(t)) => order = self.order(&t)?,
                _ => {}
            }
        }
        match (exponent, mantissa) {
            (8, 24) => Ok(Type::Float { bits: 32, align: align.unwrap_or(8), order }),
            (11, 53) => Ok(Type::Float { bits: 64, align: align.unwrap_or(8), order }),
            _ => self.fault("a floating-point number of neither 32 nor 64 bits"),
        }
    }
}
