//! Who the caller is, where a door asks: a bearer token.

use std::fmt;

use tonic::metadata::{Ascii, MetadataValue};

use crate::limits::TOKEN_BYTES_MAX;

/// A bearer token. It goes out as `authorization: Bearer ...`, and never into a log.
///
/// ```
/// use slotwise_client::Token;
///
/// let token = Token::new("s3cret\n")?;
/// assert_eq!(format!("{token:?}"), "Token(hidden)");
/// assert!(Token::new("two words").is_err());
/// # Ok::<(), slotwise_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Token {
    header: MetadataValue<Ascii>,
}

impl Token {
    /// Takes a token as a file or a variable holds it: white space around it is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Options`] where it is empty, longer than 4 KiB, or not one word of visible
    /// ASCII. The message does not repeat it.
    pub fn new(token: &str) -> Result<Self, crate::Error> {
        let token = token.trim();
        let bad = |what: &str| crate::Error::Options(format!("the token {what}"));
        match token {
            "" => return Err(bad("is empty")),
            long if long.len() > TOKEN_BYTES_MAX => return Err(bad("is longer than 4 KiB")),
            _ => {}
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("is not one word of visible ASCII"));
        }
        let mut header: MetadataValue<Ascii> =
            format!("Bearer {token}").parse().map_err(|_| bad("does not fit a header"))?;
        header.set_sensitive(true);
        Ok(Token { header })
    }

    pub(crate) fn header(&self) -> MetadataValue<Ascii> {
        self.header.clone()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_is_never_shown() {
        let token = Token::new("  abc.DEF-123_~+/=\r\n").unwrap();
        assert_eq!(token.header().to_str().unwrap(), "Bearer abc.DEF-123_~+/=");
        let shown = format!("{token:?} {:?}", token.header());
        assert!(!shown.contains("abc"), "{shown}");
        for bad in ["", " \n", "a b", "a\nb", "\u{fc}", &"x".repeat(4 * 1024 + 1)] {
            let refused = Token::new(bad).unwrap_err().to_string();
            assert!(refused.starts_with("the token "), "{refused}");
        }
    }
}
