//! Ctrl-C and the requests to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use reins_world::CancelToken;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;

use crate::exit::{CliError, INTERRUPTED, TERMINATED};

/// Turns signals into cancellation. The first cancels the turn, the second ends the process.
pub(crate) struct Signals {
    /// Fires at the first signal.
    pub(crate) cancel: CancelToken,
    code: Arc<AtomicU8>,
    task: AbortHandle,
}

impl Signals {
    /// Starts listening.
    pub(crate) fn listen() -> Result<Self, CliError> {
        let on = |kind: SignalKind| -> Result<Signal, CliError> {
            signal(kind).map_err(|e| CliError::internal(format!("listening for signals: {e}")))
        };
        let mut interrupt = on(SignalKind::interrupt())?;
        let mut terminate = on(SignalKind::terminate())?;
        let mut hangup = on(SignalKind::hangup())?;
        let (cancel, code) = (CancelToken::new(), Arc::new(AtomicU8::new(0)));
        let (fire, set) = (cancel.clone(), code.clone());
        #[expect(clippy::disallowed_methods, reason = "aborted when `Signals` is dropped")]
        let task = tokio::spawn(async move {
            loop {
                let now = tokio::select! {
                    _ = interrupt.recv() => INTERRUPTED,
                    _ = terminate.recv() => TERMINATED,
                    _ = hangup.recv() => TERMINATED,
                };
                if set.swap(now, Ordering::SeqCst) != 0 {
                    // The supervisor ends all commands when this process is gone.
                    std::process::exit(i32::from(now));
                }
                fire.cancel();
            }
        });
        Ok(Self { cancel, code, task: task.abort_handle() })
    }

    /// The exit code that the first signal asks for.
    pub(crate) fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::SeqCst)).filter(|code| *code != 0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.task.abort();
    }
}
