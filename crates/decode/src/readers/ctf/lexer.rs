//! Words of CTF 1.8's metadata language (TSDL), and the packets that they may come in.

/// One word.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    Number(i128),
    Text(String),
    /// `:=`.
    Assign,
    /// `...`.
    Dots,
    Sign(u8),
    End,
}

/// Where and why the metadata cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub at: u64,
    pub why: String,
}

/// Words out of bytes.
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8]) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// Byte offset of what comes next.
    pub fn at(&self) -> usize {
        self.at
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) -> Result<(), Fault> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    let rest = &self.text[self.at + 2..];
                    let Some(end) = rest.windows(2).position(|w| w == b"*/") else {
                        return Err(self.fault("a comment without an end"));
                    };
                    self.at += end + 4;
                }
                (b'/', b'/') => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                (0, _) if self.at < self.text.len() => self.at += 1,
                (b, _) if b.is_ascii_whitespace() => self.at += 1,
                _ => return Ok(()),
            }
        }
    }

    pub fn fault(&self, why: &str) -> Fault {
        Fault { at: self.at as u64, why: why.to_owned() }
    }

    pub fn next(&mut self) -> Result<Token, Fault> {
        self.skip_blank()?;
        if self.at >= self.text.len() {
            return Ok(Token::End);
        }
        match self.peek(0) {
            b'0'..=b'9' => self.number(),
            b if b.is_ascii_alphabetic() || b == b'_' => {
                let rest = &self.text[self.at..];
                let len = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len());
                self.at += len;
                Ok(Token::Word(String::from_utf8_lossy(&rest[..len]).into_owned()))
            }
            quote @ (b'"' | b'\'') => self.text(quote),
            b':' if self.peek(1) == b'=' => {
                self.at += 2;
                Ok(Token::Assign)
            }
            b'.' if self.peek(1) == b'.' && self.peek(2) == b'.' => {
                self.at += 3;
                Ok(Token::Dots)
            }
            b if b.is_ascii_punctuation() => {
                self.at += 1;
                Ok(Token::Sign(b))
            }
            _ => Err(self.fault("a byte that begins no word")),
        }
    }

    fn number(&mut self) -> Result<Token, Fault> {
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let word = String::from_utf8_lossy(&rest[..len]).to_ascii_lowercase();
        let (base, digits) = match word.as_bytes() {
            [b'0', b'x', ..] => (16, &word[2..]),
            [b'0', b'b', ..] => (2, &word[2..]),
            [b'0', _, ..] => (8, &word[1..]),
            _ => (10, &word[..]),
        };
        let digits = digits.trim_end_matches(['u', 'l']);
        // "0u" and the like leave no digit
        let value = i128::from_str_radix(if digits.is_empty() { "0" } else { digits }, base);
        match value {
            Ok(value) if value <= i128::from(u64::MAX) => {
                self.at += len;
                Ok(Token::Number(value))
            }
            _ => Err(self.fault("not a number of at most 64 bits")),
        }
    }

    fn text(&mut self, quote: u8) -> Result<Token, Fault> {
        let start = self.at;
        self.at += 1;
        let mut out = Vec::new();
        while self.at < self.text.len() {
            let b = self.peek(0);
            self.at += 1;
            match b {
                _ if b == quote => {
                    let text = String::from_utf8_lossy(&out).into_owned();
                    // 'x' is a number in the language's grammar, yet only texts are written so
                    return Ok(Token::Text(text));
                }
                b'\\' => out.push(self.escape()),
                b => out.push(b),
            }
        }
        Err(Fault { at: start as u64, why: "a text without an end".into() })
    }

    fn escape(&mut self) -> u8 {
        let b = self.peek(0);
        self.at += 1;
        match b {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'v' => 11,
            b'f' => 12,
            b'x' => self.digits(16, 2, 0),
            b'0'..=b'7' => self.digits(8, 2, u32::from(b - b'0')),
            b => b,
        }
    }

    fn digits(&mut self, base: u32, count: usize, first: u32) -> u8 {
        let mut value = first;
        for _ in 0..count {
            let Some(digit) = char::from(self.peek(0)).to_digit(base) else { break };
            value = value * base + digit;
            self.at += 1;
        }
        value as u8
    }
}

