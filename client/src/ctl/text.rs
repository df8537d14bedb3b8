//! Words for people, and the escaping that keeps a server's text from driving their terminal.

use std::borrow::Cow;

/// Shown of a long text; `--json` has the whole.
const EXCERPT_CHARS_MAX: usize = 120;

/// Whether a character acts on the terminal instead of being shown: control characters, line
/// separators, and the marks that turn the reading direction around.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with every unsafe character written out, as `\n` or `\u{1b}`; all else is literal.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// `1 ad`, `2 ads`.
pub(crate) fn count(n: impl Into<u64>, noun: &str) -> String {
    match n.into() {
        1 => format!("1 {noun}"),
        n => format!("{n} {noun}s"),
    }
}

/// An enum's name as words: `CAMPAIGN_STATUS_PAUSED` without its prefix is `paused`.
pub(crate) fn words(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).replace('_', " ").to_lowercase()
}

/// The start of a long text, with its whole length.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_acts_on_a_terminal_is_escaped() {
        assert_eq!(safe("=1+1 <b>x</b> \u{fc}\\n"), "=1+1 <b>x</b> \u{fc}\\n");
        assert_eq!(safe("a\u{1b}[2Jb\n\u{9b}\u{202e}"), r"a\u{1b}[2Jb\n\u{9b}\u{202e}");
    }

    #[test]
    fn counts_and_names_read_as_words() {
        assert_eq!(count(1u32, "ad"), "1 ad");
        assert_eq!(count(0u32, "ad"), "0 ads");
        assert_eq!(words("VERDICT_FLIGHT_ENDED", "VERDICT_"), "flight ended");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(excerpt("short"), "short");
        let long = "\u{fc}".repeat(200);
        assert_eq!(excerpt(&long), format!("{}... (400 bytes)", "\u{fc}".repeat(120)));
    }
}
