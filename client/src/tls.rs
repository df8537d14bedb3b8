//! Who a door must prove to be, and who we are to it.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

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
    ca: Option<Vec<CertificateDer<'static>>>,
    identity: Option<Arc<Identity>>,
    server_name: Option<String>,
}

/// A certificate with what leads to its issuer, and its private key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Tls {
    /// Trusts what these certificates (PEM) have signed, and nobody else.
    ///
    /// # Errors
    /// [`Error::Options`] where there is no certificate in it.
    pub fn ca(mut self, pem: impl AsRef<[u8]>) -> Result<Self, Error> {
        self.ca = Some(certificates(pem.as_ref())?);
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
        let chain = certificates(certificate.as_ref())?;
        let key = PrivateKeyDer::from_pem_slice(key.as_ref())
            .map_err(|_| Error::Options("there is no private key in PEM form in it".to_owned()))?;
        self.identity = Some(Arc::new(Identity { chain, key }));
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

    /// What shakes hands with every server.
    pub(crate) fn connector(&self) -> Result<TlsConnector, Error> {
        let bad = |e: rustls::Error| Error::Options(format!("TLS cannot be set up: {e}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(bad)?
            .with_root_certificates(self.roots()?);
        let mut config = match &self.identity {
            Some(identity) => builder
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(bad)?,
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols.push(ALPN.to_vec());
        Ok(TlsConnector::from(Arc::new(config)))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(certificates) => {
                for certificate in certificates {
                    roots.add(certificate.clone()).map_err(|e| {
                        Error::Options(format!("a certificate to trust does not do: {e}"))
                    })?;
                }
            }
            // Systems hold some certificates that nobody can read any more.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            let why = "this system holds no certificates to trust: give the server's authority";
            return Err(Error::Options(why.to_owned()));
        }
        Ok(roots)
    }

    /// Whom the server at `address` must prove to be.
    pub(crate) fn name(&self, address: &Address) -> Result<ServerName<'static>, Error> {
        let name = self.server_name.as_deref().unwrap_or(address.host());
        ServerName::try_from(name.to_owned())
            .map_err(|_| Error::Options(format!("\"{name}\" is no name that a server can have")))
    }
}

/// HTTP/2, as TLS names it.
pub(crate) const ALPN: &[u8] = b"h2";

/// All certificates in it, at least one. A file without any would trust nobody, which would be told
/// only at the first connection.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(Error::Options("there is no certificate in PEM form in it".to_owned())),
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
