//! Ignore files, read with care: a tree may hold anything under their names.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, Match};

use super::errors::words;
use super::place::{self, resolve};
use super::search::open;
use crate::fs::FileKind;

const MAX_FILE_BYTES: u64 = 1 << 20;
/// Of all files that hold in one folder: compiled a pattern takes some kilobytes.
const MAX_PATTERNS: usize = 20_000;

/// The rules for one folder and those above it, kept up to date along a walk.
pub(super) struct Ignores {
    /// From the filesystem's root to the folder where the walk is.
    levels: Vec<Level>,
    left_out: Vec<(PathBuf, String)>,
}

struct Level {
    folder: PathBuf,
    is_repository: bool,
    ignore: Rules,
    git_ignore: Rules,
    exclude: Rules,
}

struct Rules {
    matcher: Gitignore,
    patterns: usize,
}

impl Ignores {
    /// Begins in `root`, which is resolved.
    pub(super) fn new(root: &Path) -> Self {
        let mut ignores = Self { levels: Vec::new(), left_out: Vec::new() };
        let mut folders: Vec<&Path> = root.ancestors().collect();
        folders.reverse();
        for folder in folders {
            ignores.enter(folder);
        }
        ignores
    }

    /// Ignore files whose rules do not hold, and why, since the last call.
    pub(super) fn take_left_out(&mut self) -> Vec<(PathBuf, String)> {
        std::mem::take(&mut self.left_out)
    }

    /// Whether an entry of the walk is searched. Called for a folder before its entries.
    pub(super) fn admits(&mut self, entry: &DirEntry) -> bool {
        let path = entry.path();
        let Some(folder) = path.parent() else { return true };
        // No pattern lets version control's own files in, as in git.
        if entry.depth() > 0 && entry.file_name() == ".git" {
            return false;
        }
        while self.levels.last().is_some_and(|level| !folder.starts_with(&level.folder)) {
            self.levels.pop();
        }
        if self.levels.last().is_none_or(|level| level.folder != folder) {
            self.enter(folder);
        }
        let is_folder = entry.file_type().is_some_and(|file_type| file_type.is_dir());
        match self.judge(path, is_folder) {
            Match::None => !entry.file_name().as_encoded_bytes().starts_with(b"."),
            Match::Ignore(()) => false,
            Match::Whitelist(()) => true,
        }
    }

    /// `.ignore` over `.gitignore` over `exclude`, of each the deepest that says something. Git's
    /// own do not reach beyond their repository.
    fn judge(&self, path: &Path, is_folder: bool) -> Match<()> {
        let of = |rules: &Rules| rules.matcher.matched(path, is_folder).map(|_| ());
        let deepest_first = || self.levels.iter().rev();
        let repository = self.levels.iter().rposition(|level| level.is_repository);
        let within = repository.map_or(0, |at| self.levels.len() - at);
        let first = |found: &Match<()>| !found.is_none();
        let ignore = deepest_first().map(|level| of(&level.ignore)).find(first);
        let git = || deepest_first().take(within).map(|level| of(&level.git_ignore)).find(first);
        let exclude = || deepest_first().take(within).map(|level| of(&level.exclude)).find(first);
        ignore.or_else(git).or_else(exclude).unwrap_or(Match::None)
    }

    fn enter(&mut self, folder: &Path) {
        let is_repository = fs::metadata(folder.join(".git")).is_ok();
        let repository = self.levels.iter().rfind(|level| level.is_repository);
        let repository = repository.map(|level| level.folder.clone());
        let inside = if is_repository { Some(folder.to_path_buf()) } else { repository };
        let none = || Rules { matcher: Gitignore::empty(), patterns: 0 };
        let mut level = Level {
            folder: folder.to_path_buf(),
            is_repository,
            ignore: none(),
            git_ignore: none(),
            exclude: none(),
        };
        let mut used = self.levels.iter().map(Level::patterns).sum();
        let limits = inside.as_deref().unwrap_or(folder);
        level.ignore = self.rules(folder, &folder.join(".ignore"), limits, &mut used);
        if inside.is_some() {
            level.git_ignore = self.rules(folder, &folder.join(".gitignore"), limits, &mut used);
        }
        if let Some(git) = is_repository.then(|| git_folder(folder)).flatten() {
            level.exclude = self.rules(folder, &git.join("info/exclude"), &git, &mut used);
        }
        self.levels.push(level);
    }

