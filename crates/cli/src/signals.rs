//! Ctrl-C and the requests to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use reins_world::CancelToken;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::AbortHandle;

use crate::args::Output;
use crate::exit::{CliError, INTERRUPTED, TERMINATED};
use crate::{debug, run};

/// Turns signals into cancellation. The first cancels the turn, the second ends the process.
pub(crate) struct Signals {
    /// Fires at the first signal.
    pub(crate) cancel: CancelToken,
    code: Arc<AtomicU8>,
    task: AbortHandle,
}

impl Signals {
    /// Starts listening. The second signal leaves its result in this form.
    pub(crate) fn listen(output: Output) -> Result<Self, CliError> {
        let on = |kind: SignalKind| -> Result<Signal, CliError> {
            signal(kind).map_err(|e| CliError::internal(format!("listening for signals: {e}")))
        };
        let mut interrupt = on(SignalKind::interrupt())?;
        let mut terminate = on(SignalKind::terminate())?;
        let mut hangup = on(SignalKind::hangup())?;
        let (cancel, code) = (CancelToken::new(), Arc::new(AtomicU8::new(0)));
        let (fire, set) = (cancel.clone(), code.clone());
        let began = Instant::now();
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
                    let code = run::without_turn(output, &asked_to_end(now), began.elapsed());
                    log::warn!("exit code {code} at the second signal");
                    debug::flush();
                    std::process::exit(i32::from(code));
                }
                log::info!("asked to end by a signal: exit code {now}");
                fire.cancel();
            }
        });
        Ok(Self { cancel, code, task: task.abort_handle() })
    }

    /// Does the work unless a signal comes before its end.
    pub(crate) async fn before<T>(
        &self,
        work: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        tokio::select! {
            done = work => done,
            () = self.cancel.cancelled() => {
                Err(asked_to_end(self.code().unwrap_or(INTERRUPTED)))
            }
        }
    }

    /// The exit code that the first signal asks for.
    pub(crate) fn code(&self) -> Option<u8> {
        Some(self.code.load(Ordering::SeqCst)).filter(|code| *code != 0)
    }
}

/// Makes writing beyond a limit on file sizes an error, which the store reports, instead of the end
/// of the process. Children begin with the default again.
pub(crate) fn outlive_file_limits() -> Result<(), CliError> {
    let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    // The handler stays when the listener goes.
    signal(kind).map(drop).map_err(|e| CliError::internal(format!("listening for signals: {e}")))
}

/// What a signal with this exit code asked for.
pub(crate) fn asked_to_end(code: u8) -> CliError {
    match code {
        TERMINATED => CliError::new(code, "TERMINATED", "asked to end"),
        _ => CliError::new(code, "INTERRUPTED", "interrupted"),
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.task.abort();
    }
}
