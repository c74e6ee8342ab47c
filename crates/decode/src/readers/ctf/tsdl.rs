//! CTF 1.8's metadata language (TSDL): text in, [`Schema`] out (CTF 1.8, appendix C).

mod types;

use super::lexer::{Fault, Lexer, Token};
use super::schema::{
    Choice, Clock, DEPTH_MAX, EventClass, Int, Len, Member, NODES_MAX, Order, Path, Schema, Scope, Type, role, uuid,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Reads metadata. What cannot be read ends the reading: what came before it is given, and where it was.
pub(super) fn parse(text: &[u8]) -> Schema {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        token: Token::End,
        at: 0,
        scopes: vec![FxHashMap::default()],
        depth: 0,
        nodes: 0,
        schema: Schema { underscores: true, ..Schema::default() },
    };
    if let Err(fault) = parser.all() {
        parser.schema.cut = Some((fault.at, fault.why));
    }
    parser.schema
}

enum Value {
    Number(i128),
    Text(String),
    Type(Type),
}

type Attributes = Vec<(String, Value)>;

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    /// Where `token` begins.
    at: usize,
    /// Types by name, one table a block; `struct x`, `enum x` and `variant x` carry their kind in the key.
    scopes: Vec<FxHashMap<String, Type>>,
    depth: u32,
    /// Nodes that were made from others' so far.
    nodes: u32,
    schema: Schema,
}

type Result<T> = std::result::Result<T, Fault>;

