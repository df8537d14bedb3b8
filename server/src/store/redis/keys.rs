//! The names of our keys, and objects as Redis keeps them.

use redis::Value;
use slotwise_core::index::Key;
use slotwise_core::model::Status;

use super::link::words;
use crate::ports::{Head, Row, Serial, StoreError};

/// The keys of the catalogue. All have one hash tag, so that one script may touch them all.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Self {
        Self { prefix: format!("{{{prefix}}}") }
    }

    /// What the keys begin with: the hash tag in its braces.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// One key.
    pub(super) fn one(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Several keys.
    pub(super) fn all<const N: usize>(&self, names: [&str; N]) -> Vec<String> {
        names.map(|name| self.one(name)).to_vec()
    }
}

/// An object's name in Redis: kind, parent, a zero byte, id. Ids hold no control characters, so
/// these sort as (kind, parent, id) do.
pub(super) fn name_of(key: &Key) -> Vec<u8> {
    let (parent, id) = key.parts();
    let mut name = vec![b'0' + kind_of(key)];
    name.extend(parent.as_bytes());
    name.push(0);
    name.extend(id.as_bytes());
    name
}

/// The number of a key's kind; never changed, never reused.
pub(super) fn kind_of(key: &Key) -> u8 {
    match key {
        Key::Account(_) => 1,
        Key::Site(_) => 2,
        Key::Zone(..) => 3,
        Key::Campaign(_) => 4,
        Key::Ad(..) => 5,
    }
}

/// The kind, as [`kind_of`] has it, and the number.
pub(super) fn serial_parts(serial: Serial) -> (u8, u32) {
    match serial {
        Serial::Account(serial) => (1, serial.0),
        Serial::Zone(serial) => (3, serial.0),
        Serial::Campaign(serial) => (4, serial.0),
        Serial::Ad(serial) => (5, serial.0),
    }
}

/// The key with this name; nothing where it is none of ours.
pub(super) fn key_from(name: &[u8]) -> Option<Key> {
    let (kind, rest) = std::str::from_utf8(name).ok()?.split_at_checked(1)?;
    let (parent, id) = rest.split_once('\0')?;
    Some(match kind {
        "1" => Key::Account(id.into()),
        "2" => Key::Site(id.into()),
        "3" => Key::Zone(parent.into(), id.into()),
        "4" => Key::Campaign(id.into()),
        "5" => Key::Ad(parent.into(), id.into()),
        _ => return None,
    })
}

pub(super) fn status_code(status: Option<Status>) -> u8 {
    match status {
        None => 0,
        Some(Status::Active) => 1,
        Some(Status::Paused) => 2,
    }
}

/// No protobuf message: stands for a body that cannot be read.
const UNREADABLE: &[u8] = &[0xff];

/// An object as it is written whole.
pub(super) fn value_of(row: &Row, owner: &str) -> Vec<u8> {
    let status = status_code(row.status);
    let mut value =
        format!("{} {} {status} {} {owner}\n", row.serial, row.version, row.version).into_bytes();
    value.extend(&row.body);
    value
}

/// The row of an object: `<serial> <version> <status> <its version> <owner>\n<body>`, with the
/// later switch of a campaign, `<status> <version>`, where there is one.
///
/// Somebody may have written here by hand: what cannot be read goes on as a row that no check
/// lets pass, so that it is told and left out while the others are served.
pub(super) fn row_from(key: Key, value: &[u8], switched: &[u8]) -> Row {
    let parsed = parse(value);
    let (serial, version, body) = match &parsed {
        Some(parsed) => (parsed.serial, parsed.version, parsed.body),
        None => (0, 0, UNREADABLE),
    };
    let switch = pair(switched);
    let own = parsed.as_ref().map_or((2, 0), |parsed| parsed.status);
    let (status, since) = match switch {
        Some((status, since)) if since >= own.1 => (status, since),
        _ => own,
    };
    let is_campaign = matches!(key, Key::Campaign(_));
    // What is not known as active is not shown.
    let status = if status == 1 { Status::Active } else { Status::Paused };
    Row {
        serial,
        version: if is_campaign { version.max(since) } else { version },
        status: is_campaign.then_some(status),
        body: body.to_vec(),
        key,
    }
}

struct Parsed<'v> {
    serial: u32,
    version: u64,
    status: (u64, u64),
    body: &'v [u8],
}

fn parse(value: &[u8]) -> Option<Parsed<'_>> {
    let end = value.iter().position(|byte| *byte == b'\n')?;
    let header = std::str::from_utf8(&value[..end]).ok()?;
    let mut fields = header.splitn(5, ' ');
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (serial, version, status) = (number()?, number()?, (number()?, number()?));
    Some(Parsed { serial: serial.try_into().ok()?, version, status, body: &value[end + 1..] })
}

