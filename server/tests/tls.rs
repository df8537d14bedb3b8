//! TLS on the doors, over real sockets: who is served, who is turned away, and that what holds for
//! connections in clear holds under it, too.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::{CampaignStatus, ChooseAdsRequest, SetCampaignStatusRequest};
use slotwise_server::app::SystemClock;
use slotwise_server::testing::Server;
use support::authority::{Authority, Issued, SERVER, given, setting};
use support::{ad, ask, campaign, catalog, channel, import, place};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Nothing here takes so long, on however slow a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Campaign x:1 is the best in zone z, x:2 is behind it.
async fn serve(settings: &[(&'static str, String)]) -> Server {
    let server = Server::start_with(Arc::new(SystemClock), &given(settings)).await;
    let mut records = place(&["z"]);
    records.extend([campaign("x:1", ""), campaign("x:2", "")]);
    records.extend([ad("x:1", "u", &["z"], 9, ""), ad("x:2", "u", &["z"], 1, "")]);
    import(&server, &records).await;
    server
}

/// The campaign that is shown over `channel`.
async fn shown(channel: &Channel) -> String {
    let answer = AdDecisionServiceClient::new(channel.clone()).choose_ads(ask("z", "", 1)).await;
    answer.unwrap().into_inner().ads[0].campaign_id.clone()
}

/// Whether a door answers over a new connection.
async fn answers(authority: &Authority, addr: SocketAddr, own: Option<&Issued>) -> bool {
    let Ok(channel) = authority.connect(addr, own).await else { return false };
    let call = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
    call.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_with_tls_serves_http_2_under_it_and_nothing_in_clear() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let server = serve(&authority.server().settings(dir.path(), "decision")).await;
    let addr = server.decision_addr();
    assert_eq!(shown(&authority.connect(addr, None).await.unwrap()).await, "x:1");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let mut config =
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let stream = TcpStream::connect(addr).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from(SERVER).unwrap();
    let secured = connector.connect(name, stream).await.unwrap();
    assert_eq!(secured.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));

    let clear = tonic::transport::Endpoint::try_from(format!("http://{addr}")).unwrap();
    if let Ok(channel) = clear.connect().await {
        let refused = AdDecisionServiceClient::new(channel).choose_ads(ask("z", "", 1)).await;
        refused.unwrap_err();
    }
    // The other doors were told of none.
    for addr in [server.event_addr(), server.admin_addr()] {
        let ask = HealthCheckRequest::default();
        HealthClient::new(channel(addr).await).check(ask).await.unwrap();
    }
    server.stop().await;
}

/// Browsers speak HTTP/2 under TLS; what stands before a door may not.
#[tokio::test(flavor = "multi_thread")]
async fn the_event_door_speaks_http_1_and_2_under_tls() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let server = serve(&authority.server().settings(dir.path(), "event")).await;
    let addr = server.event_addr();
    for (offered, spoken) in [
        (&[&b"http/1.1"[..]][..], Some(&b"http/1.1"[..])),
        (&[b"http/1.1", b"h2"], Some(b"h2")),
        (&[], None),
    ] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let mut config =
            rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(SERVER).unwrap();
        let stream = TcpStream::connect(addr).await.unwrap();
        let mut secured = connector.connect(name, stream).await.unwrap();
        assert_eq!(secured.get_ref().1.alpn_protocol(), spoken);
        if spoken == Some(b"h2") {
            continue;
        }
        let ask = b"GET /c/none HTTP/1.1\r\nhost: door.example\r\nconnection: close\r\n\r\n";
        secured.write_all(ask).await.unwrap();
        let mut said = Vec::new();
        secured.read_to_end(&mut said).await.unwrap();
        assert!(said.starts_with(b"HTTP/1.1 404"), "{}", String::from_utf8_lossy(&said));
    }
    assert!(answers(&authority, addr, None).await, "and gRPC");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_a_certificate_is_turned_away_where_one_is_required() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let (own, strange) = (ours.issue("caller", &[]), others.issue("caller", &[]));
    for door in ["decision", "event"] {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = ours.server().settings(dir.path(), door);
        let ca = dir.path().join("ca.pem");
        std::fs::write(&ca, ours.pem()).unwrap();
        settings.push((setting(door, "tls_client_ca"), ca.display().to_string()));
        let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
        let addr = if door == "decision" { server.decision_addr() } else { server.event_addr() };
        assert!(answers(&ours, addr, Some(&own)).await, "{door}");
        assert!(!answers(&ours, addr, None).await, "{door}: no certificate");
        assert!(!answers(&ours, addr, Some(&strange)).await, "{door}: another's certificate");

        // Another authority takes over: new connections hear of it, those that are there go on.
        let old = ours.connect(addr, Some(&own)).await.unwrap();
        let mut health = HealthClient::new(old);
        health.check(HealthCheckRequest::default()).await.unwrap();
        std::fs::write(&ca, others.pem()).unwrap();
        let taken_over = async {
            while !answers(&ours, addr, Some(&strange)).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, taken_over).await.unwrap();
        assert!(!answers(&ours, addr, Some(&own)).await, "{door}: the old authority's");
        health.check(HealthCheckRequest::default()).await.unwrap();
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_stalls_holds_up_nobody_and_is_cut_off() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let mut settings = authority.server().settings(dir.path(), "decision");
    // All of them on one thread.
    settings.push(("decision_threads", "1".to_owned()));
    let server = serve(&settings).await;
    let addr = server.decision_addr();
    let mut stalled = Vec::new();
    // Nothing, and the first bytes of a handshake: its record is to have 512.
    for said in [&[][..], &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01]] {
        let mut caller = TcpStream::connect(addr).await.unwrap();
        caller.write_all(said).await.unwrap();
        stalled.push(caller);
    }
    let channel = authority.connect(addr, None).await.unwrap();
    assert_eq!(shown(&channel).await, "x:1");
    for mut caller in stalled {
        // Whether with an alert or without, it ends.
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, caller.read_to_end(&mut heard)).await.unwrap();
    }
    assert_eq!(shown(&channel).await, "x:1");
    // One that is under way does not hold up a stop, either.
    let _stalled = TcpStream::connect(addr).await.unwrap();
    tokio::time::timeout(PATIENCE, server.stop()).await.unwrap();
}