impl Parser<'_> {
    fn fault<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Fault { at: self.at as u64, why: why.into() })
    }

    fn next(&mut self) -> Result<Token> {
        let token = self.lexer.next();
        // a blank before the token belongs to nobody: the end of the token before is where it is looked for
        let next = match token {
            Ok(t) => t,
            Err(e) => {
                self.at = e.at as usize;
                return Err(e);
            }
        };
        let old = std::mem::replace(&mut self.token, next);
        self.at = self.lexer.at();
        Ok(old)
    }

    fn is_sign(&self, sign: u8) -> bool {
        self.token == Token::Sign(sign)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(w) if w == word)
    }

    fn take(&mut self, sign: u8) -> Result<bool> {
        let there = self.is_sign(sign);
        if there {
            self.next()?;
        }
        Ok(there)
    }

    fn expect(&mut self, sign: u8) -> Result<()> {
        if self.take(sign)? { Ok(()) } else { self.fault(format!("expected `{}`", char::from(sign))) }
    }

    fn word(&mut self) -> Result<String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => self.fault("expected a name"),
        }
    }

    fn all(&mut self) -> Result<()> {
        self.next()?;
        while self.token != Token::End {
            if self.take(b';')? || self.declaration()? {
                continue;
            }
            let block = self.word()?;
            self.expect(b'{')?;
            let attributes = self.attributes()?;
            self.block(&block, attributes)?;
        }
        Ok(())
    }

    /// A declaration of types, if here is one.
    fn declaration(&mut self) -> Result<bool> {
        match &self.token {
            Token::Word(w) if w == "typealias" => {
                self.next()?;
                let ty = self.specifier()?;
                if self.next()? != Token::Assign {
                    return self.fault("expected `:=`");
                }
                let name = self.words()?;
                self.declare(name, ty);
            }
            Token::Word(w) if w == "typedef" => {
                self.next()?;
                for (name, ty) in self.declarators()? {
                    self.declare(name.to_string(), ty);
                }
            }
            Token::Word(w) if ["struct", "variant", "enum"].contains(&w.as_str()) => {
                self.specifier()?;
            }
            _ => return Ok(false),
        }
        self.expect(b';')?;
        Ok(true)
    }

    fn declare(&mut self, name: String, ty: Type) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, ty);
        }
    }

    fn find(&self, name: &str) -> Result<Type> {
        match self.scopes.iter().rev().find_map(|s| s.get(name)) {
            Some(ty) => Ok(ty.clone()),
            None => self.fault(format!("no type is called `{name}`")),
        }
    }

    fn words(&mut self) -> Result<String> {
        let mut out = self.word()?;
        while matches!(self.token, Token::Word(_)) {
            out.push(' ');
            out.push_str(&self.word()?);
        }
        while self.take(b'*')? {}
        Ok(out)
    }

    /// What stands between braces, after the opening one.
    fn attributes(&mut self) -> Result<Attributes> {
        self.scopes.push(FxHashMap::default());
        let mut out = Vec::new();
        while !self.take(b'}')? {
            if self.take(b';')? || self.declaration()? {
                continue;
            }
            let mut key = self.word()?;
            while self.take(b'.')? {
                key.push('.');
                key.push_str(&self.word()?);
            }
            let value = match self.next()? {
                Token::Assign => Value::Type(self.specifier()?),
                Token::Sign(b'=') => self.value()?,
                _ => return self.fault("expected `=` or `:=`"),
            };
            out.push((key, value));
            if !self.is_sign(b'}') {
                self.expect(b';')?;
            }
        }
        self.scopes.pop();
        Ok(out)
    }

    fn value(&mut self) -> Result<Value> {
        match self.next()? {
            Token::Number(n) => Ok(Value::Number(n)),
            Token::Text(t) => Ok(Value::Text(t)),
            Token::Sign(sign @ (b'-' | b'+')) => match self.next()? {
                Token::Number(n) => Ok(Value::Number(if sign == b'-' { -n } else { n })),
                _ => self.fault("expected a number"),
            },
            Token::Word(mut w) => {
                while self.take(b'.')? {
                    w.push('.');
                    w.push_str(&self.word()?);
                }
                Ok(Value::Text(w))
            }
            _ => self.fault("expected a value"),
        }
    }

    /// A type, without any declarator after it.
    fn specifier(&mut self) -> Result<Type> {
        let name = match &self.token {
            Token::Word(w) => w.clone(),
            _ => return self.fault("expected a type"),
        };
        match self.built_in(&name)? {
            Some(ty) => Ok(ty),
            None => {
                let name = self.words()?;
                self.find(&name)
            }
        }
    }

    fn built_in(&mut self, name: &str) -> Result<Option<Type>> {
        if !["struct", "variant", "enum", "integer", "floating_point", "string", "const"].contains(&name) {
            return Ok(None);
        }
        if self.depth >= DEPTH_MAX {
            return self.fault("types nested too deeply");
        }
        self.depth += 1;
        self.next()?;
        let ty = match name {
            "struct" => self.structure()?,
            "variant" => self.variant()?,
            "enum" => self.enumeration()?,
            "integer" => self.integer()?,
            "floating_point" => self.float()?,
            "const" => self.specifier()?,
            _ => {
                if self.take(b'{')? {
                    self.attributes()?;
                }
                Type::Str { unit: 1 }
            }
        };
        self.depth -= 1;
        Ok(Some(ty))
    }

    /// `TYPE NAME, NAME[N], …`, with the names that it gives.
    fn declarators(&mut self) -> Result<Vec<(Arc<str>, Type)>> {
        let first = match &self.token {
            Token::Word(w) => w.clone(),
            _ => return self.fault("expected a type"),
        };
        let (base, mut name) = match self.built_in(&first)? {
            Some(ty) => (ty, None),
            None => {
                let words = self.words()?;
                let Some((ty, name)) = words.rsplit_once(' ') else {
                    return self.fault("expected a type and a name");
                };
                (self.find(ty)?, Some(name.to_owned()))
            }
        };
        let mut out = Vec::new();
        loop {
            let name = match name.take() {
                Some(name) => name,
                None if self.is_sign(b';') => String::new(),
                None => self.word()?,
            };
            let mut lengths = Vec::new();
            while self.take(b'[')? {
                lengths.push(match &self.token {
                    Token::Number(n) => {
                        let n = u64::try_from(*n).unwrap_or(0);
                        self.next()?;
                        Len::Fixed(n)
                    }
                    _ => Len::Field(self.path()?),
                });
                self.expect(b']')?;
            }
            let mut ty = base.clone();
            for len in lengths.into_iter().rev() {
                ty = self.made(Type::array(ty, len, 1))?;
            }
            out.push((name.into(), ty));
            if !self.take(b',')? {
                return Ok(out);
            }
        }
    }

    fn made(&self, ty: std::result::Result<Type, &'static str>) -> Result<Type> {
        ty.or_else(|why| self.fault(why))
    }

    /// Counts nodes that are made from others, so that little text does not unfold without end.
    fn spend(&mut self, nodes: u32) -> Result<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX { self.fault("metadata that unfold without end") } else { Ok(()) }
    }

    /// A type with the roles of its fields.
    fn with_roles(&mut self, ty: &Type) -> Result<Type> {
        self.spend(ty.weight())?;
        Ok(with_roles(ty))
    }

    /// The way to a field: `len`, `a.b`, `stream.event.header.id`.
    fn path(&mut self) -> Result<Path> {
        let mut names = vec![self.word()?];
        while self.take(b'.')? {
            names.push(self.word()?);
        }
        let words: Vec<&str> = names.iter().map(String::as_str).collect();
        let (scope, skip) = match words[..] {
            ["trace", "packet", "header", ..] => (Some(Scope::PacketHeader), 3),
            ["stream", "packet", "context", ..] => (Some(Scope::PacketContext), 3),
            ["stream", "event", "header", ..] => (Some(Scope::EventHeader), 3),
            ["stream", "event", "context", ..] => (Some(Scope::StreamEventContext), 3),
            ["event", "context", ..] => (Some(Scope::EventContext), 2),
            ["event", "fields", ..] => (Some(Scope::Fields), 2),
            _ => (None, 0),
        };
        Ok(Path { scope, names: words[skip..].iter().map(|w| Arc::from(*w)).collect() })
    }

    fn members(&mut self) -> Result<Vec<Member>> {
        self.expect(b'{')?;
        self.scopes.push(FxHashMap::default());
        let mut out = Vec::new();
        while !self.take(b'}')? {
            if self.take(b';')? {
                continue;
            }
            if self.is_word("typealias") || self.is_word("typedef") {
                self.declaration()?;
                continue;
            }
            for (name, ty) in self.declarators()? {
                // a type that is only declared here, not a field
                if !name.is_empty() {
                    out.push(Member { name, ty });
                }
            }
            self.expect(b';')?;
        }
        self.scopes.pop();
        Ok(out)
    }

    /// The name after `struct`, `variant` or `enum`, if there is one.
    fn tag(&mut self) -> Result<Option<String>> {
        if matches!(self.token, Token::Word(_)) { self.word().map(Some) } else { Ok(None) }
    }

    fn block(&mut self, block: &str, attributes: Attributes) -> Result<()> {
        match block {
            "trace" => {
                for (key, value) in attributes {
                    match (key.as_str(), value) {
                        ("byte_order", Value::Text(t)) => self.schema.big = self.order(&t)? == Order::Big,
                        ("uuid", Value::Text(t)) => self.schema.uuid = uuid(&t),
                        ("packet.header", Value::Type(ty)) => {
                            self.schema.packet_header = Some(self.with_roles(&ty)?);
                        }
                        _ => {}
                    }
                }
            }
            "env" => {
                let text = |(key, value)| match value {
                    Value::Text(t) => Some((key, t)),
                    Value::Number(n) => Some((key, n.to_string())),
                    Value::Type(_) => None,
                };
                self.schema.env.extend(attributes.into_iter().filter_map(text));
            }
            "clock" => self.clock(attributes)?,
            "stream" => {
                let id = whole(&attributes, "id").unwrap_or(0);
                self.schema.streams.entry(id).or_default();
                for (key, value) in attributes {
                    let Value::Type(ty) = value else { continue };
                    let with_roles = self.with_roles(&ty)?;
                    let class = self.schema.streams.entry(id).or_default();
                    match key.as_str() {
                        "packet.context" => class.packet_context = Some(with_roles),
                        "event.header" => class.event_header = Some(with_roles),
                        "event.context" => class.event_context = Some(ty),
                        _ => {}
                    }
                }
            }
            "event" => {
                let stream = whole(&attributes, "stream_id").unwrap_or(0);
                let id = whole(&attributes, "id").unwrap_or(0);
                let mut class = EventClass::default();
                for (key, value) in attributes {
                    match (key.as_str(), value) {
                        ("name", Value::Text(t)) => class.name = t,
                        ("context", Value::Type(ty)) => class.context = Some(ty),
                        ("fields", Value::Type(ty)) => class.fields = Some(ty),
                        _ => {}
                    }
                }
                self.schema.streams.entry(stream).or_default().events.insert(id, class);
            }
            // callsites, and blocks of later versions
            _ => {}
        }
        Ok(())
    }

    fn clock(&mut self, attributes: Attributes) -> Result<()> {
        let mut clock = Clock { frequency: 1_000_000_000, ..Clock::default() };
        let clamped = |n: i128| n.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        for (key, value) in attributes {
            match (key.as_str(), value) {
                ("name", Value::Text(t)) => clock.name = t,
                ("uuid", Value::Text(t)) => clock.uuid = uuid(&t),
                ("freq", Value::Number(n)) => match u64::try_from(n) {
                    Ok(n @ 1..) => clock.frequency = n,
                    _ => return self.fault("a clock that does not tick"),
                },
                ("offset_s", Value::Number(n)) => clock.offset_s = clamped(n),
                ("offset", Value::Number(n)) => clock.offset = clamped(n),
                _ => {}
            }
        }
        self.schema.clocks.push(clock);
        Ok(())
    }
}

