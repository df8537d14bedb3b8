//! TLS: who is trusted, and who is let in.

use std::time::Duration;

use slotwise_client::v1::ChooseAdsRequest;
use slotwise_client::{Address, Decisions, Error, Options, Tls, Token};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::decider::Node;
use crate::pki::{Authority, Pair};

fn server(pair: &Pair) -> ServerTlsConfig {
    ServerTlsConfig::new().identity(Identity::from_pem(&pair.certificate, &pair.key))
}

fn options(node: &Node, tls: Tls) -> Options {
    let address: Address = format!("https://{}", node.address).parse().unwrap();
    Options::new([address]).deadline(Duration::from_secs(20)).tls(tls)
}

fn trusting(authority: &Authority) -> Tls {
    Tls::default().ca(&authority.certificate).unwrap()
}

fn look() -> ChooseAdsRequest {
    ChooseAdsRequest { dry_run: true, ..ChooseAdsRequest::default() }
}

async fn refusal(options: &Options) -> String {
    match Decisions::connect(options).await.unwrap_err() {
        Error::Unreachable(why) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_own_authority_is_trusted_and_hears_the_token() {
    let authority = Authority::new();
    let node = Node::start_with_tls(server(&authority.sign("127.0.0.1")));
    let options = options(&node, trusting(&authority)).token(Token::new("s3cret").unwrap());
    let decisions = Decisions::connect(&options).await.unwrap();
    decisions.choose_ads(look()).await.unwrap();
    assert_eq!(node.seen.lock().unwrap().tokens, [Some("Bearer s3cret".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_else_is_trusted() {
    let authority = Authority::new();
    let node = Node::start_with_tls(server(&authority.sign("127.0.0.1")));
    let stranger = refusal(&options(&node, trusting(&Authority::new()))).await;
    assert!(stranger.contains("certificate"), "{stranger}");
    // The system's own roots do not know it either, where there are any.
    match Decisions::connect(&options(&node, Tls::default())).await.unwrap_err() {
        Error::Unreachable(why) => assert!(why.contains("certificate"), "{why}"),
        Error::Options(why) => assert!(why.contains("certificates"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(node.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_must_bear_the_name() {
    let authority = Authority::new();
    let node = Node::start_with_tls(server(&authority.sign("ads.internal.example")));
    let other = refusal(&options(&node, trusting(&authority))).await;
    assert!(other.contains("certificate"), "{other}");
    let named = trusting(&authority).server_name("ads.internal.example");
    let decisions = Decisions::connect(&options(&node, named)).await.unwrap();
    decisions.choose_ads(look()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_door_asks_for_a_certificate_only_its_bearers_get_in() {
    let (authority, others) = (Authority::new(), Authority::new());
    let tls = server(&authority.sign("127.0.0.1"))
        .client_ca_root(Certificate::from_pem(&authority.certificate));
    let node = Node::start_with_tls(tls);
    let bearing = |pair: Pair| trusting(&authority).identity(pair.certificate, pair.key).unwrap();

    let good = options(&node, bearing(authority.sign("page-server")));
    Decisions::connect(&good).await.unwrap().choose_ads(look()).await.unwrap();
    assert_eq!(node.calls(), 1);

    for tls in [trusting(&authority), bearing(others.sign("page-server"))] {
        let refused = refusal(&options(&node, tls)).await;
        let is_told = refused.contains("alert") || refused.contains("client certificate");
        assert!(is_told, "{refused}");
    }
    assert_eq!(node.calls(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_tls_gets_nothing_from_a_door_with_it() {
    let authority = Authority::new();
    let node = Node::start_with_tls(server(&authority.sign("127.0.0.1")));
    let clear = Options::new([node.address.into()]).deadline(Duration::from_millis(500));
    assert!(Decisions::lazy(&clear).unwrap().choose_ads(look()).await.is_err());
    assert_eq!(node.calls(), 0);
}
