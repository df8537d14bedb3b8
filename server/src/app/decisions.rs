//! The threads that answer decisions: one single-threaded runtime each. A connection stays on its
//! thread.

use std::thread::JoinHandle;

use tonic::service::Routes;

use crate::doors::{DecisionDoor, Queue};

/// The running threads.
pub(super) struct DecisionThreads(Vec<JoinHandle<()>>);

impl DecisionThreads {
    /// Starts one thread for each of `queues`. With `noop_bytes` they decide nothing.
    pub(super) fn start(
        queues: Vec<Queue>,
        door: &DecisionDoor,
        routes: &Routes,
        noop_bytes: Option<usize>,
    ) -> std::io::Result<Self> {
        let start = |(at, queue): (usize, Queue)| {
            let (door, routes) = (door.clone(), routes.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            std::thread::Builder::new().name(format!("decide-{at}")).spawn(move || {
                runtime.block_on(async {
                    match noop_bytes {
                        None => door.serve(routes, queue).await,
                        Some(bytes) => door.serve_noop(bytes, routes, queue).await,
                    }
                });
            })
        };
        Ok(Self(queues.into_iter().enumerate().map(start).collect::<std::io::Result<_>>()?))
    }

    /// Whether all have ended.
    pub(super) fn are_over(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }
}
