//! Writing protocol buffers, and reading short answers: the few kinds of field that OTLP, Perfetto and pprof have. Fields are written in the order of the
//! calls; a value of 0 or an empty text is what a reader assumes of a field that is missing, so it is left out.

/// A message while it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message(Vec<u8>);

/// How a field's value is laid out.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

impl Message {
    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Forgets what was written, and keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// An unsigned number, an enum or a flag.
    pub fn put_uint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.put_key(field, Wire::Varint);
            self.put_varint(value);
        }
    }

    /// A signed number (`int64`).
    pub fn put_int(&mut self, field: u32, value: i64) {
        self.put_uint(field, value.cast_unsigned());
    }

    /// A number, also where it is 0: for a field whose being there says something.
    pub fn put_int_always(&mut self, field: u32, value: i64) {
        self.put_key(field, Wire::Varint);
        self.put_varint(value.cast_unsigned());
    }

    /// A number of 64 bits as they are (`fixed64`).
    pub fn put_fixed64(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.put_key(field, Wire::Fixed64);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// Bytes or text.
    pub fn put_bytes(&mut self, field: u32, value: &[u8]) {
        if !value.is_empty() {
            self.put_bytes_always(field, value);
        }
    }

    /// Bytes or text, also where there are none: for elements of a list and for a field whose being there says something.
    pub fn put_bytes_always(&mut self, field: u32, value: &[u8]) {
        self.put_key(field, Wire::Bytes);
        self.put_varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    /// A message within this one, also where it is empty.
    pub fn put(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.put_bytes_always(field, &inner.0);
    }

    /// A list of numbers, packed.
    pub fn put_packed(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        let mut inner = Message::default();
        values.for_each(|v| inner.put_varint(v));
        self.put_bytes(field, &inner.0);
    }

    fn put_key(&mut self, field: u32, wire: Wire) {
        self.put_varint(u64::from(field) << 3 | wire as u64);
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A field's value, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A number, an enum or a flag.
    Number(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Read<'a> {
    /// A number.
    pub fn number(self) -> Option<u64> {
        if let Read::Number(n) = self { Some(n) } else { None }
    }

    /// Text, bytes or a message.
    pub fn bytes(self) -> Option<&'a [u8]> {
        if let Read::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// The numbers and values of a message's fields, up to where it is no message.
pub fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Read<'_>)> {
    std::iter::from_fn(move || {
        let key = varint(&mut rest)?;
        let value = match key & 7 {
            0 => Read::Number(varint(&mut rest)?),
            1 => Read::Number(u64::from_le_bytes(*take(&mut rest, 8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                Read::Bytes(take(&mut rest, length)?)
            }
            5 => Read::Number(u64::from(u32::from_le_bytes(*take(&mut rest, 4)?.first_chunk()?))),
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut m = Message::default();
        m.put_uint(1, 150);
        m.put_bytes(2, b"testing");
        m.put_fixed64(16, 7);
        m.put_int(3, -1);
        let all: Vec<_> = fields(m.bytes()).collect();
        let told =
            [(1, Read::Number(150)), (2, Read::Bytes(b"testing")), (16, Read::Number(7)), (3, Read::Number(u64::MAX))];
        assert_eq!(all, told);
        for cut in 0..m.bytes().len() {
            assert!(told.starts_with(&fields(&m.bytes()[..cut]).collect::<Vec<_>>()));
        }
        assert_eq!(fields(&[0xff; 40]).count(), 0);
        assert_eq!(fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]).count(), 0);
    }

    #[test]
    fn fields_are_laid_out_as_the_format_says() {
        let mut m = Message::default();
        m.put_uint(1, 150);
        m.put_bytes(2, b"testing");
        m.put(3, |inner| inner.put_uint(1, 150));
        m.put_packed(4, [3, 270, 86942].into_iter());
        m.put_fixed64(5, 1);
        // the first four are the examples of the format's own description
        assert_eq!(m.bytes()[..3], [0x08, 0x96, 0x01]);
        assert_eq!(m.bytes()[3..12], *b"\x12\x07testing");
        assert_eq!(m.bytes()[12..17], [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(m.bytes()[17..25], [0x22, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        assert_eq!(m.bytes()[25..], [0x29, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let mut m = Message::default();
        m.put_int(1, -1);
        assert_eq!(m.bytes(), [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn what_a_reader_assumes_is_left_out() {
        let mut m = Message::default();
        m.put_uint(1, 0);
        m.put_bytes(2, b"");
        m.put_fixed64(3, 0);
        assert!(m.bytes().is_empty());
        m.put_int_always(4, 0);
        m.put_bytes_always(5, b"");
        assert_eq!(m.bytes(), [0x20, 0, 0x2a, 0]);
    }
}
