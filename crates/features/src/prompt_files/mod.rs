//! Prompts that people keep as files: `NAME.md` in a folder is called `/NAME`.

mod template;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reins_agent::{
    Arguments, Command, CommandError, CommandInfo, CommandList, CommandSource, is_command_name,
};
use reins_kernel::{BoxFuture, Mount, MountError, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{FileBytes, FileKind, Fs, FsError, GlobQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use template::Template;

/// The row `prompts`.
struct PromptFiles;

/// The plugin of this folder.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<PromptFiles>();

/// Prompts of your own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The folder, an absolute path. `NAME.md` in it is called `/NAME`, `DIR/NAME.md` is called
    /// `/DIR:NAME`. It need not exist.
    folder: String,
    /// Larger files are refused, in bytes.
    #[serde(default = "max_bytes")]
    #[schemars(range(min = 1, max = MAX_BYTES))]
    max_bytes: u64,
}

fn max_bytes() -> u64 {
    256 * 1024
}

/// The most that may be configured: a prompt must fit into a record of the log.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The longest name that is looked for, in bytes; it becomes a path.
const MAX_NAME_BYTES: usize = 200;
/// Files that a list holds at most.
const MAX_FILES: usize = 10_000;
/// After this time a list holds what was found.
const LIST_WITHIN: Duration = Duration::from_secs(5);

impl Plugin for PromptFiles {
    const NAME: &'static str = "prompt-files";
    const SUMMARY: &'static str = "Prompts kept as Markdown files, called by `/name`.";
    const RELOAD: Reload = Reload::Live;
    type Config = Config;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let folder = PathBuf::from(config.folder);
        if !folder.is_absolute() {
            let problem = format!("must be an absolute path, found `{}`", folder.display());
            return Err(MountError::new(problem).at("folder"));
        }
        if config.max_bytes == 0 || config.max_bytes > MAX_BYTES {
            return Err(MountError::new(format!("must be 1 to {MAX_BYTES}")).at("max_bytes"));
        }
        let source = Folder { files: mount.need()?, folder, max_bytes: config.max_bytes };
        let row = mount.row().to_owned();
        mount.add::<dyn CommandSource>(&row, Arc::new(source))
    }
}

struct Folder {
    files: Arc<dyn Fs>,
    folder: PathBuf,
    max_bytes: u64,
}

/// A template under its name.
struct PromptFile {
    info: CommandInfo,
    template: Template,
}

impl Command for PromptFile {
    fn info(&self) -> &CommandInfo {
        &self.info
    }

    fn expand(&self, arguments: &Arguments) -> Result<String, CommandError> {
        self.template.expand(&self.info.name, arguments)
    }
}

impl CommandSource for Folder {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn list(&self) -> BoxFuture<'_, Result<CommandList, CommandError>> {
        Box::pin(self.names())
    }

    fn find<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn Command>>, CommandError>> {
        Box::pin(async move {
            let found = self.read(name).await?;
            Ok(found.map(|found| Arc::new(found) as Arc<dyn Command>))
        })
    }
}

impl Folder {
    /// A walk: what is behind a link to a folder is not in the list, but can be called.
    async fn names(&self) -> Result<CommandList, CommandError> {
        let query = GlobQuery {
            pattern: "**/*.md".to_owned(),
            root: self.folder.clone(),
            max_files: MAX_FILES,
            time_limit: LIST_WITHIN,
        };
        let hits = match self.files.glob(query).await {
            Ok(hits) => hits,
            Err(FsError::NotFound { .. }) => return Ok(CommandList::default()),
            Err(error) => return Err(CommandError::new(error.to_string())),
        };
        let mut list = CommandList {
            incomplete: hits.incomplete.is_some() || hits.total > hits.files.len() as u64,
            ..CommandList::default()
        };
        for file in hits.files {
            match name_of(&self.folder, &file) {
                Some(name) => list.names.push(name),
                None => list.unusable.push(file),
            }
        }
        list.names.sort();
        list.unusable.sort();
        Ok(list)
    }

