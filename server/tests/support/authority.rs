//! Certificate authorities of our own, and callers that trust one of them.

use std::net::SocketAddr;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error, Identity};

/// The name that every server's certificate is for.
pub const SERVER: &str = "door.example";

/// Who issues certificates.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
pub struct Issued {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its own certificate, in PEM form.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of `common_name` with further names.
    pub fn issue(&self, common_name: &str, names: &[SanType]) -> Issued {
        let key = KeyPair::generate().unwrap();
        let cert = params(common_name, names).signed_by(&key, &self.0).unwrap();
        Issued { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// A server's certificate.
    pub fn server(&self) -> Issued {
        self.issue("a door", &[SanType::DnsName(SERVER.try_into().unwrap())])
    }

    /// Connects to a door whose certificate this authority must have issued, with the caller's
    /// own where there is one.
    pub async fn connect(&self, addr: SocketAddr, own: Option<&Issued>) -> Result<Channel, Error> {
        let tls = ClientTlsConfig::new()
            .domain_name(SERVER)
            .ca_certificate(Certificate::from_pem(self.pem()));
        let tls = match own {
            Some(own) => tls.identity(Identity::from_pem(&own.cert, &own.key)),
            None => tls,
        };
        let door = Endpoint::try_from(format!("https://{addr}")).unwrap();
        door.tls_config(tls).unwrap().connect().await
    }
}

impl Issued {
    /// Writes both to `cert.pem` and `key.pem` in `dir`; the settings of `door` that name them.
    pub fn settings(&self, dir: &Path, door: &str) -> Vec<(&'static str, String)> {
        self.write(dir);
        vec![
            (setting(door, "tls_cert"), dir.join("cert.pem").display().to_string()),
            (setting(door, "tls_key"), dir.join("key.pem").display().to_string()),
        ]
    }

    /// Writes both to `cert.pem` and `key.pem` in `dir`.
    pub fn write(&self, dir: &Path) {
        std::fs::write(dir.join("cert.pem"), &self.cert).unwrap();
        std::fs::write(dir.join("key.pem"), &self.key).unwrap();
    }
}

/// The key of a setting of `door`.
pub fn setting(door: &str, what: &str) -> &'static str {
    let key = format!("{door}_{what}");
    slotwise_server::config::SETTINGS.iter().find(|setting| setting.key == key).unwrap().key
}

/// Settings as a server takes them.
pub fn given<'a>(settings: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    settings.iter().map(|(key, value)| (*key, value.as_str())).collect()
}

/// The same settings as flags.
pub fn flags(settings: &[(&'static str, String)]) -> Vec<String> {
    let flag = |key: &str| format!("--{}", key.replace('_', "-"));
    settings.iter().flat_map(|(key, value)| [flag(key), value.clone()]).collect()
}

fn params(common_name: &str, names: &[SanType]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = names.to_vec();
    params
}
