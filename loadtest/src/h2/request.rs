//! The headers of the requests of one connection. They are all alike, but for a path that may
//! differ; so they are written down once, sent in full once, and after that as one byte each.

use std::time::Duration;

/// What can stand in a request.
pub(crate) struct Template {
    /// `GET` or `POST`.
    pub(crate) method: Method,
    pub(crate) authority: String,
    /// Nothing: each request has its own.
    pub(crate) path: Option<String>,
    /// Further headers.
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

/// The bytes before and behind the path.
struct Block {
    before: Vec<u8>,
    behind: Vec<u8>,
}

/// Writes the header blocks of a connection.
pub(crate) struct Requests {
    in_full: Block,
    by_number: Block,
    is_first: bool,
    /// The peer keeps no table: everything is always sent in full.
    is_plain: bool,
    plain: Block,
}

/// The number of `:path` in the static table, of `:authority`, and how many numbers it has.
const PATH: u8 = 4;
const AUTHORITY: u8 = 1;
const STATIC_FIELDS: usize = 61;

impl Template {
    /// A unary or streaming call of gRPC.
    pub(crate) fn grpc(authority: &str, path: &str) -> Self {
        Self {
            method: Method::Post,
            authority: authority.to_owned(),
            path: Some(path.to_owned()),
            headers: vec![
                ("content-type", "application/grpc".to_owned()),
                ("te", "trailers".to_owned()),
            ],
        }
    }

    /// The same with a deadline, in whole milliseconds.
    pub(crate) fn with_deadline(mut self, deadline: Option<Duration>) -> Self {
        let timeout = deadline.map(|deadline| format!("{}m", deadline.as_millis()));
        self.headers.extend(timeout.map(|timeout| ("grpc-timeout", timeout)));
        self
    }

    /// What a browser asks for; the path is given with each request.
    pub(crate) fn browser(authority: &str, user_agent: &str) -> Self {
        Self {
            method: Method::Get,
            authority: authority.to_owned(),
            path: None,
            headers: vec![("accept", "*/*".to_owned()), ("user-agent", user_agent.to_owned())],
        }
    }

    /// What writes it.
    pub(crate) fn requests(&self) -> Requests {
        Requests {
            in_full: self.block(0x40, 6),
            plain: self.block(0x00, 4),
            by_number: self.numbers(),
            is_first: true,
            is_plain: false,
        }
    }

    fn start(&self) -> Vec<u8> {
        // Static fields: the method, and the scheme `http`.
        vec![if self.method == Method::Get { 0x82 } else { 0x83 }, 0x86]
    }

    /// All fields in full. `first` says whether the peer shall keep them, in all but the lowest
    /// `bits` of their first bytes.
    fn block(&self, first: u8, bits: u32) -> Block {
        let mut before = self.start();
        if let Some(path) = &self.path {
            before.push(first | PATH);
            put_string(&mut before, path.as_bytes());
        }
        debug_assert!(AUTHORITY < 1 << bits, "its number fits in the first byte");
        let mut behind = vec![first | AUTHORITY];
        put_string(&mut behind, self.authority.as_bytes());
        for (name, value) in &self.headers {
            behind.push(first);
            put_string(&mut behind, name.as_bytes());
            put_string(&mut behind, value.as_bytes());
        }
        Block { before, behind }
    }

    /// The same once the peer has kept them: the newest has the lowest number.
    fn numbers(&self) -> Block {
        let kept = usize::from(self.path.is_some()) + 1 + self.headers.len();
        let mut numbers = (STATIC_FIELDS + 1..=STATIC_FIELDS + kept)
            .rev()
            .map(|number| 0x80 | u8::try_from(number).unwrap_or(u8::MAX));
        let mut before = self.start();
        if self.path.is_some() {
            before.extend(numbers.next());
        }
        Block { before, behind: numbers.collect() }
    }
}

impl Requests {
    /// The peer keeps no table, or a tiny one.
    pub(crate) fn send_in_full(&mut self) {
        self.is_plain = true;
    }

    /// Appends the block of the next request; `path` where the template has none.
    #[inline]
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, path: Option<&[u8]>) {
        let block = match (self.is_plain, self.is_first) {
            (true, _) => &self.plain,
            (false, true) => &self.in_full,
            (false, false) => &self.by_number,
        };
        out.extend_from_slice(&block.before);
        if let Some(path) = path {
            // Not to be kept: it does not come again.
            out.push(PATH);
            put_string(out, path);
        }
        out.extend_from_slice(&block.behind);
        self.is_first = false;
    }
}

/// A string as it is, its length before it.
fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    const MOST: usize = 0x7f;
    if text.len() < MOST {
        out.push(u8::try_from(text.len()).unwrap_or_default());
    } else {
        out.push(0x7f);
        let mut rest = text.len() - MOST;
        while rest >= 0x80 {
            out.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
            rest >>= 7;
        }
        out.push(u8::try_from(rest).unwrap_or_default());
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        let field = |name: &[u8], value: &[u8]| {
            let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
            fields.push(format!("{name}: {value}"));
        };
        decoder.decode(block, field).unwrap();
        fields
    }

    #[test]
    fn the_first_request_is_said_in_full_and_the_next_by_number() {
        let mut requests = Template::grpc("127.0.0.1:7070", "/a.B/C").requests();
        let (mut decoder, mut blocks) = (Decoder::default(), Vec::new());
        for _ in 0..3 {
            let mut block = Vec::new();
            requests.put(&mut block, None);
            assert_eq!(
                read(&mut decoder, &block),
                [
                    ":method: POST",
                    ":scheme: http",
                    ":path: /a.B/C",
                    ":authority: 127.0.0.1:7070",
                    "content-type: application/grpc",
                    "te: trailers",
                ]
            );
            blocks.push(block);
        }
        assert_eq!(blocks[1].len(), 6);
        assert_eq!(blocks[1], blocks[2]);
    }

    #[test]
    fn a_deadline_is_named_in_the_first_request_and_known_in_the_next() {
        let deadline = Some(Duration::from_millis(50));
        let mut requests = Template::grpc("localhost", "/a.B/C").with_deadline(deadline).requests();
        let mut decoder = Decoder::default();
        for _ in 0..2 {
            let mut block = Vec::new();
            requests.put(&mut block, None);
            assert_eq!(read(&mut decoder, &block)[6], "grpc-timeout: 50m");
        }
    }

    #[test]
    fn a_path_of_its_own_is_not_kept() {
        let mut requests = Template::browser("ads.example", "Browser/1").requests();
        requests.send_in_full();
        let mut kept = Template::browser("ads.example", "Browser/1").requests();
        let (mut decoder, mut other) = (Decoder::default(), Decoder::default());
        for round in 0..3 {
            // Longer than a length of one byte can say.
            let path = format!("/c/{}{round}", "x".repeat(200));
            let (mut block, mut short) = (Vec::new(), Vec::new());
            requests.put(&mut block, Some(path.as_bytes()));
            kept.put(&mut short, Some(path.as_bytes()));
            let fields = read(&mut decoder, &block);
            assert_eq!(fields[2], format!(":path: {path}"));
            assert_eq!(fields[5], "user-agent: Browser/1");
            assert_eq!(read(&mut other, &short), fields);
        }
        assert_eq!(decoder.changes(), 0, "a peer without a table is told to keep nothing");
        assert_eq!(other.changes(), 3);
    }
}
