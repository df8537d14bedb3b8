//! Decisions: which ads to show.

use slotwise_proto::v1::ad_decision_service_client::AdDecisionServiceClient;
use slotwise_proto::v1::*;
use tokio_stream::Stream;
use tonic::transport::Channel;

use crate::Error;
use crate::client::Client;

mod stream;

pub use stream::Chosen;

/// The decision door.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), slotwise_client::Error> {
/// # let server = slotwise_server::testing::Server::start().await;
/// # let address = server.decision_addr().to_string();
/// use std::time::Duration;
/// use slotwise_client::v1::{ChooseAdsRequest, NoAdReason};
/// use slotwise_client::{Decisions, Options};
///
/// let decisions = Decisions::connect(&Options::parse([address])?).await?;
/// let request = ChooseAdsRequest {
///     site_id: "news".into(),
///     zone_id: "home-top".into(),
///     user_id: "visitor-1".into(),
///     keywords: vec!["car".into()],
///     count: 3,
///     ..ChooseAdsRequest::default()
/// };
/// let answer = decisions.within(Duration::from_millis(500)).choose_ads(request).await?;
/// // No ad is an answer, not an error: the server of this example has no catalogue yet.
/// assert!(answer.ads.is_empty());
/// assert_eq!(answer.no_ad_reason(), NoAdReason::ZoneUnknown);
/// # server.stop().await;
/// # Ok(())
/// # }
/// ```
pub type Decisions = Client<AdDecisionServiceClient<Channel>>;

impl Decisions {
    /// Chooses ads for one zone. What was perhaps recorded is not asked for again: a decision for
    /// a known visitor is repeated only where the server provably did not read it.
    ///
    /// # Errors
    /// See [`Error`]. That there is no ad is an answer.
    pub async fn choose_ads(&self, request: ChooseAdsRequest) -> Result<ChooseAdsResponse, Error> {
        self.call(request, AdDecisionServiceClient::choose_ads).await
    }

    /// Chooses for every placement of a page, under one set of page rules: no ad twice, caps over
    /// all of them. Answer i belongs to placement i, and may be the refusal of that one (its
    /// `error`).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), slotwise_client::Error> {
    /// # let server = slotwise_server::testing::Server::start().await;
    /// # let address = server.decision_addr().to_string();
    /// use slotwise_client::v1::{ChoosePageRequest, Placement};
    /// use slotwise_client::{Decisions, Options};
    ///
    /// let decisions = Decisions::connect(&Options::parse([address])?).await?;
    /// let placement = |zone: &str| Placement {
    ///     placement_id: zone.into(),
    ///     site_id: "news".into(),
    ///     zone_id: zone.into(),
    ///     ..Placement::default()
    /// };
    /// let page = ChoosePageRequest {
    ///     user_id: "visitor-1".into(),
    ///     placements: ["home-top", "home-side"].map(placement).into(),
    ///     ..ChoosePageRequest::default()
    /// };
    /// let answer = decisions.choose_page(page).await?;
    /// assert_eq!(answer.placements[1].placement_id, "home-side");
    /// # server.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Decisions::choose_ads`], and [`Error::Broken`] where the server gave another number of
    /// answers.
    pub async fn choose_page(
        &self,
        request: ChoosePageRequest,
    ) -> Result<ChoosePageResponse, Error> {
        let asked = request.placements.len();
        let answer = self.call(request, AdDecisionServiceClient::choose_page).await?;
        match answer.placements.len() {
            n if n == asked => Ok(answer),
            n => Err(Error::Broken(format!("{n} answers to {asked} placements"))),
        }
    }

    /// Many independent decisions in one call: answer i belongs to request i, and may be the
    /// refusal of that one (its `error`).
    ///
    /// # Errors
    /// As [`Decisions::choose_ads`], and [`Error::Broken`] where the server gave another number of
    /// answers.
    pub async fn choose_ads_batch(
        &self,
        requests: Vec<ChooseAdsRequest>,
    ) -> Result<Vec<ChooseAdsResponse>, Error> {
        let asked = requests.len();
        let batch = ChooseAdsBatchRequest { requests };
        let answers = self.call(batch, AdDecisionServiceClient::choose_ads_batch).await?.responses;
        match answers.len() {
            n if n == asked => Ok(answers),
            n => Err(Error::Broken(format!("{n} answers to {asked} requests"))),
        }
    }

    /// Decisions over one long stream on one connection, answered in order. Nothing is sent again
    /// by itself: where the stream ends, [`Chosen::unanswered`] has what was sent and not answered.
    /// At most 1,024 requests wait for answers; only then more are taken from `requests`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), slotwise_client::Error> {
    /// # let server = slotwise_server::testing::Server::start().await;
    /// # let address = server.decision_addr().to_string();
    /// use slotwise_client::v1::ChooseAdsRequest;
    /// use slotwise_client::{Decisions, Options};
    ///
    /// let decisions = Decisions::connect(&Options::parse([address])?).await?;
    /// let requests = (0..100).map(|n| ChooseAdsRequest {
    ///     request_id: n.to_string(),
    ///     site_id: "news".into(),
    ///     zone_id: "home-top".into(),
    ///     ..ChooseAdsRequest::default()
    /// });
    /// let mut chosen = decisions.choose_ads_stream(tokio_stream::iter(requests)).await?;
    /// let mut answered = 0;
    /// while let Some(answer) = chosen.message().await? {
    ///     assert_eq!(answer.request_id, answered.to_string());
    ///     answered += 1;
    /// }
    /// assert_eq!(answered, 100);
    /// assert!(chosen.unanswered().is_empty());
    /// # server.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// That the stream could not be begun; nothing was taken from `requests` then, or nothing that
    /// was answered.
    pub async fn choose_ads_stream(
        &self,
        requests: impl Stream<Item = ChooseAdsRequest> + Send + 'static,
    ) -> Result<Chosen, Error> {
        let (fed, feed) = stream::feed(requests);
        let method = AdDecisionServiceClient::choose_ads_stream;
        let answers = self.open(fed, async |stub, requests| method(stub, requests).await).await?;
        Ok(Chosen::new(answers, feed))
    }
}
