//! Who may call the admin door, as a file says it:
//!
//! ```toml
//! [[identity]]
//! name = "ci"            # who stands in the audit log
//! role = "operator"      # viewer, operator or admin
//! token_sha256 = "..."   # of the bearer token, in hex; or
//!
//! [[identity]]
//! name = "ops"
//! role = "admin"
//! certificate = "ops.example"   # a name in a client certificate of admin_tls_client_ca
//! ```
//!
//! A name may stand there more than once: with an old and a new token, while one gives way to the
//! other.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::access::Role;
use super::token::TokenHash;
use crate::config::{FileError, NamedFile};
use crate::doors::reload::Reloaded;
use crate::limits::{ID_BYTES_MAX, IDENTITIES_MAX};

/// Stands in the audit log for whoever called from this machine, unasked.
const LOCAL: &str = "local";

/// Somebody who may call.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Who stands in the audit log.
    pub name: Arc<str>,
    /// What they may do.
    pub role: Role,
}

impl Identity {
    /// Whoever calls a door that asks nobody who they are: it is on loopback.
    pub(super) fn local() -> Self {
        Self { name: LOCAL.into(), role: Role::Admin }
    }
}

/// Everybody who may call.
pub struct Identities(Vec<Entry>);

struct Entry {
    identity: Identity,
    proof: Proof,
}

/// How somebody shows who they are.
enum Proof {
    /// With the token that has this hash.
    Token(TokenHash),
    /// With a certificate in which this name stands.
    Certificate(String),
}

impl Identities {
    /// Reads `file`; certificates mean something only where the door `asks_for_certificates`.
    ///
    /// # Errors
    /// When it cannot be read, or an entry will not do: with its line.
    pub fn read(
        file: NamedFile,
        asks_for_certificates: bool,
    ) -> Result<Arc<Reloaded<Self>>, FileError> {
        Reloaded::load(vec![file.clone()], move |contents| {
            let bytes = contents.first().map_or(&[][..], Vec::as_slice);
            let text = std::str::from_utf8(bytes).map_err(|_| file.refuse("is not UTF-8"))?;
            Self::parse(text, asks_for_certificates).map_err(|(at, problem)| {
                let line = text[..at.min(text.len())].matches('\n').count() + 1;
                file.refuse(format!("will not do: line {line}: {problem}"))
            })
        })
    }

    /// Who holds `token`. Takes as long whether it is nearly right or all wrong.
    pub(super) fn by_token(&self, token: &[u8]) -> Option<&Identity> {
        let given = TokenHash::of(token);
        let mut found = None;
        for entry in &self.0 {
            if let Proof::Token(known) = &entry.proof
                && known.is(&given)
            {
                found = Some(&entry.identity);
            }
        }
        found
    }

    /// Who has a certificate with `names` in it: the first in the file.
    pub(super) fn by_certificate(&self, names: &[String]) -> Option<&Identity> {
        let is_in =
            |proof: &Proof| matches!(proof, Proof::Certificate(name) if names.contains(name));
        self.0.iter().find(|entry| is_in(&entry.proof)).map(|entry| &entry.identity)
    }

