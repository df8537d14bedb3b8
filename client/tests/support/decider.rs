//! A decision door that remembers who called, and can be killed and started again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slotwise_proto::v1::ad_decision_service_server::{AdDecisionService, AdDecisionServiceServer};
use slotwise_proto::v1::*;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;

/// What a node has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Calls by the connection that they came on.
    pub(crate) by_peer: BTreeMap<SocketAddr, u32>,
    /// The `authorization` of each call, if it had one.
    pub(crate) tokens: Vec<Option<String>>,
    /// The `grpc-timeout` of each call, if it had one.
    pub(crate) timeouts: Vec<Option<String>>,
}

impl Seen {
    pub(crate) fn calls(&self) -> u32 {
        self.by_peer.values().sum()
    }
}

/// One node, on a runtime of its own, so that a kill ends its connections as that of a process.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Seen>>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Node {
    /// On a loopback address of its own: when it has died, no other test's server gets its port.
    pub(crate) fn start() -> Self {
        static STARTED: AtomicU16 = AtomicU16::new(1);
        let [high, low] = STARTED.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        Node::start_at(SocketAddr::from(([127, 1, high, low], 0)), None)
    }

    pub(crate) fn start_with_tls(tls: ServerTlsConfig) -> Self {
        Node::start_at("127.0.0.1:0".parse().unwrap(), Some(tls))
    }

    /// Starts where an earlier one was killed.
    pub(crate) fn start_at(address: SocketAddr, tls: Option<ServerTlsConfig>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let door = AdDecisionServiceServer::new(Decider { seen: seen.clone() });
        let (told, address_told) = std::sync::mpsc::channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind(address).await.unwrap();
            told.send(listener.local_addr().unwrap()).unwrap();
            let mut server = Server::builder();
            if let Some(tls) = tls {
                server = server.tls_config(tls).unwrap();
            }
            let incoming = TcpListenerStream::new(listener);
            server.add_service(door).serve_with_incoming(incoming).await.unwrap();
        });
        Node { address: address_told.recv().unwrap(), seen, runtime: Some(runtime) }
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.end();
        self.address
    }

    pub(crate) fn calls(&self) -> u32 {
        self.seen.lock().unwrap().calls()
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // From within another runtime it must not be waited for here.
            std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(5)))
                .join()
                .unwrap();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

struct Decider {
    seen: Arc<Mutex<Seen>>,
}

impl Decider {
    fn note<T>(&self, request: &Request<T>) {
        let text =
            |name| request.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut seen = self.seen.lock().unwrap();
        *seen.by_peer.entry(request.remote_addr().unwrap()).or_default() += 1;
        seen.tokens.push(text("authorization"));
        seen.timeouts.push(text("grpc-timeout"));
    }
}

#[tonic::async_trait]
impl AdDecisionService for Decider {
    /// Zone "never" is never answered.
    async fn choose_ads(&self, request: Request<ChooseAdsRequest>) -> Answer<ChooseAdsResponse> {
        self.note(&request);
        let request = request.into_inner();
        if request.zone_id == "never" {
            return std::future::pending().await;
        }
        Ok(Response::new(answer(request)))
    }

    async fn choose_page(&self, request: Request<ChoosePageRequest>) -> Answer<ChoosePageResponse> {
        let request_id = request.into_inner().request_id;
        Ok(Response::new(ChoosePageResponse { request_id, ..ChoosePageResponse::default() }))
    }

    /// Loses the last answer.
    async fn choose_ads_batch(
        &self,
        request: Request<ChooseAdsBatchRequest>,
    ) -> Answer<ChooseAdsBatchResponse> {
        let mut responses: Vec<_> = request.into_inner().requests.into_iter().map(answer).collect();
        responses.pop();
        Ok(Response::new(ChooseAdsBatchResponse { responses }))
    }

    type ChooseAdsStreamStream =
        Pin<Box<dyn Stream<Item = Result<ChooseAdsResponse, Status>> + Send>>;

    /// Breaks off at zone "break", and drains at zone "drain"; zone "never" is not answered, nor
    /// is what comes behind it.
    async fn choose_ads_stream(
        &self,
        request: Request<Streaming<ChooseAdsRequest>>,
    ) -> Answer<Self::ChooseAdsStreamStream> {
        self.note(&request);
        let requests = request.into_inner().then(async |request| match request {
            Ok(request) if request.zone_id == "break" => Err(Status::unavailable("going down")),
            Ok(request) if request.zone_id == "never" => std::future::pending().await,
            other => other,
        });
        let undrained = requests.take_while(|request| {
            !request.as_ref().is_ok_and(|request| request.zone_id == "drain")
        });
        Ok(Response::new(Box::pin(undrained.map(|request| request.map(answer)))))
    }
}

fn answer(request: ChooseAdsRequest) -> ChooseAdsResponse {
    ChooseAdsResponse { request_id: request.request_id, ..ChooseAdsResponse::default() }
}
