//! The one task that speaks with the host.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use reins_sandbox::{CommandSpec, HostClient, Report, SandboxError};
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::process::ProcessError;

/// A command has at most three reports.
pub(super) const REPORTS: usize = 4;

pub(super) struct Spawn {
    pub(super) command: CommandSpec,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// Answered once, or dropped when the host is gone.
    pub(super) answer: oneshot::Sender<Result<Accepted, SandboxError>>,
    pub(super) reports: mpsc::Sender<Report>,
}

/// The command's name at the host, and the host's process id.
pub(super) struct Accepted {
    pub(super) id: u64,
    pub(super) host_pid: u32,
}

pub(super) enum Ask {
    Spawn(Box<Spawn>),
    Kill { id: u64, grace_ms: u32 },
}

pub(super) struct Owner {
    host: AsyncFd<HostClient>,
    asks: mpsc::Receiver<Ask>,
    /// An ask that the host's queue had no room for.
    refused: Option<Ask>,
    routes: HashMap<u64, mpsc::Sender<Report>>,
    next_id: u64,
    stop: CancellationToken,
}

pub(super) fn gone() -> ProcessError {
    let problem = "it ended, and with it every process that it ran; the next command starts anew";
    ProcessError::Supervisor(problem.to_owned())
}

impl Owner {
    pub(super) fn new(
        host: HostClient,
        asks: mpsc::Receiver<Ask>,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        #[expect(deprecated, reason = "its successor is unsafe; `HostClient` keeps its promise")]
        let host = AsyncFd::new(host)?;
        Ok(Self { host, asks, refused: None, routes: HashMap::new(), next_id: 1, stop })
    }

    /// Until the host is gone or everything stops. Then all that ran has ended.
    pub(super) async fn serve(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.speak() => {}
        }
        // In this order, so that who learns of the end can start a new host.
        self.asks.close();
        drop(self.routes);
        let host = self.host.into_inner();
        let closed = tokio::task::spawn_blocking(move || host.close());
        // How the host ended changes nothing for anybody: it and its processes are gone.
        closed.await.map(Result::ok).ok();
    }

    async fn speak(&mut self) {
        loop {
            let waits = self.refused.is_some();
            tokio::select! {
                readable = self.host.readable() => {
                    let Ok(mut readable) = readable else { return };
                    if route(readable.get_inner(), &mut self.routes).is_break() {
                        return;
                    }
                    readable.clear_ready();
                }
                writable = self.host.writable(), if waits => {
                    let Ok(mut writable) = writable else { return };
                    // Cleared before the try: room that comes later is announced again.
                    writable.clear_ready();
                    if let Some(ask) = self.refused.take() && self.pass_on(ask).is_break() {
                        return;
                    }
                }
                Some(ask) = self.asks.recv(), if !waits => {
                    if self.pass_on(ask).is_break() {
                        return;
                    }
                }
            }
        }
    }

    fn pass_on(&mut self, ask: Ask) -> ControlFlow<()> {
        match ask {
            Ask::Kill { id, grace_ms } => {
                match self.host.get_ref().kill(id, grace_ms) {
                    Err(SandboxError::Full) => self.refused = Some(ask),
                    Err(_) => return ControlFlow::Break(()),
                    Ok(()) => {}
                }
                ControlFlow::Continue(())
            }
            Ask::Spawn(spawn) => self.spawn(spawn),
        }
    }

    fn spawn(&mut self, spawn: Box<Spawn>) -> ControlFlow<()> {
        let id = self.next_id;
        let host = self.host.get_ref();
        let passed = host.spawn(id, &spawn.command, &spawn.stdout, &spawn.stderr);
        match passed {
            Err(SandboxError::Full) => self.refused = Some(Ask::Spawn(spawn)),
            Err(SandboxError::Gone) => return ControlFlow::Break(()),
            Err(error) => {
                // Nobody waits any more: then there is nobody to tell.
                spawn.answer.send(Err(error)).ok();
            }
            Ok(()) => {
                self.next_id += 1;
                self.routes.insert(id, spawn.reports);
                let accepted = Accepted { id, host_pid: host.pid() };
                if spawn.answer.send(Ok(accepted)).is_err() {
                    return self.pass_on(Ask::Kill { id, grace_ms: 0 });
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Hands reports on until there are none now.
fn route(host: &HostClient, routes: &mut HashMap<u64, mpsc::Sender<Report>>) -> ControlFlow<()> {
    loop {
        let report = match host.try_recv() {
            Ok(Some(report)) => report,
            Ok(None) => return ControlFlow::Continue(()),
            Err(_) => return ControlFlow::Break(()),
        };
        let id = report.id();
        let is_last = report.is_last();
        if let Some(reports) = routes.get(&id) {
            // There is room for all that can come; a command that is not waited for needs none.
            reports.try_send(report).ok();
        }
        if is_last {
            routes.remove(&id);
        }
    }
}