    /// The problem comes with where in `text` it is.
    fn parse(text: &str, asks_for_certificates: bool) -> Result<Self, (usize, String)> {
        let table = DeTable::parse(text).map_err(|error| {
            (error.span().map_or(0, |span| span.start), error.message().to_owned())
        })?;
        let mut identities = Self(Vec::new());
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            let entries = match (key.get_ref().as_ref(), value.get_ref()) {
                ("identity", DeValue::Array(entries)) => entries,
                ("identity", _) => return Err((at, "identity is no list: [[identity]]".into())),
                (other, _) => return Err((at, format!("{other} is no [[identity]]"))),
            };
            for (number, entry) in (1..).zip(entries.iter()) {
                let added = identities.add(entry, asks_for_certificates);
                added.map_err(|(at, problem)| (at, format!("identity {number}: {problem}")))?;
            }
        }
        if identities.0.is_empty() {
            // A file that was cut short must not shut everybody out.
            return Err((0, "there is no [[identity]]: nobody could call".into()));
        }
        Ok(identities)
    }

    fn add(
        &mut self,
        entry: &Spanned<DeValue<'_>>,
        asks_for_certificates: bool,
    ) -> Result<(), (usize, String)> {
        let here = |problem: String| (entry.span().start, problem);
        if self.0.len() == IDENTITIES_MAX {
            return Err(here(format!("is over the limit of {IDENTITIES_MAX}")));
        }
        let fields = entry.get_ref().as_table();
        let fields = fields.ok_or_else(|| here("is no table: [[identity]]".into()))?;
        let (mut name, mut role, mut proof) = (None, None, None);
        for (key, value) in fields {
            let bad = |problem: String| (key.span().start, problem);
            let field = key.get_ref().as_ref();
            let text = value.get_ref().as_str();
            let text = text.ok_or_else(|| bad(format!("{field} is no string")))?;
            let read = match field {
                "name" => self::name(text).map(|text| name = Some(text)),
                "role" => text.parse().map(|parsed: Role| role = Some(parsed)),
                "token_sha256" | "certificate" if proof.is_some() => {
                    return Err(bad("has two of token_sha256 and certificate: one will do".into()));
                }
                "token_sha256" => self.token(text).map(|token| proof = Some(token)),
                "certificate" => {
                    self.certificate(text, asks_for_certificates).map(|named| proof = Some(named))
                }
                _ => Err("is none of name, role, token_sha256, certificate"),
            };
            // Never with the value: somebody may have put the token where its hash belongs.
            read.map_err(|problem| bad(format!("{field} {problem}")))?;
        }
        let missing = |field| move || here(format!("has no {field}"));
        let identity = Identity {
            name: name.ok_or_else(missing("name"))?,
            role: role.ok_or_else(missing("role"))?,
        };
        let proof = proof.ok_or_else(missing("token_sha256 and no certificate"))?;
        self.0.push(Entry { identity, proof });
        Ok(())
    }

    fn token(&self, hex: &str) -> Result<Proof, &'static str> {
        let hash = TokenHash::from_hex(hex)
            .ok_or("is no SHA-256: 64 digits in hex, as `slotwise token` prints them")?;
        let is_here =
            |entry: &Entry| matches!(&entry.proof, Proof::Token(known) if known.is(&hash));
        if self.0.iter().any(is_here) {
            return Err("is another identity's, too");
        }
        Ok(Proof::Token(hash))
    }

    fn certificate(&self, name: &str, asks: bool) -> Result<Proof, &'static str> {
        if !asks {
            return Err("means nothing without admin_tls_client_ca");
        }
        if name.is_empty() {
            return Err("is empty");
        }
        let is_here =
            |entry: &Entry| matches!(&entry.proof, Proof::Certificate(known) if known == name);
        if self.0.iter().any(is_here) {
            return Err("is another identity's, too");
        }
        Ok(Proof::Certificate(name.to_owned()))
    }
}

/// A name that can stand in a line of the audit log, and is nobody's already.
fn name(text: &str) -> Result<Arc<str>, &'static str> {
    match text {
        "" => Err("is empty"),
        LOCAL => Err("stands for callers who were not asked who they are: choose another"),
        _ if text.len() > ID_BYTES_MAX => Err("is longer than 128 bytes"),
        _ if text.chars().any(char::is_control) => Err("holds a control character"),
        _ => Ok(text.into()),
    }
}
const _: () = assert!(ID_BYTES_MAX == 128, "as the message says");

#[cfg(test)]
mod tests {
    use super::*;

    // FIPS 180-2, appendix B: the hashes of "abc" and of a longer text.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const LONG: &str = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
    const LONG_TEXT: &[u8] = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    fn entry(fields: &str) -> String {
        format!("[[identity]]\n{fields}\n")
    }

    fn who(found: Option<&Identity>) -> Option<(&str, Role)> {
        found.map(|identity| (&*identity.name, identity.role))
    }

