//! The wire contract: the types and services that are generated from `slotwise/v1/*.proto`,
//! their descriptors, and their JSON form.

pub mod codec;
pub mod dynamic;
pub mod json;

/// Package `slotwise.v1`: messages, clients and servers.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::too_many_lines,
    rustdoc::invalid_html_tags,
    rustdoc::broken_intra_doc_links
)]
pub mod v1 {
    tonic::include_proto!("slotwise.v1");
}

/// The encoded `FileDescriptorSet` of the contract: what gRPC reflection serves.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/slotwise.bin"));