fn whole(attributes: &Attributes, name: &str) -> Option<u64> {
    attributes.iter().find_map(|(key, value)| match value {
        Value::Number(n) if key == name => u64::try_from(*n).ok(),
        _ => None,
    })
}

/// A header or context whose fields have the meaning that CTF 1.8 gives to their names.
fn with_roles(ty: &Type) -> Type {
    let meaning = |name: &str| match name {
        "magic" => role::MAGIC,
        "uuid" => role::UUID,
        "stream_id" => role::STREAM_CLASS,
        "stream_instance_id" => role::STREAM,
        "content_size" => role::CONTENT,
        "packet_size" => role::TOTAL,
        "timestamp_begin" | "timestamp" => role::TIME,
        "timestamp_end" => role::TIME_END,
        "events_discarded" => role::DISCARDED,
        "packet_seq_num" => role::SEQUENCE,
        "cpu_id" => role::CPU,
        "id" => role::EVENT_CLASS,
        _ => 0,
    };
    let member = |name: &Arc<str>, ty: &Type| match ty {
        Type::Int(int) => Type::Int(Int { roles: meaning(name), ..int.clone() }),
        Type::Array(_) if meaning(name) == role::UUID => {
            Type::Bytes { len: Len::Fixed(16), text: false, roles: role::UUID }
        }
        ty => with_roles(ty),
    };
    // the rebuilt types are no heavier than those that were built before
    let rebuilt = match ty {
        Type::Struct(s) => {
            let members = s.members.iter().map(|m| Member { name: m.name.clone(), ty: member(&m.name, &m.ty) });
            Type::structure(members.collect(), s.align)
        }
        Type::Variant(v) => {
            let options = v.options.iter().map(|o| Choice { ty: with_roles(&o.ty), ..o.clone() });
            Type::variant(v.tag.clone(), options.collect())
        }
        ty => Ok(ty.clone()),
    };
    rebuilt.unwrap_or_else(|_| ty.clone())
}