    async fn read(&self, name: &str) -> Result<Option<PromptFile>, CommandError> {
        if name.len() > MAX_NAME_BYTES || !is_command_name(name) {
            return Ok(None);
        }
        let below = format!("{}.md", name.replace(':', "/"));
        let file = self.folder.join(&below);
        let read = self.files.read(Path::new("/"), &path_text(&file)?, self.max_bytes).await;
        let FileBytes { bytes, hash, .. } = match read {
            Ok(read) => read,
            Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => {
                return self.absent(&file).await.map(|()| None);
            }
            Err(error) => return Err(unreadable(&error)),
        };
        let template = Template::parse(&file, text_of(&file, &bytes)?)?;
        let info = CommandInfo {
            name: name.to_owned(),
            description: template.description.clone(),
            argument_hint: template.argument_hint.clone(),
            file: Some(file),
            sha256: Some(hash.to_string()),
        };
        Ok(Some(PromptFile { info, template }))
    }

    /// A file that is not there is no mistake, unless a link on the way to it leads nowhere or the
    /// folder of the row is none.
    async fn absent(&self, file: &Path) -> Result<(), CommandError> {
        let Some(parent) = self.folder.parent() else { return Ok(()) };
        let mut above = self.resolve(parent).await?;
        let mut shown = parent.to_owned();
        let names = file.strip_prefix(parent).unwrap_or(file);
        for name in names {
            match above.1 {
                Some(FileKind::Directory) => {}
                Some(_) if shown == self.folder => {
                    let problem = FsError::NotDirectory { path: shown };
                    return Err(CommandError::new(problem.to_string()));
                }
                _ => return Ok(()),
            }
            shown.push(name);
            let here = self.resolve(&shown).await?;
            if here.1.is_none() && here.0 != above.0.join(name) {
                let (link, target) = (shown.display(), here.0.display());
                return Err(CommandError::new(format!(
                    "`{link}` is a link to `{target}`, which does not exist"
                ))
                .with_hint("correct the link, or remove it"));
            }
            above = here;
        }
        Ok(())
    }

    /// The real path, and what is there.
    async fn resolve(&self, path: &Path) -> Result<(PathBuf, Option<FileKind>), CommandError> {
        match self.files.resolve(Path::new("/"), &path_text(path)?).await {
            Ok(place) => Ok((place.real, place.kind)),
            // Something above it is a file.
            Err(FsError::NotDirectory { path }) => Ok((path, Some(FileKind::File))),
            Err(error) => Err(unreadable(&error)),
        }
    }
}

fn unreadable(error: &FsError) -> CommandError {
    let hint = match error {
        FsError::TooLarge { .. } => "shorten it, or raise `max_bytes` of the row",
        _ => "correct or remove it",
    };
    CommandError::new(error.to_string()).with_hint(hint)
}

/// What a file is called by; `None` when its name cannot be typed.
fn name_of(folder: &Path, file: &Path) -> Option<String> {
    let below = file.strip_prefix(folder).ok()?.to_str()?.strip_suffix(".md")?;
    let name = below.replace('/', ":");
    (!below.contains(':') && is_command_name(&name)).then_some(name)
}

fn path_text(path: &Path) -> Result<String, CommandError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CommandError::new(format!("the path `{}` is not UTF-8", path.display())))
}

/// The bytes as text; a NUL byte means that it is none.
fn text_of<'a>(file: &Path, bytes: &'a [u8]) -> Result<&'a str, CommandError> {
    let problem = match std::str::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => return Ok(text),
            Some(at) => (at, "NUL byte"),
        },
        Err(error) => (error.valid_up_to(), "invalid byte"),
    };
    let (at, what) = problem;
    let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
    let problem = format!("{what} at offset {at} (line {line})");
    let error = FsError::NotText { path: file.to_owned(), problem };
    Err(CommandError::new(error.to_string()).with_hint("save the file as UTF-8"))
}
