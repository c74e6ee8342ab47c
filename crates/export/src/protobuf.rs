//! Writing protocol buffers: the few kinds of field that OTLP, Perfetto and pprof have. Fields are written in the order of the
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

#[cfg(test)]
mod tests {
    use super::*;

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
