//! The calls of `CatalogService`, each handed on to what does it.

use std::pin::Pin;

use futures_util::stream::Stream;
use slotwise_core::index::Key;
use slotwise_proto::v1::catalog_service_server::CatalogService;
use slotwise_proto::v1::*;
use tonic::{Request, Response, Status, Streaming};

use super::gate::actor;
use super::{AdminDoor, changes, import, nodes, status, zone_ads};
use crate::catalog::{CatalogError, Checker, ListRequest, Object, Page};
use crate::doors::refusal::Refusal;

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl AdminDoor {
    async fn put<O: Object>(
        &self,
        object: Option<O>,
        field: &str,
        update_mask: Option<prost_types::FieldMask>,
        if_version: u64,
        actor: &str,
    ) -> Answer<CatalogChange> {
        let object = object.ok_or_else(|| Refusal::invalid(field, "is missing"))?;
        let catalog = &self.admin.catalog;
        let change = catalog.put(object, update_mask.as_ref(), if_version, actor).await?;
        Ok(Response::new(change))
    }

    async fn delete(&self, key: Key, if_version: u64, actor: &str) -> Answer<CatalogChange> {
        check_key(&key)?;
        Ok(Response::new(self.admin.catalog.delete(&key, if_version, actor).await?))
    }

    async fn get<O: Object>(&self, key: Key) -> Answer<O> {
        check_key(&key)?;
        Ok(Response::new(self.admin.catalog.get(&key).await?))
    }

    async fn list<O: Object>(
        &self,
        kind: Key,
        owner: &str,
        id_prefix: &str,
        (page_size, page_token): (u32, &str),
    ) -> Result<Page<O>, Status> {
        let request = ListRequest { kind, owner, id_prefix, page_size, page_token };
        Ok(self.admin.catalog.list(request).await?)
    }
}

/// An id that no object can have is the caller's slip, not an object that is not there.
fn check_key(key: &Key) -> Result<(), Refusal> {
    let (field, parent_field) = match key {
        Key::Account(_) => ("account_id", ""),
        Key::Site(_) => ("site_id", ""),
        Key::Zone(..) => ("zone_id", "site_id"),
        Key::Campaign(_) => ("campaign_id", ""),
        Key::Ad(..) => ("ad_unit_id", "campaign_id"),
    };
    let (parent, id) = key.parts();
    let mut checker = Checker::default();
    if !parent_field.is_empty() {
        checker.id(parent_field, parent);
    }
    checker.id(field, id);
    checker.finish(()).map_err(|problems| CatalogError::Refused(problems).into())
}

#[tonic::async_trait]
impl CatalogService for AdminDoor {
    async fn put_account(&self, request: Request<PutAccountRequest>) -> Answer<CatalogChange> {
        let (actor, put) = (actor(&request)?, request.into_inner());
        self.put(put.account, "account", put.update_mask, put.if_version, &actor).await
    }

    async fn get_account(&self, request: Request<GetAccountRequest>) -> Answer<Account> {
        self.get(Key::Account(request.into_inner().account_id.as_str().into())).await
    }

    async fn list_accounts(
        &self,
        request: Request<ListAccountsRequest>,
    ) -> Answer<ListAccountsResponse> {
        let ask = request.into_inner();
        let paging = (ask.page_size, ask.page_token.as_str());
        let page = self.list(Key::Account("".into()), "", "", paging).await?;
        let Page { objects: accounts, next_page_token } = page;
        Ok(Response::new(ListAccountsResponse { accounts, next_page_token }))
    }

    async fn put_site(&self, request: Request<PutSiteRequest>) -> Answer<CatalogChange> {
        let (actor, put) = (actor(&request)?, request.into_inner());
        self.put(put.site, "site", put.update_mask, put.if_version, &actor).await
    }

    async fn list_sites(&self, request: Request<ListSitesRequest>) -> Answer<ListSitesResponse> {
        let ask = request.into_inner();
        let paging = (ask.page_size, ask.page_token.as_str());
        let page = self.list(Key::Site("".into()), &ask.account_id, "", paging).await?;
        let Page { objects: sites, next_page_token } = page;
        Ok(Response::new(ListSitesResponse { sites, next_page_token }))
    }

    async fn put_zone(&self, request: Request<PutZoneRequest>) -> Answer<CatalogChange> {
        let (actor, put) = (actor(&request)?, request.into_inner());
        self.put(put.zone, "zone", put.update_mask, put.if_version, &actor).await
    }

    async fn list_zones(&self, request: Request<ListZonesRequest>) -> Answer<ListZonesResponse> {
        let ask = request.into_inner();
        let kind = Key::Zone(ask.site_id.as_str().into(), "".into());
        let page = self.list(kind, "", "", (ask.page_size, &ask.page_token)).await?;
        let Page { objects: zones, next_page_token } = page;
        Ok(Response::new(ListZonesResponse { zones, next_page_token }))
    }

