//! What may be typed after `reins explain`.

use clap::{Args, Subcommand};

use crate::args::ComposeArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    #[command(flatten)]
    OfAgents(OfAgents),
    /// A profile: its bundles and the rows below your settings.
    Profile {
        /// The profile's name; all profiles if not given.
        name: Option<String>,
    },
}

/// What agents of a preset have.
#[derive(Debug, Subcommand)]
pub(crate) enum OfAgents {
    /// Where a tool comes from, what runs around its calls, and what the model is told of it.
    Tool {
        /// The tool's name; all tools if not given.
        name: Option<String>,
        /// Also chains without layers, and the schema of the parameters.
        #[arg(long, requires = "name")]
        full: bool,
        #[command(flatten)]
        of: ExplainArgs,
    },
    /// What a chain is for, when it runs, and the layers around it.
    Chain {
        /// The chain's name; all chains if not given.
        name: Option<String>,
        #[command(flatten)]
        of: ExplainArgs,
    },
    /// Where a row comes from, what it contributes, and its fields.
    Row {
        /// The row's id; all rows if not given.
        id: Option<String>,
        #[command(flatten)]
        of: ExplainArgs,
    },
    /// Where a value of a row comes from, what it means, and how it is changed.
    Field {
        /// The row's id and the path of the field; all fields if not given.
        #[arg(value_name = "ROW.FIELD")]
        field: Option<String>,
        #[command(flatten)]
        of: ExplainArgs,
    },
    /// An agent preset: its rows, and what they hide and take the place of.
    Preset {
        /// The preset's name; all presets if not given.
        name: Option<String>,
        #[command(flatten)]
        compose: ComposeArgs,
    },
    /// The system prompt and the facts for the current directory, with the rows behind them.
    Prompt {
        /// Only this section or fact.
        section: Option<String>,
        /// Print the text that the model gets and nothing else.
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        of: ExplainArgs,
    },
}

/// For whom it is explained.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The agent preset; that of new sessions if not given.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    #[command(flatten)]
    pub(crate) compose: ComposeArgs,
}

impl OfAgents {
    /// Where it is looked for; no preset = that of new sessions.
    pub(super) fn scope(&self) -> (&ComposeArgs, Option<&str>) {
        match self {
            Self::Tool { of, .. }
            | Self::Chain { of, .. }
            | Self::Row { of, .. }
            | Self::Field { of, .. }
            | Self::Prompt { of, .. } => (&of.compose, of.preset.as_deref()),
            Self::Preset { name, compose } => (compose, name.as_deref()),
        }
    }
}