/// As in clear: a caller that stops reading holds up no kill, and never gets the killed ad later.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_frozen_reader_does_not_hold_up_a_kill() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("ours"));
    let server = serve(&authority.server().settings(dir.path(), "decision")).await;
    let addr = server.decision_addr();
    let frozen = authority.connect(addr, None).await.unwrap();
    // Far more answers than the transport's windows hold, and nobody takes them.
    let long = "r".repeat(128);
    let requests =
        (0..100_000).map(move |_| ChooseAdsRequest { request_id: long.clone(), ..ask("z", "", 1) });
    let mut frozen = AdDecisionServiceClient::new(frozen);
    let answers = frozen.choose_ads_stream(tokio_stream::iter(requests)).await.unwrap();
    let mut answers = answers.into_inner();
    assert_eq!(answers.next().await.unwrap().unwrap().ads[0].campaign_id, "x:1");
    let healthy = authority.connect(addr, None).await.unwrap();
    let pause = SetCampaignStatusRequest {
        campaign_id: "x:1".into(),
        status: CampaignStatus::Paused.into(),
        wait: None,
    };
    let paused = catalog(&server).await.set_campaign_status(pause).await.unwrap().into_inner();
    assert_eq!((paused.nodes_applied, paused.nodes_live), (1, 1));
    assert_eq!(shown(&healthy).await, "x:2");
    let (mut before, mut after) = (1, 0);
    while let Some(Ok(answer)) = answers.next().await {
        match answer.ads[0].campaign_id.as_str() {
            "x:1" if after == 0 => before += 1,
            "x:2" => after += 1,
            other => panic!("{other} after {after} answers without it"),
        }
    }
    assert!(before < 20_000, "{before} answers are more than the windows hold");
    server.stop().await;
}
