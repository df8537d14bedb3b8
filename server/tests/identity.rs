//! Who may do what on the admin door, and who stands in the audit log: by token and by certificate.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use rcgen::SanType;
use sha2::{Digest, Sha256};
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::user_service_client::UserServiceClient;
use slotwise_proto::v1::{
    Account, CampaignStatus, DeleteCampaignRequest, ExportRequest, ForgetUserRequest,
    GetAccountRequest, ImportRequest, ListCampaignsRequest, ListChangesRequest, PutAccountRequest,
    SetCampaignStatusRequest, WatchChangesRequest, import_request::Step,
};
use slotwise_server::app::SystemClock;
use slotwise_server::testing::Server;
use support::authority::{Authority, given};
use support::{campaign, channel, place};
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

/// Sends these headers with every call.
#[derive(Clone)]
struct Saying(Vec<String>);

impl Interceptor for Saying {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for value in &self.0 {
            let value = MetadataValue::try_from(value.as_str()).unwrap();
            request.metadata_mut().append("authorization", value);
        }
        Ok(request)
    }
}

type Catalog = CatalogServiceClient<InterceptedService<Channel, Saying>>;

fn saying(channel: &Channel, authorization: &[&str]) -> Catalog {
    let values = authorization.iter().map(|value| (*value).to_owned()).collect();
    CatalogServiceClient::with_interceptor(channel.clone(), Saying(values))
}

fn holding(channel: &Channel, token: &str) -> Catalog {
    saying(channel, &[&format!("Bearer {token}")])
}

fn by_token(name: &str, role: &str, token: &str) -> String {
    let hash: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("[[identity]]\nname = '{name}'\nrole = '{role}'\ntoken_sha256 = '{hash}'\n")
}

fn by_certificate(name: &str, role: &str, certificate: &str) -> String {
    format!("[[identity]]\nname = '{name}'\nrole = '{role}'\ncertificate = '{certificate}'\n")
}

/// The setting of a file with `entries`.
fn identities(dir: &Path, entries: &[String]) -> (&'static str, String) {
    let path = dir.join("identities.toml");
    std::fs::write(&path, entries.concat()).unwrap();
    ("admin_identities", path.display().to_string())
}

/// One of each role, whose token is the name and "-token".
fn one_of_each_role(dir: &Path) -> (&'static str, String) {
    let roles = ["viewer", "operator", "admin"];
    identities(
        dir,
        &roles.map(|role| by_token(&format!("the-{role}"), role, &format!("{role}-token"))),
    )
}

/// A catalogue with campaign x:1, made by whoever `admin` is.
async fn fill(admin: &mut Catalog) {
    let mut records = place(&["z"]);
    records.push(campaign("x:1", ""));
    admin.import(tokio_stream::iter(steps(&records))).await.unwrap();
}

fn steps(records: &[String]) -> Vec<ImportRequest> {
    let record = |text: &String| ImportRequest {
        step: Some(Step::Record(slotwise_proto::json::from_str(text).unwrap())),
    };
    records.iter().map(record).collect()
}

