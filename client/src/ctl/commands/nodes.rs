//! `nodes`: which nodes there are, and how they are.

use std::time::Duration;

use jiff::Timestamp;
use slotwise_proto::v1::{ListNodesRequest, Node};

use super::Context;
use crate::ctl::error::Error;
use crate::ctl::text::count;
use crate::ctl::time::{self, format_ago};
use crate::stubs::CatalogServiceClient;

/// A node says more often than once a second that it is there: after three missed times something
/// is wrong with it, or on the way to it.
const SILENT_AFTER: Duration = Duration::from_secs(3);

pub(super) async fn run(context: &mut Context) -> Result<(), Error> {
    let catalog = context.catalog().await?;
    let nodes = catalog.call(ListNodesRequest {}, CatalogServiceClient::list_nodes).await?.nodes;
    let now = Timestamp::now();
    let told = context.list(
        "nodes",
        &nodes,
        &["NODE", "VERSION", "SEEN", "STATE", "QUARANTINED"],
        |node| row(node, now),
    );
    match troubled(&nodes, now) {
        // A closed pipe must not hide that something is wrong.
        Some(trouble) => Err(Error::NotApplied(trouble)),
        None => told,
    }
}

fn row(node: &Node, now: Timestamp) -> Vec<String> {
    let quarantined = match node.quarantined_rows {
        0 => String::new(),
        rows => count(rows, "row"),
    };
    vec![
        node.node_id.clone(),
        node.catalog_version.to_string(),
        age(node, now).map_or("never".to_owned(), format_ago),
        state(node, now),
        quarantined,
    ]
}

fn state(node: &Node, now: Timestamp) -> String {
    let mut parts = Vec::new();
    if node.degraded {
        parts.push(match node.degraded_reason.as_str() {
            "" => "degraded".to_owned(),
            reason => format!("degraded: {reason}"),
        });
    }
    if is_silent(node, now) {
        parts.push("silent".to_owned());
    }
    if parts.is_empty() { "ok".to_owned() } else { parts.join("; ") }
}

/// How long ago it was heard of; none where it never was. A clock that is a little ahead of ours
/// makes no time below zero.
fn age(node: &Node, now: Timestamp) -> Option<Duration> {
    let seen = node.seen_at.as_ref().and_then(time::from_wire)?;
    Some(Duration::try_from(now.duration_since(seen)).unwrap_or_default())
}

fn is_silent(node: &Node, now: Timestamp) -> bool {
    age(node, now).is_none_or(|age| age > SILENT_AFTER)
}

/// Who is not well, in one line; none when all are.
fn troubled(nodes: &[Node], now: Timestamp) -> Option<String> {
    let is_ill = |node: &&Node| node.degraded || is_silent(node, now);
    let ill: Vec<&str> = nodes.iter().filter(is_ill).map(|node| node.node_id.as_str()).collect();
    match ill.len() {
        0 => None,
        n => Some(format!(
            "{n} of {} not well: {}",
            count(nodes.len() as u64, "node"),
            ill.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_silent_after_three_seconds() {
        let now: Timestamp = "2026-12-01T12:00:00Z".parse().unwrap();
        let seen = |text: &str| Node {
            node_id: "n".into(),
            seen_at: Some(time::to_wire(text.parse().unwrap())),
            ..Node::default()
        };
        for (at, expected) in [
            ("2026-12-01T12:00:00Z", "ok"),
            ("2026-12-01T11:59:57Z", "ok"),
            ("2026-12-01T11:59:56.999Z", "silent"),
            ("2026-12-01T12:00:05Z", "ok"),
        ] {
            assert_eq!(state(&seen(at), now), expected, "{at}");
        }
        assert_eq!(state(&Node::default(), now), "silent");
        let reason = "the store is away".to_owned();
        let mut ill = seen("2026-12-01T11:59:00Z");
        (ill.degraded, ill.degraded_reason) = (true, reason);
        assert_eq!(state(&ill, now), "degraded: the store is away; silent");
        assert_eq!(row(&ill, now)[2], "1m ago");
    }
}
