//! The embedded store has one node.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::ports::{Clock, NodeReport, NodeSeen, NodeStore, StoreError};

/// What the only node has said of itself.
pub struct EmbeddedNodes {
    clock: Arc<dyn Clock>,
    last: Mutex<Option<(NodeReport, i64, Instant)>>,
}

impl EmbeddedNodes {
    /// Nobody has said anything yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: Mutex::default() }
    }
}

#[async_trait]
impl NodeStore for EmbeddedNodes {
    async fn report(&self, report: &NodeReport) -> Result<i64, StoreError> {
        let now_us = self.clock.now_us();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((report.clone(), now_us, Instant::now()));
        Ok(now_us)
    }

    async fn nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |(report, seen_at_us, at): &(NodeReport, i64, Instant)| NodeSeen {
            report: report.clone(),
            seen_at_us: *seen_at_us,
            age: at.elapsed(),
            has_left: false,
        };
        Ok(last.iter().map(seen).collect())
    }

    async fn leave(&self, _node_id: &str) -> Result<(), StoreError> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}
