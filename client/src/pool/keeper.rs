//! Keeps one slot connected: dials, waits for the end, and dials again after a pause.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Channel;

use super::Shared;
use super::dial::Dial;
use crate::error::root_cause;
use crate::limits::{CONNECT_TIMEOUT, RECONNECT_WAIT_MAX, RECONNECT_WAIT_MIN};
use crate::options::Target;
use crate::wait::backoff;

/// Never ends by itself: the pool drops it.
pub(super) async fn keep(shared: Arc<Shared>, index: usize, target: Target) {
    let mut failures = 0;
    loop {
        // The bound around it holds for the name look-up and the TLS handshake too.
        let connected = match timeout(CONNECT_TIMEOUT, connect(&target)).await {
            Ok(connected) => connected,
            Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
        };
        match connected {
            Ok((channel, ended)) => {
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
            Err(cause) => {
                failures += 1;
                shared.failed(index, format!("{}: {cause}", target.address));
            }
        }
        sleep(backoff(failures, RECONNECT_WAIT_MIN, RECONNECT_WAIT_MAX)).await;
    }
}

/// A connection on which the server has spoken, and what resolves when it has ended.
async fn connect(target: &Target) -> Result<(Channel, oneshot::Receiver<()>), String> {
    let (dial, course) = Dial::new(target.handshake.clone());
    let channel =
        target.endpoint.connect_with_connector(dial).await.map_err(|error| root_cause(&error))?;
    match course.heard.await {
        Ok(Ok(())) => Ok((channel, course.ended)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => {
            // Its reason, if it gave one, was lost on the way: TCP throws it away when the
            // server closes without having read our greeting.
            let mut cause = "closed before the server said anything".to_owned();
            if target.handshake.is_some() {
                cause.push_str(" (it may want a client certificate that it knows)");
            }
            Err(cause)
        }
    }
}
