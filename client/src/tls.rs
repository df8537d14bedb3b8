//! Who a door must prove to be, and who we are to it.

use std::fmt;

use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use crate::Error;
use crate::address::Address;

/// How `https://` addresses are checked, and with which certificate the caller names itself.
/// Without anything said, the server's certificate must be good by the system's own roots.
///
/// ```no_run
/// use slotwise_client::Tls;
///
/// let tls = Tls::default()
///     .ca(std::fs::read("ca.pem")?)?
///     .identity(std::fs::read("client.pem")?, std::fs::read("client.key")?)?
///     .server_name("ads.internal.example");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    ca: Option<Certificate>,
    identity: Option<Identity>,
    server_name: Option<String>,
}

impl Tls {
    /// Trusts what these certificates (PEM) have signed, and nobody else.
    ///
    /// # Errors
    /// [`Error::Options`] where there is no certificate in it.
    pub fn ca(mut self, pem: impl AsRef<[u8]>) -> Result<Self, Error> {
        self.ca = Some(Certificate::from_pem(holding(pem.as_ref(), CERTIFICATE)?));
        Ok(self)
    }

    /// The caller's own certificate, with what leads to its issuer, and its private key (PEM).
    ///
    /// # Errors
    /// [`Error::Options`] where either is missing. The message repeats neither.
    pub fn identity(
        mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Result<Self, Error> {
        let certificate = holding(certificate.as_ref(), CERTIFICATE)?;
        self.identity = Some(Identity::from_pem(certificate, holding(key.as_ref(), KEY)?));
        Ok(self)
    }

    /// The name that the server's certificate must bear, where it is not the address's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Whether nothing was said.
    pub(crate) fn is_default(&self) -> bool {
        self.ca.is_none() && self.identity.is_none() && self.server_name.is_none()
    }

    /// As tonic takes it.
    pub(crate) fn config(&self, address: &Address) -> ClientTlsConfig {
        let name = self.server_name.as_deref().unwrap_or(address.host());
        let mut config = ClientTlsConfig::new().domain_name(name);
        config = match &self.ca {
            Some(ca) => config.ca_certificate(ca.clone()),
            None => config.with_native_roots(),
        };
        match &self.identity {
            Some(identity) => config.identity(identity.clone()),
            None => config,
        }
    }
}

const CERTIFICATE: &str = "CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// `pem`, if a block of the kind begins in it. rustls takes a file without one for an empty list,
/// and then trusts nobody, which would be told only at the first connection.
fn holding<'a>(pem: &'a [u8], kind: &str) -> Result<&'a [u8], Error> {
    let found = pem.windows(kind.len()).any(|window| window == kind.as_bytes());
    match found {
        true => Ok(pem),
        false => {
            let kind = kind.trim_end_matches('-').to_lowercase();
            Err(Error::Options(format!("there is no {kind} in PEM form in what was given as one")))
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("ca", &if self.ca.is_some() { "own" } else { "system" })
            .field("identity", &self.identity.as_ref().map(|_| "hidden"))
            .field("server_name", &self.server_name)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pem_is_refused_and_no_key_is_shown() {
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let tls = Tls::default().identity(certificate, key).unwrap();
        assert!(!format!("{tls:?}").contains("c2Vj"), "{tls:?}");
        for refused in [
            Tls::default().ca("c2VjcmV0").unwrap_err(),
            Tls::default().identity(key, key).unwrap_err(),
            Tls::default().identity(certificate, certificate).unwrap_err(),
        ] {
            let refused = refused.to_string();
            assert!(refused.contains("PEM") && !refused.contains("c2Vj"), "{refused}");
        }
    }
}
