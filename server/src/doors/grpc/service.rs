//! The calls of `AdDecisionService`.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::stream::{self, Stream};
use slotwise_proto::v1::ad_decision_service_server::{AdDecisionService, AdDecisionServiceServer};
use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsBatchResponse, ChooseAdsRequest, ChooseAdsResponse,
    ChoosePageRequest, ChoosePageResponse,
};
use tokio_stream::StreamExt;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};
use tower::Layer as _;

use super::super::calls::Calls;
use super::super::deadline::Deadlines;
use super::super::listener::{Drain, Http, Protocol, Queue, serve};
use super::super::refusal::Refusal;
use super::answer;
use super::ask::explain_max;
use super::choose::Chooser;
use super::delivery::{Delivery, DeliveryLayer};
use super::front::Front;
use super::noop::Noop;
use super::overload::Overload;
use crate::inflight::InFlight;
use crate::limits::{
    BATCH_ADS_MAX, BATCH_REQUESTS_MAX, DECISION_MESSAGE_BYTES_MAX, DECISIONS_PER_CONNECTION_MAX,
    EXPLAINED_IN_ALL_MAX,
};

/// What a decision door speaks.
const PROTOCOL: Protocol = Protocol { http: Http::Two, streams_max: DECISIONS_PER_CONNECTION_MAX };

/// Requests of a batch that are decided before other calls of the same core get a turn.
const BATCH_TURN: usize = 32;

/// Serves the decision door on one thread.
#[derive(Clone)]
pub struct DecisionDoor {
    chooser: Arc<Chooser>,
    in_flight: Arc<InFlight>,
    calls: Calls,
    drain: Drain,
}

impl DecisionDoor {
    /// A door that answers from `chooser`.
    pub fn new(
        chooser: Arc<Chooser>,
        in_flight: Arc<InFlight>,
        calls: Calls,
        drain: Drain,
    ) -> Self {
        Self { chooser, in_flight, calls, drain }
    }

    /// Serves `connections` until the drain is over; `routes` has what every door has.
    pub async fn serve(self, routes: Routes, connections: Queue) {
        let (drain, calls) = (self.drain.clone(), self.calls.clone());
        let lane = self.in_flight.lane();
        let counters = Arc::clone(&self.chooser.counters);
        let service = AdDecisionServiceServer::new(self)
            .max_decoding_message_size(DECISION_MESSAGE_BYTES_MAX);
        let front = Deadlines(Front::new(Overload::new(service, counters), routes));
        let service = calls.layer(DeliveryLayer(Arc::clone(&lane)).layer(front));
        serve(PROTOCOL, service, connections, lane, drain).await;
    }

    /// Serves in the same way, and answers everything with the same `bytes` bytes: for benchmarks.
    pub async fn serve_noop(self, bytes: usize, routes: Routes, connections: Queue) {
        let service = AdDecisionServiceServer::new(Noop::new(bytes))
            .max_decoding_message_size(DECISION_MESSAGE_BYTES_MAX);
        let service = Front::new(service, routes);
        serve(PROTOCOL, service, connections, self.in_flight.lane(), self.drain).await;
    }

    async fn answer(
        &self,
        delivery: &Delivery,
        mut request: ChooseAdsRequest,
    ) -> ChooseAdsResponse {
        delivery.begin();
        match self.chooser.choose_ads(&mut request).await {
            Ok(response) => response,
            Err(refusal) => answer::refused(request.request_id, refusal),
        }
    }
}

#[tonic::async_trait]
impl AdDecisionService for DecisionDoor {
    async fn choose_ads(
        &self,
        request: Request<ChooseAdsRequest>,
    ) -> Result<Response<ChooseAdsResponse>, Status> {
        let delivery = delivery(&request)?;
        delivery.begin();
        let response = self.chooser.choose_ads(&mut request.into_inner()).await?;
        delivery.hand_over()?;
        Ok(Response::new(response))
    }

    async fn choose_page(
        &self,
        request: Request<ChoosePageRequest>,
    ) -> Result<Response<ChoosePageResponse>, Status> {
        let delivery = delivery(&request)?;
        delivery.begin();
        let response = self.chooser.choose_page(&mut request.into_inner()).await?;
        delivery.hand_over()?;
        Ok(Response::new(response))
    }

    async fn choose_ads_batch(
        &self,
        request: Request<ChooseAdsBatchRequest>,
    ) -> Result<Response<ChooseAdsBatchResponse>, Status> {
        let delivery = delivery(&request)?;
        let requests = request.into_inner().requests;
        check_batch(&requests)?;
        let mut responses = Vec::with_capacity(requests.len());
        for (at, request) in requests.into_iter().enumerate() {
            if at % BATCH_TURN == BATCH_TURN - 1 {
                tokio::task::yield_now().await;
            }
            responses.push(self.answer(&delivery, request).await);
        }
        delivery.hand_over()?;
        Ok(Response::new(ChooseAdsBatchResponse { responses }))
    }

    type ChooseAdsStreamStream =
        Pin<Box<dyn Stream<Item = Result<ChooseAdsResponse, Status>> + Send>>;

    /// Each answer is decided when the transport asks for it: a slow reader slows its own stream
    /// down, and nothing is kept for it.
    async fn choose_ads_stream(
        &self,
        request: Request<Streaming<ChooseAdsRequest>>,
    ) -> Result<Response<Self::ChooseAdsStreamStream>, Status> {
        let delivery = delivery(&request)?;
        let state = (self.clone(), delivery, request.into_inner());
        let answers = stream::try_unfold(state, |(door, delivery, mut requests)| async move {
            let next = tokio::select! {
                biased;
                next = requests.next() => next,
                // What has been read is answered; then the stream ends.
                () = door.drain.begun() => None,
            };
            let Some(request) = next.transpose()? else { return Ok(None) };
            let response = door.answer(&delivery, request).await;
            delivery.hand_over()?;
            Ok(Some((response, (door, delivery, requests))))
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

fn check_batch(requests: &[ChooseAdsRequest]) -> Result<(), Refusal> {
    if requests.len() > BATCH_REQUESTS_MAX {
        let problem = format!("has {} entries; the limit is {BATCH_REQUESTS_MAX}", requests.len());
        return Err(Refusal::invalid("requests", problem));
    }
    let ads: usize = requests.iter().map(|request| request.count.max(1) as usize).sum();
    if ads > BATCH_ADS_MAX {
        let problem = format!("ask for {ads} ads in all; the limit is {BATCH_ADS_MAX}");
        return Err(Refusal::invalid("requests", problem));
    }
    let explained = |request: &ChooseAdsRequest| explain_max(request.explain, request.explain_max);
    let explained: usize = requests.iter().filter_map(explained).sum();
    if explained > EXPLAINED_IN_ALL_MAX {
        let problem = format!(
            "ask for {explained} candidates to be explained in all; the limit is \
             {EXPLAINED_IN_ALL_MAX}"
        );
        return Err(Refusal::invalid("requests", problem));
    }
    Ok(())
}

fn delivery<T>(request: &Request<T>) -> Result<Delivery, Status> {
    let delivery = request.extensions().get::<Delivery>().cloned();
    delivery.ok_or_else(|| Status::internal("the door has no delivery layer"))
}