    #[test]
    fn whoever_shows_a_known_token_or_name_is_known() {
        let text = [
            entry(&format!("name = 'ci'\nrole = 'operator'\ntoken_sha256 = '{ABC}'")),
            entry("name = 'ops'\nrole = 'admin'\ncertificate = 'ops.example'"),
            entry("name = 'eye'\nrole = 'viewer'\ncertificate = 'spiffe://x/eye'"),
            // The same name with a second token.
            entry(&format!("name = 'ci'\nrole = 'operator'\ntoken_sha256 = '{LONG}'")),
        ];
        let all = Identities::parse(&text.concat(), true).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(who(all.by_token(b"abc")), Some(("ci", Role::Operator)));
        assert_eq!(who(all.by_token(LONG_TEXT)), Some(("ci", Role::Operator)));
        for unknown in [&b"abd"[..], b"", b"ab", ABC.as_bytes(), b"ops.example"] {
            assert_eq!(who(all.by_token(unknown)), None, "{unknown:?}");
        }
        let named = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let by = |names: &[&str]| who(all.by_certificate(&named(names)));
        assert_eq!(by(&["x", "ops.example"]), Some(("ops", Role::Admin)));
        assert_eq!(by(&["spiffe://x/eye"]), Some(("eye", Role::Viewer)));
        assert_eq!(by(&["spiffe://x/eye", "ops.example"]), Some(("ops", Role::Admin)), "the first");
        assert_eq!(by(&["ops.example.org", "ci", ABC]), None);
        assert_eq!(by(&[]), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_line_and_entry_and_without_the_value() {
        let good = entry(&format!("name = 'ci'\nrole = 'admin'\ntoken_sha256 = '{ABC}'"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("who.toml");
        let token = format!("token_sha256 = '{LONG}'");
        for (fields, line, expected) in [
            ("name = 'x'\nrole = 'root'\ncertificate = 'a'", 7, "role is none of viewer"),
            ("name = ''", 6, "name is empty"),
            ("name = 'local'", 6, "name stands for"),
            ("name = \"a\\nb\"", 6, "name holds a control character"),
            ("name = 'x'\nrole = 'viewer'", 5, "has no token_sha256 and no certificate"),
            ("role = 'viewer'\ncertificate = 'a'", 5, "has no name"),
            ("name = 'x'\ncertificate = 'a'", 5, "has no role"),
            ("name = 'x'\ntoken_sha256 = 'SECRET'", 7, "token_sha256 is no SHA-256"),
            ("name = 'x'\nrole = 3", 7, "role is no string"),
            ("name = 'x'\ntoken = 'SECRET'", 7, "token is none of"),
            (&format!("certificate = 'a'\n{token}"), 7, "has two of"),
            (&format!("token_sha256 = '{ABC}'"), 6, "is another identity's, too"),
        ] {
            let text = format!("{good}{}", entry(fields));
            std::fs::write(&path, &text).unwrap();
            let file = NamedFile { key: "admin_identities", path: path.clone() };
            let why = Identities::read(file, true).err().unwrap().to_string();
            let place =
                format!("admin_identities = {path:?} will not do: line {line}: identity 2: ");
            assert!(why.starts_with(&place), "{fields:?}: {why}");
            assert!(why.contains(expected), "{fields:?}: {why}");
            assert!(!why.contains("SECRET"), "{why}");
        }
        for (text, expected) in [
            ("", "line 1: there is no [[identity]]"),
            ("identity = []", "line 1: there is no [[identity]]"),
            ("\nidentity = 3", "line 2: identity is no list"),
            ("\n\nname = 'x'", "line 3: name is no [[identity]]"),
            ("\nidentity = [3]", "line 2: identity 1: is no table"),
            ("\n[[identity]\n", "line 2: "),
        ] {
            std::fs::write(&path, text).unwrap();
            let file = NamedFile { key: "admin_identities", path: path.clone() };
            let why = Identities::read(file, true).err().unwrap().to_string();
            assert!(why.contains(expected), "{text:?}: {why}");
        }
    }

    #[test]
    fn a_certificate_nobody_asks_for_is_refused() {
        let text = entry("name = 'ops'\nrole = 'admin'\ncertificate = 'ops.example'");
        let (_, why) = Identities::parse(&text, false).err().unwrap();
        assert!(why.contains("admin_tls_client_ca"), "{why}");
    }
}
