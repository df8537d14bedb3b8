//! ListNodes: who serves which version, and how they are.

use slotwise_proto::v1::{ListNodesResponse, Node};

use super::Admin;
use crate::ports::NodeSeen;
use crate::time::timestamp;

/// Every node that is known. Where the store is away, the others are as they were last heard of.
pub(super) async fn list(admin: &Admin) -> ListNodesResponse {
    let nodes = admin.fleet.nodes().await;
    ListNodesResponse { nodes: nodes.into_iter().map(node).collect() }
}

fn node(seen: NodeSeen) -> Node {
    let report = seen.report;
    Node {
        node_id: report.node_id,
        catalog_version: report.catalog_version,
        seen_at: Some(timestamp(seen.seen_at_us)),
        degraded: !report.degraded_reason.is_empty(),
        degraded_reason: report.degraded_reason,
        quarantined_rows: report.quarantined_rows,
    }
}
