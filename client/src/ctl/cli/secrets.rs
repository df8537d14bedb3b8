//! The command line of who is calling, and whom to trust.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::ctl::error::Error;
use crate::ctl::input::read_text;
use crate::{Tls, Token};

#[derive(Args)]
pub(crate) struct Secrets {
    /// Who is calling, where the door asks: a bearer token. Others on this machine may see it in
    /// the list of processes: rather use the variable, or --token-file
    #[arg(
        long,
        global = true,
        env = "SLOTWISE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    token: Option<String>,
    /// A file that holds the token; it goes before --token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates (PEM) that sign the server's, instead of the system's roots
    #[arg(long, global = true, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The own certificate (PEM), where the door asks for one
    #[arg(long, global = true, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the own certificate (PEM)
    #[arg(long, global = true, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Secrets {
    /// Who is calling, if said.
    pub(crate) fn token(&self) -> Result<Option<Token>, Error> {
        let (text, from) = match (&self.token_file, &self.token) {
            (Some(path), _) => (read_text(path)?, path.display().to_string()),
            (None, Some(token)) => (token.clone(), "--token".to_owned()),
            (None, None) => return Ok(None),
        };
        Token::new(&text).map(Some).map_err(named(&from))
    }

    /// Whom to trust, and with which certificate to call.
    pub(crate) fn tls(&self) -> Result<Tls, Error> {
        let mut tls = Tls::default();
        if let Some(path) = &self.tls_ca {
            tls = tls.ca(read_text(path)?).map_err(named(&shown(path)))?;
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            let both = format!("{} and {}", shown(certificate), shown(key));
            tls = tls.identity(read_text(certificate)?, read_text(key)?).map_err(named(&both))?;
        }
        Ok(tls)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn named(what: &str) -> impl FnOnce(crate::Error) -> Error {
    let what = what.to_owned();
    move |problem| Error::Input(format!("{what}: {problem}"))
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets")
            .field("token", &self.token.as_ref().map(|_| "hidden"))
            .field("token_file", &self.token_file)
            .field("tls_ca", &self.tls_ca)
            .field("tls_cert", &self.tls_cert)
            .field("tls_key", &self.tls_key)
            .finish()
    }
}
