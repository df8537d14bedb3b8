//! The words of an expression, each with its column.

use super::{NUMBER_MAX, SyntaxError};

/// Characters of somebody's text that a message repeats.
const SHOWN_MAX: usize = 32;

/// A word or a sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    Text(String),
    Number(f64),
    And,
    Or,
    Not,
    In,
    Exists,
    Equals,
    Differs,
    Less,
    AtMost,
    More,
    AtLeast,
    Open,
    Close,
    Comma,
    End,
}

impl Token {
    /// The word that the language has for itself, if `word` is one.
    fn keyword(word: &str) -> Option<Self> {
        let keywords = [
            ("and", Self::And),
            ("or", Self::Or),
            ("not", Self::Not),
            ("in", Self::In),
            ("exists", Self::Exists),
        ];
        keywords.into_iter().find(|(own, _)| own.eq_ignore_ascii_case(word)).map(|(_, token)| token)
    }

    /// What it is, for a message.
    pub(super) fn shown(&self) -> String {
        let sign = match self {
            Self::Name(name) => return format!("`{}`", shown(name)),
            Self::Text(text) => return format!("the text \"{}\"", shown(text)),
            Self::Number(number) => return format!("the number {number}"),
            Self::End => return "the end".to_owned(),
            Self::And => "and",
            Self::Or => "or",
            Self::Not => "not",
            Self::In => "in",
            Self::Exists => "exists",
            Self::Equals => "=",
            Self::Differs => "!=",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Open => "(",
            Self::Close => ")",
            Self::Comma => ",",
        };
        format!("`{sign}`")
    }
}

/// Takes words off the front of a text.
pub(super) struct Lexer<'t> {
    rest: &'t str,
    column: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { rest: text, column: 1 }
    }

    /// The next word and its column; at the end of the text always [`Token::End`].
    pub(super) fn next(&mut self) -> Result<(usize, Token), SyntaxError> {
        self.take_while(char::is_whitespace);
        let column = self.column;
        let refuse = |message: &str| Err(SyntaxError { column, message: message.to_owned() });
        let Some(first) = self.rest.chars().next() else { return Ok((column, Token::End)) };
        let token = match first {
            '"' => self.text()?,
            '-' | '0'..='9' => self.number()?,
            '_' => self.word(),
            letter if letter.is_alphabetic() => self.word(),
            _ => match self.take_while(|c| "=!<>&|".contains(c)) {
                "=" => Token::Equals,
                "!=" => Token::Differs,
                "<" => Token::Less,
                "<=" => Token::AtMost,
                ">" => Token::More,
                ">=" => Token::AtLeast,
                "==" => return refuse("`==` is written `=`"),
                "<>" => return refuse("`<>` is written `!=`"),
                "!" => return refuse("`!` is written `not`"),
                "&" | "&&" => return refuse("`and` would do here"),
                "|" | "||" => return refuse("`or` would do here"),
                "" => return self.sign(first).map(|token| (column, token)),
                signs => return refuse(&format!("`{}` is no comparison", shown(signs))),
            },
        };
        Ok((column, token))
    }

    /// The sign `first`, alone.
    fn sign(&mut self, first: char) -> Result<Token, SyntaxError> {
        let token = match first {
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '\'' | '`' | '\u{2018}'..='\u{201f}' => {
                let message = "text stands in double quotes, such as \"sport\"".to_owned();
                return Err(SyntaxError { column: self.column, message });
            }
            other => {
                let message = format!("{other:?} has no meaning here");
                return Err(SyntaxError { column: self.column, message });
            }
        };
        self.take(first.len_utf8());
        Ok(token)
    }

    fn word(&mut self) -> Token {
        let is_part = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let word = self.take_while(is_part);
        Token::keyword(word).unwrap_or_else(|| Token::Name(word.to_owned()))
    }

    fn number(&mut self) -> Result<Token, SyntaxError> {
        let column = self.column;
        let word = self.take_while(|c| c.is_alphanumeric() || "_-.+".contains(c));
        let refuse = |message| Err(SyntaxError { column, message });
        match word.parse::<f64>() {
            Ok(number) if number.abs() <= NUMBER_MAX => Ok(Token::Number(number)),
            Ok(number) if word.contains(|c: char| c.is_ascii_digit()) && !number.is_nan() => {
                refuse(format!(
                    "{} is too large to be compared as a number; as text, \"{0}\", it would do",
                    shown(word)
                ))
            }
            _ => refuse(format!(
                "`{}` is no number, and no name begins so; text stands in double quotes",
                shown(word)
            )),
        }
    }

    /// A text in double quotes, in which a backslash goes before `"` and `\`.
    fn text(&mut self) -> Result<Token, SyntaxError> {
        let opened = self.column;
        self.take(1);
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|c| c != '"' && c != '\\'));
            let column = self.column;
            match self.rest.as_bytes() {
                [b'"', ..] => {
                    self.take(1);
                    return Ok(Token::Text(text));
                }
                [_, escaped @ (b'"' | b'\\'), ..] => {
                    text.push(char::from(*escaped));
                    self.take(2);
                }
                [] | [_] => {
                    let message = "this text has no closing quote".to_owned();
                    return Err(SyntaxError { column: opened, message });
                }
                _ => {
                    let message = r#"a backslash stands only before " and \; itself it is \\"#;
                    return Err(SyntaxError { column, message: message.to_owned() });
                }
            }
        }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// The next `len` bytes, which end between two characters.
    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.column += taken.chars().count();
        taken
    }
}

/// The beginning of somebody's text, fit for a message.
pub(super) fn shown(text: &str) -> String {
    let escaped = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug);
    let more = if text.chars().nth(SHOWN_MAX).is_some() { "..." } else { "" };
    escaped.chain(more.chars()).collect()
}
