//! The word that everything answers, and what to do next.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpStream;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::app::App;
use crate::config::Config;

/// How long a door of this process may take to say that it serves.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Asks every door for its health, as a caller would. A door with TLS may want a certificate of us
/// that we do not have: it is enough there that it takes connections.
pub(super) async fn wait(app: &App, config: &Config) -> anyhow::Result<()> {
    for (addr, tls) in [
        (app.decision_addr(), &config.decision_tls),
        (app.event_addr(), &config.event_tls),
        (app.admin_addr(), &config.admin_tls),
    ] {
        let door = reachable(addr);
        let ask = async {
            if tls.is_some() {
                TcpStream::connect(door).await?;
                return Ok(());
            }
            let channel = Endpoint::try_from(format!("http://{door}"))?.connect().await?;
            let ask = HealthCheckRequest::default();
            let health = HealthClient::new(channel).check(ask).await?.into_inner();
            anyhow::ensure!(health.status() == ServingStatus::Serving, "{:?}", health.status());
            Ok(())
        };
        let answered = tokio::time::timeout(ANSWER_MAX, ask).await.map_err(Into::into);
        answered
            .and_then(|answer| answer)
            .with_context(|| format!("the door at {addr} does not answer"))?;
    }
    Ok(())
}

/// Prints the line that begins with `ready`, and three commands to try.
pub(super) fn print(app: &App, config: &Config) {
    let (decisions, events, admin) = (app.decision_addr(), app.event_addr(), app.admin_addr());
    let served = app.admin.served.borrow().clone();
    let ads = served.ads;
    let data = config.data_dir.display();
    let mut text = format!(
        "ready: decisions {decisions}, events {events}, admin {admin}; {ads} ad{}, data in {data}\n",
        if ads == 1 { "" } else { "s" }
    );
    if !served.degraded_reason.is_empty() {
        text += &format!("degraded: {}\n", served.degraded_reason);
    }
    // From a checkout, cargo runs us and can run the tool as well.
    let tool = if std::env::var_os("CARGO").is_some() { "cargo ctl" } else { "slotwisectl" };
    let mut at = String::new();
    for (flag, addr, usual) in [("decision", decisions, 7070), ("admin", admin, 7072)] {
        if addr.port() != usual {
            at += &format!(" --{flag}-addr {}", reachable(addr));
        }
    }
    let has_demo = app.admin.index.zone("news", "home-top").is_some();
    let tries = if has_demo {
        [
            format!("{tool}{at} choose news home-top --keyword car --count 3"),
            format!("{tool}{at} zone show news home-top"),
            format!("{tool}{at} campaign list"),
        ]
    } else if ads > 0 {
        [
            format!("{tool}{at} site list"),
            format!("{tool}{at} campaign list"),
            format!("{tool}{at} changes"),
        ]
    } else {
        [
            format!("{tool}{at} import FILE   # one JSON record a line; see the README"),
            format!("{tool}{at} account put demo --time-zone Europe/Vienna --currency EUR"),
            format!("{tool}{at} --help"),
        ]
    };
    text += if ads > 0 { "try:\n" } else { "the catalogue is empty; to fill it:\n" };
    for line in tries {
        text += &format!("  {line}\n");
    }
    // Whoever started us may not read on; that is no reason to stop.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// An address that is every interface's is reached over loopback.
fn reachable(addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        ip if !ip.is_unspecified() => addr,
        std::net::IpAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], addr.port())),
        std::net::IpAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, addr.port())),
    }
}
