//! Health and reflection, as a stranger asks for them.

use std::net::SocketAddr;

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::channel;

/// What the door at `addr` says of `service`; "" is the door as a whole.
pub async fn health(addr: SocketAddr, service: &str) -> Result<ServingStatus, Code> {
    let ask = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel(addr).await).check(ask).await;
    answer.map(|answer| answer.into_inner().status()).map_err(|status| status.code())
}

/// The services that version 1 of reflection lists.
pub async fn services_v1(addr: SocketAddr) -> Vec<String> {
    use v1::server_reflection_client::ServerReflectionClient;
    use v1::server_reflection_request::MessageRequest;
    use v1::server_reflection_response::MessageResponse;

    let list = MessageRequest::ListServices(String::new());
    let ask = v1::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut client = ServerReflectionClient::new(channel(addr).await);
    let answers = client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}")
    };
    listed.service.into_iter().map(|service| service.name).collect()
}

/// The services that reflection lists to callers that know only its first version.
pub async fn services_v1alpha(addr: SocketAddr) -> Vec<String> {
    use v1alpha::server_reflection_client::ServerReflectionClient;
    use v1alpha::server_reflection_request::MessageRequest;
    use v1alpha::server_reflection_response::MessageResponse;

    let list = MessageRequest::ListServices(String::new());
    let ask = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
    let mut client = ServerReflectionClient::new(channel(addr).await);
    let answers = client.server_reflection_info(tokio_stream::iter([ask])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}")
    };
    listed.service.into_iter().map(|service| service.name).collect()
}
