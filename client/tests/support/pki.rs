//! Certificates for a test: an authority, and what it signs.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority.
pub(crate) struct Authority {
    /// What others trust.
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    /// A certificate for `name`.
    pub(crate) fn sign(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }
}