const MAGIC: u32 = 0x75D1_1D57;
const HEADER: usize = 37;

/// The text of metadata: as it is, or out of its packets (CTF 1.8, §7.1). Beside it where its packets stopped to be
/// readable.
pub(super) fn unpacked(bytes: &[u8]) -> (std::borrow::Cow<'_, [u8]>, Option<Fault>) {
    let word = |at: usize, big: bool| {
        let raw: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if big { u32::from_be_bytes(raw) } else { u32::from_le_bytes(raw) })
    };
    let big = match (word(0, false), word(0, true)) {
        (Some(MAGIC), _) => false,
        (_, Some(MAGIC)) => true,
        _ => return (bytes.into(), None),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let fault = |why: &str| Some(Fault { at: at as u64, why: why.into() });
        let (Some(magic), Some(content), Some(total)) = (word(at, big), word(at + 24, big), word(at + 28, big)) else {
            return (text.into(), fault("the file ends in a packet's header"));
        };
        let (content, total) = (content as usize / 8, total as usize / 8);
        if magic != MAGIC || content < HEADER || total < content {
            return (text.into(), fault("not a packet of metadata"));
        }
        // compression, encryption, checksum: none is in use
        if bytes.get(at + 32..at + 34).is_none_or(|schemes| schemes != [0, 0]) {
            return (text.into(), fault("compressed or encrypted metadata"));
        }
        let end = at.saturating_add(content);
        match bytes.get(at + HEADER..end) {
            Some(part) => text.extend_from_slice(part),
            None => {
                text.extend_from_slice(bytes.get(at + HEADER..).unwrap_or_default());
                return (text.into(), fault("the file ends in this packet"));
            }
        }
        at = at.saturating_add(total);
    }
    (text.into(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(text.as_bytes());
        let mut out = Vec::new();
        loop {
            match lexer.next().expect("readable") {
                Token::End => return out,
                token => out.push(token),
            }
        }
    }

    #[test]
    fn numbers_texts_and_signs() {
        use Token::{Assign, Dots, Number, Sign, Text, Word};
        assert_eq!(
            words("a := 0x1F 017 /* c */ 12ul // d\r\n \"\\\"\\x41\\040\" 3 ... -4;"),
            [
                Word("a".into()),
                Assign,
                Number(31),
                Number(15),
                Number(12),
                Text("\"A ".into()),
                Number(3),
                Dots,
                Sign(b'-'),
                Number(4),
                Sign(b';')
            ]
        );
    }

    fn packet(text: &[u8], big: bool) -> Vec<u8> {
        let word = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
        let mut out = word(MAGIC).to_vec();
        out.extend([0; 20]);
        out.extend(word((HEADER + text.len()) as u32 * 8));
        out.extend(word((HEADER + text.len() + 5) as u32 * 8));
        out.extend([0, 0, 0, 1, 8]);
        out.extend(text);
        out.extend([0; 5]);
        out
    }

    #[test]
    fn packets_of_either_order() {
        for big in [false, true] {
            let both = [packet(b"ab", big), packet(b"cd", big)].concat();
            let (text, fault) = unpacked(&both);
            assert_eq!(&*text, b"abcd");
            assert!(fault.is_none());
            for cut in 0..both.len() {
                let (text, fault) = unpacked(&both[..cut]);
                assert!(cut < 4 || b"abcd".starts_with(&text), "{cut}");
                assert!(fault.is_some() || cut < 4 || text.len() % 2 == 0, "{cut}");
            }
        }
        assert_eq!(&*unpacked(b"/* CTF 1.8 */").0, b"/* CTF 1.8 */");
    }
}
