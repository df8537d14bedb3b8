//! The threads of a door: one single-threaded runtime each. A connection stays on its thread.

use std::thread::JoinHandle;

use crate::doors::Queue;

/// The running threads of one door.
pub(super) struct DoorThreads(Vec<JoinHandle<()>>);

impl DoorThreads {
    /// Starts one thread for each of `queues`, called `name` and a number, where `serve` serves the
    /// connections that come out of it until the door is closed.
    pub(super) fn start<S, F>(name: &str, queues: Vec<Queue>, serve: S) -> std::io::Result<Self>
    where
        S: Fn(Queue) -> F + Clone + Send + 'static,
        F: Future<Output = ()>,
    {
        let start = |(at, queue): (usize, Queue)| {
            let serve = serve.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let thread = std::thread::Builder::new().name(format!("{name}-{at}"));
            thread.spawn(move || runtime.block_on(serve(queue)))
        };
        Ok(Self(queues.into_iter().enumerate().map(start).collect::<std::io::Result<_>>()?))
    }

    /// Whether all have ended.
    pub(super) fn are_over(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }
}
