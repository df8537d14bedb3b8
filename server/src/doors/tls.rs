//! A door's TLS: its certificate, and whose certificates it takes from callers.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::reload::Reloaded;
use crate::config::{FileError, NamedFile, TlsFiles};

/// What a door speaks under TLS, the better first.
pub type Protocols = &'static [&'static [u8]];
/// What gRPC speaks: HTTP/2.
pub const FOR_CALLS: Protocols = &[b"h2"];
/// What a door speaks to which browsers come, and what stands before them.
pub const FOR_BROWSERS: Protocols = &[b"h2", b"http/1.1"];

/// What a door's connections are encrypted with: new ones with the newest.
pub type Tls = Reloaded<ServerConfig>;

/// What a door with a client CA wants of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Whoever has none is turned away.
    Required,
    /// A caller may show one, or say in another way who it is.
    Asked,
}

impl Tls {
    /// Reads `files` for a door that speaks `protocols`; where they name a client CA, callers'
    /// certificates are `wanted` so.
    ///
    /// # Errors
    /// The first file that will not do, with its setting and the reason.
    pub fn read(
        files: &TlsFiles,
        wanted: ClientCertificates,
        protocols: Protocols,
    ) -> Result<Arc<Self>, FileError> {
        let mut named = vec![files.cert.clone(), files.key.clone()];
        named.extend(files.client_ca.clone());
        let files = files.clone();
        Self::load(named, move |contents| {
            let mut config = config(&files, contents, wanted)?;
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Ok(config)
        })
    }
}

fn config(
    files: &TlsFiles,
    contents: &[Vec<u8>],
    wanted: ClientCertificates,
) -> Result<ServerConfig, FileError> {
    // The files come in this order.
    let content = |at: usize| contents.get(at).map_or(&[][..], Vec::as_slice);
    let provider = Arc::new(ring::default_provider());
    let chain = certificates(&files.cert, content(0))?;
    let key = PrivateKeyDer::from_pem_slice(content(1))
        .map_err(|error| files.key.refuse(format!("holds no private key in PEM form: {error}")))?;
    let verifier = match &files.client_ca {
        Some(file) => verifier(file, content(2), wanted, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let refuse_pair = |error: rustls::Error| {
        files.key.refuse(format!("and {} will not do together: {error}", files.cert))
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(refuse_pair)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(refuse_pair)?;
    // A resumed session would carry a caller's certificate past its end. Connections live long:
    // there is little to win.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn verifier(
    file: &NamedFile,
    content: &[u8],
    wanted: ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file, content)? {
        let added = roots.add(certificate);
        added.map_err(|error| file.refuse(format!("holds what is no authority: {error}")))?;
    }
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match wanted {
        ClientCertificates::Required => builder,
        ClientCertificates::Asked => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error| file.refuse(format!("will not do: {error}")))
}

fn certificates(
    file: &NamedFile,
    content: &[u8],
) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    let all = all.map_err(|error| file.refuse(format!("is not in PEM form: {error}")))?;
    if all.is_empty() {
        return Err(file.refuse("holds no certificate in PEM form"));
    }
    Ok(all)
}

/// The names that `certificate` was issued for: DNS names, URIs and e-mail addresses among its
/// alternative names, and the common name of its subject.
pub(super) fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let common = parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_owned).collect();
    if let Ok(Some(alternative)) = parsed.subject_alternative_name() {
        names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
                Some((*name).to_owned())
            }
            _ => None,
        }));
    }
    names
}
