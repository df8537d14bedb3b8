//! A catalogue door that says what it is told to: for what a healthy server of one node never says.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use slotwise_proto::v1::catalog_service_server::{CatalogService, CatalogServiceServer};
use slotwise_proto::v1::import_request::Step;
use slotwise_proto::v1::user_service_server::{UserService, UserServiceServer};
use slotwise_proto::v1::*;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

/// How a call ends.
type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the door answers, and what it was asked.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) accounts: Vec<Account>,
    pub(crate) campaign: Campaign,
    pub(crate) switched: SetCampaignStatusResponse,
    pub(crate) import_problems: Vec<ImportProblem>,
    /// One inner list for each call of WatchChanges; each ends as if the node were restarted.
    pub(crate) watched: Mutex<Vec<Vec<CatalogChange>>>,
    pub(crate) puts: Arc<Mutex<Vec<PutCampaignRequest>>>,
    pub(crate) after_versions: Arc<Mutex<Vec<u64>>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) users: FakeUsers,
    /// The `authorization` of each call of ListNodes.
    pub(crate) tokens: Arc<Mutex<Vec<Option<String>>>>,
}

/// Visitors, alike.
#[derive(Clone, Default)]
pub(crate) struct FakeUsers {
    pub(crate) profile: Profile,
    pub(crate) held_something: bool,
    pub(crate) asked: Arc<Mutex<Vec<GetProfileRequest>>>,
    pub(crate) updates: Arc<Mutex<Vec<UpdateSegmentsRequest>>>,
    pub(crate) forgotten: Arc<Mutex<Vec<ForgetUserRequest>>>,
}

#[tonic::async_trait]
impl UserService for FakeUsers {
    async fn get_profile(&self, request: Request<GetProfileRequest>) -> Answer<Profile> {
        self.asked.lock().unwrap().push(request.into_inner());
        Ok(Response::new(self.profile.clone()))
    }

    async fn update_segments(&self, request: Request<UpdateSegmentsRequest>) -> Answer<Profile> {
        self.updates.lock().unwrap().push(request.into_inner());
        Ok(Response::new(self.profile.clone()))
    }

    async fn forget_user(&self, request: Request<ForgetUserRequest>) -> Answer<ForgetUserResponse> {
        self.forgotten.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ForgetUserResponse { held_something: self.held_something }))
    }
}

/// Serves `fake` until the test ends.
pub(crate) async fn serve(fake: Fake) -> SocketAddr {
    serve_on(Server::builder(), fake).await
}

