//! Keys as a file says them:
//!
//! ```toml
//! [[key]]
//! id = 2             # 1 to 255; a number names one key for ever
//! secret = "..."     # base64 of 32 bytes, such as `openssl rand -base64 32` prints
//!
//! [[key]]            # the one before, still accepted
//! id = 1
//! secret = "..."
//! ```
//!
//! Newest first: the first seals new tokens.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key and its number.
pub(super) type NumberedKey = (u8, [u8; 32]);

/// The keys in `bytes`, in their order; none has the number 0, which is the store's own key.
///
/// # Errors
/// What is wrong, with its line and without what stands there: it may be a key.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<NumberedKey>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    keys(text).map_err(|(at, problem)| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        format!("will not do: line {line}: {problem}")
    })
}

/// The problem comes with where in `text` it is.
fn keys(text: &str) -> Result<Vec<NumberedKey>, (usize, String)> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut keys: Vec<NumberedKey> = Vec::new();
    for (name, value) in table.get_ref() {
        let at = name.span().start;
        let entries = match (name.get_ref().as_ref(), value.get_ref()) {
            ("key", DeValue::Array(entries)) => entries,
            ("key", _) => return Err((at, "key is no list: [[key]]".into())),
            _ => return Err((at, "only [[key]] may stand here".into())),
        };
        for entry in entries.iter() {
            let read = key(entry)?;
            if keys.iter().any(|(id, _)| *id == read.0) {
                return Err((entry.span().start, format!("id {} is another key's, too", read.0)));
            }
            keys.push(read);
        }
    }
    if keys.is_empty() {
        return Err((0, "there is no [[key]]".into()));
    }
    Ok(keys)
}

fn key(entry: &Spanned<DeValue<'_>>) -> Result<NumberedKey, (usize, String)> {
    let here = |problem: &str| (entry.span().start, problem.to_owned());
    let fields = entry.get_ref().as_table().ok_or_else(|| here("is no table: [[key]]"))?;
    let (mut id, mut secret) = (None, None);
    for (name, value) in fields {
        let bad = |problem: &str| (name.span().start, problem.to_owned());
        match (name.get_ref().as_ref(), value.get_ref()) {
            ("id", DeValue::Integer(number)) => {
                let number = number.to_string().parse().ok().filter(|id: &u8| *id > 0);
                id = Some(number.ok_or_else(|| bad("id is no number from 1 to 255"))?);
            }
            ("id", _) => return Err(bad("id is no number from 1 to 255")),
            ("secret", DeValue::String(text)) => {
                let bytes = STANDARD.decode(text.as_bytes()).ok();
                let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
                secret = Some(bytes.ok_or_else(|| bad("secret is no base64 of 32 bytes"))?);
            }
            ("secret", _) => return Err(bad("secret is no string")),
            _ => return Err(bad("a key has an id and a secret, and nothing else")),
        }
    }
    let id = id.ok_or_else(|| here("a key has no id"))?;
    Ok((id, secret.ok_or_else(|| here("a key has no secret"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_the_order_of_the_file() {
        let [one, two] = [[1; 32], [2; 32]].map(|key: [u8; 32]| STANDARD.encode(key));
        let text = format!(
            "[[key]]\nid = 255\nsecret = \"{two}\"\n\n[[key]] # old\nsecret = \"{one}\"\nid = 1\n"
        );
        assert_eq!(parse(text.as_bytes()), Ok(vec![(255, [2; 32]), (1, [1; 32])]));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_without_the_secret() {
        let good = STANDARD.encode([7; 32]);
        let short = STANDARD.encode([7; 31]);
        for (text, expected) in [
            (String::new(), "line 1: there is no [[key]]"),
            (format!("[[key]]\nid = 0\nsecret = \"{good}\"\n"), "line 2: id is no number"),
            (format!("[[key]]\nid = 256\nsecret = \"{good}\"\n"), "line 2: id is no number"),
            (format!("[[key]]\nid = \"1\"\nsecret = \"{good}\"\n"), "line 2: id is no number"),
            (format!("[[key]]\nid = 1\nsecret = \"{short}\"\n"), "line 3: secret is no base64"),
            (format!("[[key]]\nsecret = \"{good}\"\n"), "line 1: a key has no id"),
            ("[[key]]\nid = 1\n".into(), "line 1: a key has no secret"),
            ("key = 1\n".into(), "line 1: key is no list"),
            ("\n[[keys]]\n".into(), "line 2: only [[key]]"),
            (format!("[[key]]\nid = 1\nsecret = \"{good}\"\nmore = 1\n"), "line 4: a key has"),
            ("[[key]\n".into(), "line 1: "),
            (
                format!("[[key]]\nid = 1\nsecret = \"{good}\"\n").repeat(2),
                "line 4: id 1 is another key's",
            ),
        ] {
            let problem = parse(text.as_bytes()).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
            assert!(!problem.contains(&good) && !problem.contains(&short), "{problem}");
        }
        assert!(parse(b"\xff").is_err());
    }
}
