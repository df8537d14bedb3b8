//! A small catalogue in a child process: written call by call or imported, and asked.

use slotwise_proto::json;
use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::catalog_service_client::CatalogServiceClient;
use slotwise_proto::v1::user_service_client::UserServiceClient;
use slotwise_proto::v1::{
    CampaignStatus, CatalogRecord, ChooseAdsResponse, ExportRequest, GetCampaignRequest,
    ImportOptions, ImportRequest, PutAccountRequest, PutAdRequest, PutCampaignRequest,
    PutSiteRequest, PutZoneRequest, SetCampaignStatusRequest, catalog_record::Record,
    import_request::Step,
};
use tonic::transport::Channel;

use super::child::{Doors, PATIENCE};
use crate::support::{ask, channel};

/// Clients of a running process.
pub struct Clients {
    pub decisions: AdDecisionServiceClient<Channel>,
    pub catalog: CatalogServiceClient<Channel>,
    pub users: UserServiceClient<Channel>,
}

impl Clients {
    pub async fn of(doors: Doors) -> Self {
        Self {
            decisions: AdDecisionServiceClient::new(channel(doors.decisions).await),
            catalog: CatalogServiceClient::new(channel(doors.admin).await),
            users: UserServiceClient::new(channel(doors.admin).await),
        }
    }

    /// Writes each record with its own call, and waits until the last one is served.
    pub async fn put(&mut self, records: &[impl AsRef<str>]) {
        let mut version = 0;
        for record in records {
            version = self.put_one(read(record.as_ref())).await;
        }
        self.wait_for(version).await;
    }

    /// Writes one record; the version that has it. Nothing is waited for.
    pub async fn put_unserved(&mut self, record: &str) -> u64 {
        self.put_one(read(record)).await
    }

    async fn put_one(&mut self, record: Record) -> u64 {
        let done = match record {
            Record::Account(account) => {
                let put = PutAccountRequest { account: Some(account), ..Default::default() };
                self.catalog.put_account(put).await
            }
            Record::Site(site) => {
                let put = PutSiteRequest { site: Some(site), ..Default::default() };
                self.catalog.put_site(put).await
            }
            Record::Zone(zone) => {
                let put = PutZoneRequest { zone: Some(zone), ..Default::default() };
                self.catalog.put_zone(put).await
            }
            Record::Campaign(campaign) => {
                let put = PutCampaignRequest { campaign: Some(campaign), ..Default::default() };
                self.catalog.put_campaign(put).await
            }
            Record::Ad(ad) => {
                let put = PutAdRequest { ad: Some(ad), ..Default::default() };
                self.catalog.put_ad(put).await
            }
        };
        done.unwrap().into_inner().catalog_version
    }

    /// Imports records in one go, and waits until they are served.
    pub async fn import(&mut self, options: ImportOptions, records: &[impl AsRef<str>]) {
        let record = |text| Step::Record(CatalogRecord { record: Some(read(text)) });
        let records = records.iter().map(|text| record(text.as_ref()));
        let steps = std::iter::once(Step::Options(options)).chain(records);
        let steps: Vec<_> = steps.map(|step| ImportRequest { step: Some(step) }).collect();
        let done = self.catalog.import(tokio_stream::iter(steps)).await.unwrap().into_inner();
        assert_eq!(done.problems, vec![]);
        self.wait_for(done.catalog_version).await;
    }

    /// Waits until decisions are made on `version`.
    async fn wait_for(&mut self, version: u64) {
        let served = async {
            while self.choose("top", "").await.catalog_version < version {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, served).await.unwrap();
    }

    /// Sets a campaign's status, and expects that the node has applied it.
    pub async fn set_status(&mut self, campaign: &str, status: CampaignStatus) {
        let set = SetCampaignStatusRequest {
            campaign_id: campaign.to_owned(),
            status: status.into(),
            wait: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        };
        let done = self.catalog.set_campaign_status(set).await.unwrap().into_inner();
        assert_eq!((done.nodes_live, done.nodes_applied), (1, 1), "{done:?}");
    }

    /// One ad for zone `zone` of site `s`.
    pub async fn choose(&mut self, zone: &str, user: &str) -> ChooseAdsResponse {
        self.decisions.choose_ads(ask(zone, user, 1)).await.unwrap().into_inner()
    }

    /// What is shown in `zone` to somebody unknown: campaign ids.
    pub async fn shown(&mut self, zone: &str) -> Vec<String> {
        let answer = self.choose(zone, "").await;
        answer.ads.into_iter().map(|ad| ad.campaign_id).collect()
    }

    /// The status of `campaign` as the admin door has it.
    pub async fn status_of(&mut self, campaign: &str) -> CampaignStatus {
        let get = GetCampaignRequest { campaign_id: campaign.to_owned() };
        self.catalog.get_campaign(get).await.unwrap().into_inner().status()
    }

    /// The whole catalogue.
    pub async fn export(&mut self) -> Vec<CatalogRecord> {
        let mut records = self.catalog.export(ExportRequest {}).await.unwrap().into_inner();
        let mut all = Vec::new();
        while let Some(record) = records.message().await.unwrap() {
            all.push(record);
        }
        all
    }
}

fn read(record: &str) -> Record {
    json::from_str::<CatalogRecord>(record).unwrap().record.unwrap()
}