/// `<number> <number>`
fn pair(text: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// The head in a reply of HGETALL.
pub(super) fn head_from(fields: &Value) -> Result<Head, StoreError> {
    let mut head = Head::default();
    for pair in array(fields)?.chunks(2) {
        let [name, value] = pair else { return Err(strange(fields)) };
        let number = || -> Result<u64, StoreError> {
            let text = std::str::from_utf8(bytes(value)?).unwrap_or_default();
            text.parse().map_err(|_| damaged(bytes(name).unwrap_or_default(), text))
        };
        let serial = || Ok::<_, StoreError>(u32::try_from(number()?).unwrap_or(u32::MAX));
        match bytes(name)? {
            b"version" => head.version = number()?,
            b"ads" => head.ads = number()?,
            b"forced_version" => head.forced_version = number()?,
            b"mark" => head.mark = number()?,
            b"serial:1" => head.serials[0] = serial()?,
            b"serial:2" => head.serials[1] = serial()?,
            b"serial:3" => head.serials[2] = serial()?,
            b"serial:4" => head.serials[3] = serial()?,
            b"serial:5" => head.serials[4] = serial()?,
            _ => {}
        }
    }
    Ok(head)
}

fn damaged(name: &[u8], text: &str) -> StoreError {
    let name = String::from_utf8_lossy(name);
    StoreError::Unavailable(format!("the catalogue's head is damaged: {name} = {text:?}"))
}

/// Rows in a reply of `key, value, status, ...`.
pub(super) fn rows_from(reply: &Value) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    for triple in array(reply)?.chunks(3) {
        let [name, value, switched] = triple else { return Err(strange(reply)) };
        // A name that is none of ours was written by hand, and is nobody's.
        let Some(key) = key_from(bytes(name)?) else { continue };
        rows.push(row_from(key, bytes(value)?, bytes(switched)?));
    }
    Ok(rows)
}

pub(super) fn array(value: &Value) -> Result<&[Value], StoreError> {
    match value {
        Value::Array(values) => Ok(values),
        Value::Nil => Ok(&[]),
        other => Err(strange(other)),
    }
}

pub(super) fn bytes(value: &Value) -> Result<&[u8], StoreError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.as_bytes()),
        Value::Nil => Ok(&[]),
        other => Err(strange(other)),
    }
}

pub(super) fn number(value: &Value) -> Result<i64, StoreError> {
    match value {
        Value::Int(number) => Ok(*number),
        other => {
            let text = std::str::from_utf8(bytes(other)?).unwrap_or_default();
            text.parse().map_err(|_| strange(other))
        }
    }
}

/// A reply that our own scripts do not give.
pub(super) fn strange(value: &Value) -> StoreError {
    if let Value::ServerError(error) = value {
        return StoreError::Unavailable(words(&error.clone().into()));
    }
    let mut shown = format!("{value:?}");
    shown.truncate((0..=80.min(shown.len())).rfind(|at| shown.is_char_boundary(*at)).unwrap_or(0));
    StoreError::Unavailable(format!("redis gave a reply that makes no sense: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_keys_do_and_read_back() {
        let keys = [
            Key::Account("z".into()),
            Key::Site("a".into()),
            Key::Zone("a".into(), "z".into()),
            Key::Zone("a/b".into(), "c".into()),
            Key::Campaign("x:1".into()),
            Key::Ad("x:1".into(), "ä".into()),
        ];
        let names = keys.each_ref().map(name_of);
        assert!(names.is_sorted());
        assert_eq!(names.map(|name| key_from(&name).unwrap()), keys);
        for bad in [&b""[..], b"5", b"9a\0b", b"5\xff\0b", b"\xc3"] {
            assert_eq!(key_from(bad), None);
        }
    }

    #[test]
    fn the_later_word_on_a_campaign_holds() {
        let of = |value: &str, switched: &str| {
            let row = row_from(Key::Campaign("x:1".into()), value.as_bytes(), switched.as_bytes());
            (row.serial, row.version, row.status.unwrap(), row.body)
        };
        let body = b"body\nand more".to_vec();
        let value = "7 9 1 4 net\nbody\nand more";
        assert_eq!(of(value, ""), (7, 9, Status::Active, body.clone()));
        assert_eq!(of(value, "2 12"), (7, 12, Status::Paused, body.clone()));
        assert_eq!(of(value, "2 3"), (7, 9, Status::Active, body));
        assert_eq!(of("garbage", "").2, Status::Paused, "what is not known is not shown");
        assert_eq!(of("garbage", "").3, UNREADABLE);
    }
}
