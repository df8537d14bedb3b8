//! From an address to a client of one server.

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};

use crate::config::{Place, RedisAddress};
use crate::limits::REDIS_CALL_MAX;

impl RedisAddress {
    /// Another server of the same installation: it is told without a host where it does not know
    /// its own.
    pub(super) fn sibling(&self, host: &str, port: u16) -> Place {
        match (&self.seeds[..], host) {
            ([Place::Tcp(own, _), ..], "") => Place::Tcp(own.clone(), port),
            _ => Place::Tcp(host.to_owned(), port),
        }
    }

    /// A client of the server at `place`; reads the files that it needs.
    pub(super) fn client(&self, place: &Place) -> RedisResult<Client> {
        let mut settings = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("slotwise", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        let from_file = self.password_file.as_ref().map(std::fs::read_to_string).transpose()?;
        let password = from_file.as_ref().map(|text| text.trim_end_matches(['\n', '\r']));
        if let Some(password) = password.or(self.password.as_deref()) {
            settings = settings.set_password(password);
        }
        let connection = self
            .address(place)
            .into_connection_info()?
            .set_tcp_settings(
                // A peer that is gone without a word is noticed by the system, too.
                TcpSettings::default().set_nodelay(true).set_user_timeout(4 * REDIS_CALL_MAX),
            )
            .set_redis_settings(settings);
        self.with_tls(connection)
    }

    fn address(&self, place: &Place) -> ConnectionAddr {
        match place {
            Place::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Place::Tcp(host, port) if self.is_tls => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            Place::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
        }
    }

    fn with_tls(&self, connection: ConnectionInfo) -> RedisResult<Client> {
        let Some(file) = self.authorities.as_ref().filter(|_| self.is_tls) else {
            return Client::open(connection);
        };
        let root_cert = Some(std::fs::read(file)?);
        Client::build_with_tls(connection, TlsCertificates { client_tls: None, root_cert })
    }
}