fn code<T>(answer: Result<T, Status>) -> Code {
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

fn set_status(status: CampaignStatus) -> SetCampaignStatusRequest {
    SetCampaignStatusRequest { campaign_id: "x:1".into(), status: status.into(), wait: None }
}

fn put_account(id: &str) -> PutAccountRequest {
    let account = Account { account_id: id.into(), currency: "EUR".into(), ..Account::default() };
    PutAccountRequest { account: Some(account), ..PutAccountRequest::default() }
}

/// The codes of calls that need viewer, operator and admin.
async fn levels(catalog: &mut Catalog) -> [Vec<Code>; 3] {
    let get = GetAccountRequest { account_id: "a".into() };
    let looks = vec![
        code(catalog.get_account(get).await),
        code(catalog.list_campaigns(ListCampaignsRequest::default()).await),
        code(catalog.list_changes(ListChangesRequest::default()).await),
        code(catalog.export(ExportRequest {}).await),
        code(catalog.watch_changes(WatchChangesRequest { after_version: 1 }).await),
    ];
    let switches = vec![
        code(catalog.set_campaign_status(set_status(CampaignStatus::Paused)).await),
        code(catalog.set_campaign_status(set_status(CampaignStatus::Active)).await),
    ];
    let delete = DeleteCampaignRequest { campaign_id: "x:1".into(), if_version: 0 };
    let mut again = vec![campaign("x:1", "")];
    again.extend(place(&["z"]));
    let writes = vec![
        code(catalog.put_account(put_account("b")).await),
        code(catalog.delete_campaign(delete).await),
        code(catalog.import(tokio_stream::iter(steps(&again))).await),
    ];
    [looks, switches, writes]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_may_do_its_own_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [one_of_each_role(dir.path())];
    let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
    let channel = channel(server.admin_addr()).await;
    fill(&mut holding(&channel, "admin-token")).await;
    for (token, may) in [("viewer-token", 1), ("operator-token", 2), ("admin-token", 3)] {
        let levels = levels(&mut holding(&channel, token)).await;
        for (at, codes) in levels.into_iter().enumerate() {
            let expected = if at < may { Code::Ok } else { Code::PermissionDenied };
            assert!(codes.iter().all(|code| *code == expected), "{token}, level {at}: {codes:?}");
        }
    }
    // Who may not is told what it would take, and who they are.
    let mut viewer = holding(&channel, "viewer-token");
    let refused = viewer.set_campaign_status(set_status(CampaignStatus::Paused)).await.unwrap_err();
    for word in ["operator", "the-viewer"] {
        assert!(refused.message().contains(word), "{refused}");
    }
    let refused = viewer.put_account(put_account("b")).await.unwrap_err();
    assert!(refused.message().contains("role admin"), "{refused}");
    // Whether the service is there or not: nobody but an admin forgets a visitor.
    let operator = Saying(vec!["Bearer operator-token".to_owned()]);
    let mut users = UserServiceClient::with_interceptor(channel.clone(), operator);
    let refused = users.forget_user(ForgetUserRequest::default()).await;
    assert_eq!(code(refused), Code::PermissionDenied);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_nothing_known_is_refused_alike() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [one_of_each_role(dir.path())];
    let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
    let channel = channel(server.admin_addr()).await;
    fill(&mut holding(&channel, "admin-token")).await;
    let mut said = Vec::new();
    for authorization in [
        &[][..],
        &["Bearer nobody's"],
        // Nearly right.
        &["Bearer admin-toke"],
        &["Bearer admin-token2"],
        &["Bearer "],
        &["Basic YWRtaW46YWRtaW4="],
        &["admin-token"],
        &["Bearer admin-token", "Bearer nobody's"],
    ] {
        let mut stranger = saying(&channel, authorization);
        let levels = levels(&mut stranger).await;
        for codes in levels {
            let all = codes.iter().all(|code| *code == Code::Unauthenticated);
            assert!(all, "{authorization:?}: {codes:?}");
        }
        let refused = stranger.list_campaigns(ListCampaignsRequest::default()).await.unwrap_err();
        said.push(refused.message().to_owned());
    }
    said.dedup();
    assert_eq!(said.len(), 1, "nobody hears how near they came: {said:?}");
    // The scheme's case does not matter.
    let mut viewer = saying(&channel, &["bearer viewer-token"]);
    viewer.list_campaigns(ListCampaignsRequest::default()).await.unwrap();
    // Probes and reflection have no token.
    let health = HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await;
    health.unwrap();
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    let mut reflection = ServerReflectionClient::new(channel);
    reflection.server_reflection_info(tokio_stream::empty()).await.unwrap();
    server.stop().await;
}

/// Who stands in the audit log, newest first, and for what.
async fn actors(catalog: &mut Catalog) -> Vec<(String, String)> {
    let changes = catalog.list_changes(ListChangesRequest::default()).await.unwrap();
    let changes = changes.into_inner().changes.into_iter().map(|record| record.change.unwrap());
    changes.map(|change| (change.kind, change.actor)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_names_who_held_the_token() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = vec![one_of_each_role(dir.path())];
    let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
    let channel = channel(server.admin_addr()).await;
    let mut admin = holding(&channel, "admin-token");
    fill(&mut admin).await;
    let imported = actors(&mut admin).await;
    assert!(imported.iter().all(|(_, actor)| actor == "the-admin"), "{imported:?}");
    let mut operator = holding(&channel, "operator-token");
    operator.set_campaign_status(set_status(CampaignStatus::Paused)).await.unwrap();
    admin.put_account(put_account("b")).await.unwrap();
    let delete = DeleteCampaignRequest { campaign_id: "x:1".into(), if_version: 0 };
    admin.delete_campaign(delete).await.unwrap();
    let all = actors(&mut operator).await;
    let newest: Vec<_> = all.iter().take(3).map(|(kind, by)| (&**kind, &**by)).collect();
    assert_eq!(
        newest,
        [("campaign", "the-admin"), ("account", "the-admin"), ("campaign", "the-operator")]
    );
    server.stop().await;

    // A door that asks nobody knows everybody as `local`.
    settings.clear();
    let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
    let channel = support::channel(server.admin_addr()).await;
    let mut anybody = holding(&channel, "whatever");
    fill(&mut anybody).await;
    assert!(actors(&mut anybody).await.iter().all(|(_, actor)| actor == "local"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_says_who_calls_by_any_of_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let mut settings = ours.server().settings(dir.path(), "admin");
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, ours.pem()).unwrap();
    settings.push(("admin_tls_client_ca", ca.display().to_string()));
    settings.push(identities(
        dir.path(),
        &[
            by_certificate("by-dns", "admin", "ops.example"),
            by_certificate("by-uri", "admin", "spiffe://example/ops"),
            by_certificate("by-mail", "admin", "ops@mail.example"),
            by_certificate("by-common-name", "viewer", "Ops Team"),
            by_token("by-token", "operator", "a-token"),
        ],
    ));
    let server = Server::start_with(Arc::new(SystemClock), &given(&settings)).await;
    let addr = server.admin_addr();
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let uri = SanType::URI("spiffe://example/ops".try_into().unwrap());
    let mail = SanType::Rfc822Name("ops@mail.example".try_into().unwrap());
    for (account, names, expected) in [
        ("b1", vec![dns("other.example"), dns("ops.example")], "by-dns"),
        ("b2", vec![uri], "by-uri"),
        ("b3", vec![mail], "by-mail"),
    ] {
        let own = ours.issue("someone", &names);
        let mut caller = saying(&ours.connect(addr, Some(&own)).await.unwrap(), &[]);
        caller.put_account(put_account(account)).await.unwrap();
        let newest = actors(&mut caller).await.remove(0);
        assert_eq!(newest, ("account".to_owned(), expected.to_owned()));
    }
    let own = ours.issue("Ops Team", &[]);
    let channel = ours.connect(addr, Some(&own)).await.unwrap();
    let mut viewer = saying(&channel, &[]);
    viewer.list_campaigns(ListCampaignsRequest::default()).await.unwrap();
    let refused = viewer.put_account(put_account("b")).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("by-common-name"), "{refused}");
    // A token that is sent outweighs the certificate, also where it is wrong.
    let pause = set_status(CampaignStatus::Paused);
    let answer = holding(&channel, "a-token").set_campaign_status(pause.clone()).await;
    assert_eq!(code(answer), Code::NotFound, "x:1 is not there, and the operator may ask");
    let answer = holding(&channel, "another").list_campaigns(ListCampaignsRequest::default()).await;
    assert_eq!(code(answer), Code::Unauthenticated);

    // Nobody's certificate, and none: they may ask for health, and say who they are by token.
    let nobody = ours.issue("nobody", &[dns("ops.example.org")]);
    for own in [Some(&nobody), None] {
        let channel = ours.connect(addr, own).await.unwrap();
        let mut stranger = saying(&channel, &[]);
        let refused = stranger.list_campaigns(ListCampaignsRequest::default()).await;
        assert_eq!(code(refused), Code::Unauthenticated);
        HealthClient::new(channel.clone()).check(HealthCheckRequest::default()).await.unwrap();
        holding(&channel, "a-token").list_campaigns(ListCampaignsRequest::default()).await.unwrap();
    }
    // The right name from the wrong authority does not even get so far.
    let forged = others.issue("Ops Team", &[dns("ops.example")]);
    if let Ok(channel) = ours.connect(addr, Some(&forged)).await {
        let health = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
        assert_ne!(code(health), Code::Ok);
    }
    server.stop().await;
}