/// As [`serve`], on a server that may ask for certificates.
pub(crate) async fn serve_on(mut server: Server, fake: Fake) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let users = UserServiceServer::new(fake.users.clone());
    let door = server.add_service(users).add_service(CatalogServiceServer::new(fake));
    tokio::spawn(door.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

macro_rules! door {
    (unused { $($name:ident($request:ty) -> $answer:ty;)* } $($own:tt)*) => {
        #[tonic::async_trait]
        impl CatalogService for Fake {
            $(async fn $name(&self, _: Request<$request>) -> Answer<$answer> {
                Err(Status::unimplemented(stringify!($name)))
            })*
            $($own)*
        }
    };
}

door! {
    unused {
        put_account(PutAccountRequest) -> CatalogChange;
        put_site(PutSiteRequest) -> CatalogChange;
        list_sites(ListSitesRequest) -> ListSitesResponse;
        put_zone(PutZoneRequest) -> CatalogChange;
        list_zones(ListZonesRequest) -> ListZonesResponse;
        list_zone_ads(ListZoneAdsRequest) -> ListZoneAdsResponse;
        list_campaigns(ListCampaignsRequest) -> ListCampaignsResponse;
        get_delivery(GetDeliveryRequest) -> Delivery;
        put_ad(PutAdRequest) -> CatalogChange;
        get_ad(GetAdRequest) -> Ad;
    }

    async fn list_nodes(&self, request: Request<ListNodesRequest>) -> Answer<ListNodesResponse> {
        let token = request.metadata().get("authorization");
        let token = token.map(|value| value.to_str().unwrap().to_owned());
        self.tokens.lock().unwrap().push(token);
        Ok(Response::new(ListNodesResponse { nodes: self.nodes.clone() }))
    }

    type ExportStream = Answers<CatalogRecord>;
    type WatchChangesStream = Answers<CatalogChange>;

    async fn get_account(&self, request: Request<GetAccountRequest>) -> Answer<Account> {
        let wanted = request.into_inner().account_id;
        let found = self.accounts.iter().find(|account| account.account_id == wanted);
        found.cloned().map(Response::new).ok_or_else(|| Status::not_found("no such account"))
    }

    /// One account a page, whatever is asked for.
    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Answer<ListAccountsResponse> {
        let index: usize = request.into_inner().page_token.parse().unwrap_or(0);
        let more = index + 1 < self.accounts.len();
        Ok(Response::new(ListAccountsResponse {
            accounts: self.accounts.get(index).cloned().into_iter().collect(),
            next_page_token: if more { (index + 1).to_string() } else { String::new() },
        }))
    }

    async fn put_campaign(&self, request: Request<PutCampaignRequest>) -> Answer<CatalogChange> {
        self.puts.lock().unwrap().push(request.into_inner());
        let change = CatalogChange { catalog_version: 8, ..CatalogChange::default() };
        Ok(Response::new(change))
    }

    async fn get_campaign(&self, _: Request<GetCampaignRequest>) -> Answer<Campaign> {
        Ok(Response::new(self.campaign.clone()))
    }

    async fn delete_campaign(&self, _: Request<DeleteCampaignRequest>) -> Answer<CatalogChange> {
        let details = ErrorDetails::with_bad_request_violation("campaign_id", "at most 128 bytes");
        Err(Status::with_error_details(tonic::Code::InvalidArgument, "the id is refused", details))
    }

    async fn set_campaign_status(
        &self,
        _: Request<SetCampaignStatusRequest>,
    ) -> Answer<SetCampaignStatusResponse> {
        Ok(Response::new(self.switched))
    }

    /// Never answers.
    async fn list_ads(&self, _: Request<ListAdsRequest>) -> Answer<ListAdsResponse> {
        std::future::pending().await
    }

    async fn delete_ad(&self, _: Request<DeleteAdRequest>) -> Answer<CatalogChange> {
        Err(Status::not_found("no such ad\u{1b}[2J\nslotwisectl: all is well"))
    }

    async fn import(&self, request: Request<Streaming<ImportRequest>>) -> Answer<ImportResponse> {
        let mut steps = request.into_inner();
        let mut records = 0;
        while let Some(step) = steps.message().await? {
            records += u32::from(matches!(step.step, Some(Step::Record(_))));
        }
        let problem_count = u32::try_from(self.import_problems.len()).unwrap();
        let problems = self.import_problems.clone();
        Ok(Response::new(ImportResponse { catalog_version: 9, records, problems, problem_count }))
    }

    /// A stream that breaks off.
    async fn export(&self, _: Request<ExportRequest>) -> Answer<Self::ExportStream> {
        let accounts = self.accounts.iter().cloned().map(catalog_record::Record::Account);
        let records = accounts.map(|record| Ok(CatalogRecord { record: Some(record) }));
        let records: Vec<_> = records.collect();
        let broken = tokio_stream::once(Err(Status::unavailable("the node goes down")));
        Ok(Response::new(Box::pin(tokio_stream::iter(records).chain(broken))))
    }

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Answer<Self::WatchChangesStream> {
        self.after_versions.lock().unwrap().push(request.into_inner().after_version);
        let mut rounds = self.watched.lock().unwrap();
        if rounds.is_empty() {
            return Ok(Response::new(Box::pin(tokio_stream::pending())));
        }
        let changes: Vec<_> = rounds.remove(0).into_iter().map(Ok).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(changes))))
    }

    /// One old change.
    async fn list_changes(&self, _: Request<ListChangesRequest>) -> Answer<ListChangesResponse> {
        let change = CatalogChange { catalog_version: 4, ..CatalogChange::default() };
        let changes = vec![ChangeRecord { change: Some(change), ..ChangeRecord::default() }];
        Ok(Response::new(ListChangesResponse { changes, next_page_token: String::new() }))
    }
}