    async fn list_zone_ads(
        &self,
        request: Request<ListZoneAdsRequest>,
    ) -> Answer<ListZoneAdsResponse> {
        Ok(Response::new(zone_ads::list(&self.admin, request.get_ref()).await?))
    }

    async fn put_campaign(&self, request: Request<PutCampaignRequest>) -> Answer<CatalogChange> {
        let (actor, put) = (actor(&request)?, request.into_inner());
        self.put(put.campaign, "campaign", put.update_mask, put.if_version, &actor).await
    }

    async fn get_campaign(&self, request: Request<GetCampaignRequest>) -> Answer<Campaign> {
        self.get(Key::Campaign(request.into_inner().campaign_id.as_str().into())).await
    }

    async fn list_campaigns(
        &self,
        request: Request<ListCampaignsRequest>,
    ) -> Answer<ListCampaignsResponse> {
        let ask = request.into_inner();
        // A campaign's id begins with its advertiser's and the first colon.
        let prefix = match ask.advertiser_id.as_str() {
            "" => String::new(),
            advertiser if advertiser.contains(':') => {
                return Err(Refusal::invalid("advertiser_id", "holds a colon: none does").into());
            }
            advertiser => format!("{advertiser}:"),
        };
        let paging = (ask.page_size, ask.page_token.as_str());
        let page = self.list(Key::Campaign("".into()), &ask.account_id, &prefix, paging).await?;
        let Page { objects: campaigns, next_page_token } = page;
        Ok(Response::new(ListCampaignsResponse { campaigns, next_page_token }))
    }

    async fn delete_campaign(
        &self,
        request: Request<DeleteCampaignRequest>,
    ) -> Answer<CatalogChange> {
        let (actor, ask) = (actor(&request)?, request.into_inner());
        self.delete(Key::Campaign(ask.campaign_id.as_str().into()), ask.if_version, &actor).await
    }

    async fn set_campaign_status(
        &self,
        request: Request<SetCampaignStatusRequest>,
    ) -> Answer<SetCampaignStatusResponse> {
        let (actor, request) = (actor(&request)?, request.get_ref());
        check_key(&Key::Campaign(request.campaign_id.as_str().into()))?;
        Ok(Response::new(status::set(&self.admin, request, &actor).await?))
    }

    async fn get_delivery(&self, _request: Request<GetDeliveryRequest>) -> Answer<Delivery> {
        Err(Status::unimplemented("GetDelivery is not supported by this version"))
    }

    async fn put_ad(&self, request: Request<PutAdRequest>) -> Answer<CatalogChange> {
        let (actor, put) = (actor(&request)?, request.into_inner());
        self.put(put.ad, "ad", put.update_mask, put.if_version, &actor).await
    }

    async fn get_ad(&self, request: Request<GetAdRequest>) -> Answer<Ad> {
        let ask = request.into_inner();
        self.get(Key::Ad(ask.campaign_id.as_str().into(), ask.ad_unit_id.as_str().into())).await
    }

    async fn list_ads(&self, request: Request<ListAdsRequest>) -> Answer<ListAdsResponse> {
        let ask = request.into_inner();
        let kind = Key::Ad(ask.campaign_id.as_str().into(), "".into());
        let page = self.list(kind, "", "", (ask.page_size, &ask.page_token)).await?;
        let Page { objects: ads, next_page_token } = page;
        Ok(Response::new(ListAdsResponse { ads, next_page_token }))
    }

    async fn delete_ad(&self, request: Request<DeleteAdRequest>) -> Answer<CatalogChange> {
        let (actor, ask) = (actor(&request)?, request.into_inner());
        let key = Key::Ad(ask.campaign_id.as_str().into(), ask.ad_unit_id.as_str().into());
        self.delete(key, ask.if_version, &actor).await
    }

    async fn import(&self, request: Request<Streaming<ImportRequest>>) -> Answer<ImportResponse> {
        let (actor, steps) = (actor(&request)?, request.into_inner());
        Ok(Response::new(import::import(&self.admin, steps, &actor).await?))
    }

    type ExportStream = Answers<CatalogRecord>;

    async fn export(&self, _request: Request<ExportRequest>) -> Answer<Self::ExportStream> {
        Ok(Response::new(Box::pin(import::export(&self.admin)?)))
    }

    type WatchChangesStream = Answers<CatalogChange>;

    async fn watch_changes(
        &self,
        request: Request<WatchChangesRequest>,
    ) -> Answer<Self::WatchChangesStream> {
        let after = request.into_inner().after_version;
        let changes = changes::watch(&self.admin, after, self.drain.clone()).await?;
        Ok(Response::new(Box::pin(changes)))
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Answer<ListChangesResponse> {
        Ok(Response::new(changes::list(&self.admin, request.get_ref()).await?))
    }

    async fn list_nodes(&self, _request: Request<ListNodesRequest>) -> Answer<ListNodesResponse> {
        Ok(Response::new(nodes::list(&self.admin).await))
    }
}
