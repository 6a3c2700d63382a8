//! `reins session`

mod archive;
mod args;
mod changes;
mod diff;
mod export;
mod fork;
mod import;
mod list;
mod meter;
mod moved;
mod page;
mod path;
mod remove;
mod repair;
mod show;
mod tell;
mod verify;
mod words;

use reins_host::{Host, SessionView};
use reins_schema::SessionId;
use reins_session::KnownTypes;
use reins_store::Store;

use crate::args::Output;
use crate::exit::CliError;
use crate::signals::Signals;
use crate::start::Start;

pub(crate) use args::SessionCommand;
pub(crate) use words::{RecoveredObject, recovered};

pub(crate) async fn session(start: &Start, command: SessionCommand) -> Result<u8, CliError> {
    let signals = Signals::listen(Output::Text)?;
    let host = signals.before(start.host(command.compose(), None)).await?;
    let sessions = Sessions { start, host: &host };
    let done = signals.before(sessions.run(command)).await;
    host.stop().await;
    done
}

/// What the commands work on.
struct Sessions<'a> {
    start: &'a Start,
    host: &'a Host,
}

impl Sessions<'_> {
    async fn run(&self, command: SessionCommand) -> Result<u8, CliError> {
        match command {
            SessionCommand::List(args) => list::list(self, &args).await,
            SessionCommand::Show(args) => show::show(self, &args).await,
            SessionCommand::Diff(args) => diff::diff(self, &args).await,
            SessionCommand::Fork(args) => fork::fork(self, &args).await,
            SessionCommand::Verify(args) => verify::verify(self, &args).await,
            SessionCommand::Repair(args) => repair::repair(self, &args).await,
            SessionCommand::Export(args) => export::export(self, &args).await,
            SessionCommand::Import(args) => import::import(self, &args).await,
            SessionCommand::Move(args) => moved::move_to(self, &args).await,
            SessionCommand::Path(args) => path::path(self, &args).await,
            SessionCommand::Remove(args) => remove::remove(self, &args).await,
            SessionCommand::Archive(args) => archive::archive(self, &args).await,
        }
    }

    fn store(&self) -> &dyn Store {
        self.host.store().as_ref()
    }

    /// The event types of the rows in force.
    async fn known(&self) -> KnownTypes {
        reins_agent::known_types(&self.host.scope().await)
    }

    /// The session whose id begins like this.
    async fn find(&self, typed: &str) -> Result<SessionId, CliError> {
        Ok(self.store().find(typed).await?)
    }

    /// A look at a session.
    async fn view(&self, id: &SessionId) -> Result<SessionView, CliError> {
        Ok(SessionView::open(self.store(), id, self.known().await).await?)
    }
}