    /// The rules of `file` for what lies in `folder`; `used` counts their patterns.
    fn rules(&mut self, folder: &Path, file: &Path, inside: &Path, used: &mut usize) -> Rules {
        let read = content(file, inside).and_then(|content| {
            let mut builder = GitignoreBuilder::new(folder);
            let text = String::from_utf8_lossy(&content);
            let mut patterns = 0;
            for line in text.trim_start_matches('\u{feff}').lines() {
                patterns += usize::from(!(line.is_empty() || line.starts_with('#')));
                if *used + patterns > MAX_PATTERNS {
                    let problem = "together with the ignore files above it has more than";
                    return Err(format!("{problem} {MAX_PATTERNS} patterns"));
                }
                // A line that is no pattern says nothing, as in git.
                builder.add_line(None, line).ok();
            }
            let matcher = builder.build().map_err(|_| "its patterns are too large".to_owned())?;
            *used += patterns;
            Ok(Rules { matcher, patterns })
        });
        read.unwrap_or_else(|problem| {
            self.left_out.push((file.to_path_buf(), format!("its rules do not hold: {problem}")));
            Rules { matcher: Gitignore::empty(), patterns: 0 }
        })
    }
}

impl Level {
    fn patterns(&self) -> usize {
        self.ignore.patterns + self.git_ignore.patterns + self.exclude.patterns
    }
}

/// Where the repository of a folder that has a `.git` keeps what its work trees share.
fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if fs::metadata(&git).ok()?.is_dir() {
        return Some(git);
    }
    let first_line = |file: &Path, inside: &Path| {
        let content = content(file, inside).ok()?;
        Some(String::from_utf8_lossy(&content).lines().next()?.trim().to_owned())
    };
    let line = first_line(&git, folder)?;
    let own = folder.join(line.strip_prefix("gitdir:")?.trim());
    let shared = first_line(&own.join("commondir"), &own).map(|common| own.join(common));
    Some(shared.unwrap_or(own))
}

/// What a regular file holds, or one in `inside` that `file` is a link to; nothing when there is
/// none. Never waits for a writer, never reads more than the limit.
fn content(file: &Path, inside: &Path) -> Result<Vec<u8>, String> {
    let file_type = match fs::symlink_metadata(file) {
        Ok(metadata) => metadata.file_type(),
        // Also where the folder may not be looked into: nothing is known to be there.
        Err(error) if is_absence(error.kind()) => return Ok(Vec::new()),
        Err(error) => return Err(words(&error)),
    };
    let mut real = file.to_path_buf();
    if file_type.is_symlink() {
        let text = file.to_str().ok_or("a link whose path is not UTF-8")?;
        let target = resolve(Path::new("/"), text).map_err(|error| error.to_string())?;
        match target.place.kind {
            None => return Ok(Vec::new()),
            Some(FileKind::File) if target.place.real.starts_with(inside) => {}
            Some(FileKind::File) => return Err("a link out of the repository".to_owned()),
            Some(_) => return Err(format!("a link to a {}", target.words)),
        }
        real = target.place.real;
    } else if !file_type.is_file() {
        return Err(format!("a {}", place::words_for(file_type)));
    }
    let opened = open(&real).map_err(|error| words(&error))?.ok_or("not a regular file")?;
    let mut content = Vec::new();
    let read = opened.take(MAX_FILE_BYTES + 1).read_to_end(&mut content);
    if read.map_err(|error| words(&error))? as u64 > MAX_FILE_BYTES {
        return Err(format!("larger than {} MiB", MAX_FILE_BYTES >> 20));
    }
    Ok(content)
}

fn is_absence(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(kind, NotFound | NotADirectory | PermissionDenied)
}
