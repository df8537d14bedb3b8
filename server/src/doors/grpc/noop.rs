//! A service that decides nothing: what its calls cost is what any call costs, and the measure of
//! what a decision adds. For benchmarks; a client cannot tell it from a broken server.

use std::pin::Pin;

use futures_util::stream::Stream;
use slotwise_proto::v1::ad_decision_service_server::AdDecisionService;
use slotwise_proto::v1::{
    ChooseAdsBatchRequest, ChooseAdsBatchResponse, ChooseAdsRequest, ChooseAdsResponse,
    ChoosePageRequest, ChoosePageResponse,
};
use tokio_stream::StreamExt;
use tonic::{Request, Response, Status, Streaming};

/// Answers each request, once it is decoded, with the same message.
pub(super) struct Noop(ChooseAdsResponse);

impl Noop {
    /// Answers of so many bytes on the wire, or of none where that is less than a field takes.
    pub(super) fn new(bytes: usize) -> Self {
        // The field's tag, and its length in one byte or two.
        let around = if bytes > 129 { 3 } else { 2 };
        let filling = "=".repeat(bytes.saturating_sub(around));
        Self(ChooseAdsResponse { request_id: filling, ..ChooseAdsResponse::default() })
    }
}

#[tonic::async_trait]
impl AdDecisionService for Noop {
    async fn choose_ads(
        &self,
        _request: Request<ChooseAdsRequest>,
    ) -> Result<Response<ChooseAdsResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }

    async fn choose_page(
        &self,
        _request: Request<ChoosePageRequest>,
    ) -> Result<Response<ChoosePageResponse>, Status> {
        Err(Status::unimplemented("this server is for benchmarks and decides nothing"))
    }

    async fn choose_ads_batch(
        &self,
        request: Request<ChooseAdsBatchRequest>,
    ) -> Result<Response<ChooseAdsBatchResponse>, Status> {
        let responses = vec![self.0.clone(); request.get_ref().requests.len()];
        Ok(Response::new(ChooseAdsBatchResponse { responses }))
    }

    type ChooseAdsStreamStream =
        Pin<Box<dyn Stream<Item = Result<ChooseAdsResponse, Status>> + Send>>;

    async fn choose_ads_stream(
        &self,
        request: Request<Streaming<ChooseAdsRequest>>,
    ) -> Result<Response<Self::ChooseAdsStreamStream>, Status> {
        let answer = self.0.clone();
        let answers = request.into_inner().map(move |request| request.map(|_| answer.clone()));
        Ok(Response::new(Box::pin(answers)))
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn an_answer_has_as_many_bytes_as_it_should() {
        for bytes in [0, 3, 100, 129, 318, 10_000] {
            let expected = if bytes < 3 { 0 } else { bytes };
            assert_eq!(Noop::new(bytes).0.encoded_len(), expected, "{bytes}");
        }
    }
}
