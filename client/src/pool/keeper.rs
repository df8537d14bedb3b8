//! Keeps one slot connected: dials, waits for the end, and dials again after a pause.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;

use super::Shared;
use super::dial::Dial;
use crate::address::Address;
use crate::error::root_cause;
use crate::limits::{CONNECT_TIMEOUT, RECONNECT_WAIT_MAX, RECONNECT_WAIT_MIN};
use crate::wait::backoff;

/// Never ends by itself: the pool drops it.
pub(super) async fn keep(shared: Arc<Shared>, index: usize, address: Address, endpoint: Endpoint) {
    let mut failures = 0;
    loop {
        let (dial, ended) = Dial::new();
        // The bound around it holds for the name look-up and the TLS handshake too.
        match timeout(CONNECT_TIMEOUT, endpoint.connect_with_connector(dial)).await {
            Ok(Ok(channel)) => {
                let since = Instant::now();
                let (serial, given_up) = shared.up(index, channel);
                tokio::select! {
                    _ = ended => {}
                    _ = given_up => {}
                }
                shared.down(index, serial);
                // A server that takes connections only to close them is left in peace like one
                // that takes none.
                failures = if since.elapsed() < RECONNECT_WAIT_MAX { failures + 1 } else { 0 };
            }
            Ok(Err(error)) => {
                failures += 1;
                shared.failed(index, format!("{address}: {}", root_cause(&error)));
            }
            Err(_) => {
                failures += 1;
                let cause = format!("{address}: no connection within {CONNECT_TIMEOUT:?}");
                shared.failed(index, cause);
            }
        }
        sleep(backoff(failures, RECONNECT_WAIT_MIN, RECONNECT_WAIT_MAX)).await;
    }
}
