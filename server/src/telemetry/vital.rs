//! Threads without which the process only seems to serve.

/// Runs `work` on a thread of its own that must not end by a panic: where it does, the process
/// ends with it, for whoever watches over it to start it again, rather than going on with a
/// catalogue that no longer changes or exposures that are no longer kept.
///
/// # Errors
/// When no thread can be had.
pub fn spawn_vital(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let thread = name.to_owned();
    std::thread::Builder::new().name(thread.clone()).spawn(move || {
        // Nothing of what it leaves behind is used any more.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        if done.is_err() {
            tracing::error!(thread, "a vital thread has panicked: the process ends");
            std::process::abort();
        }
    })
}
