//! gRPC health and reflection, alike on every door.

use slotwise_proto::DESCRIPTORS;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tonic_reflection::server::Builder;

/// The health of one door: overall, and of each service on it.
#[derive(Clone)]
pub struct Health {
    reporter: HealthReporter,
    services: &'static [&'static str],
}

impl Health {
    /// Says whether the node is whole, or degraded.
    pub async fn set_whole(&self, is_whole: bool) {
        let status = if is_whole { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.reporter.set_service_status(WHOLE, status).await;
    }

    /// Says that the door serves, or that it no longer does.
    pub async fn set(&self, is_serving: bool) {
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        for service in self.services.iter().copied().chain([""]) {
            self.reporter.set_service_status(service, status).await;
        }
    }
}

/// The name under which health says whether a node is whole: NOT_SERVING while it is degraded,
/// though its doors answer all the same.
const WHOLE: &str = "slotwise.whole";

/// Routes with health (not serving yet) and reflection of `services`, to which the door adds its
/// own.
///
/// # Errors
/// When the descriptors do not decode.
pub async fn reflect(
    services: &'static [&'static str],
) -> Result<(Health, Routes), tonic_reflection::server::Error> {
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let health = Health { reporter, services };
    health.set(false).await;
    let routes = Routes::new(health_service)
        .add_service(descriptors(services).build_v1()?)
        .add_service(descriptors(services).build_v1alpha()?);
    Ok((health, routes))
}

/// What reflection shows: `services`, health and reflection itself.
fn descriptors(services: &[&str]) -> Builder<'static> {
    let named = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"];
    services
        .iter()
        .chain(&named)
        .fold(Builder::configure(), |builder, service| builder.with_service_name(*service))
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
