//! What a project brings along in its folder `.reins`.

use std::path::{Path, PathBuf};

/// The nearest of each; a folder that is there without them does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProjectFiles {
    /// `.reins/settings.toml`
    pub(crate) settings: Option<PathBuf>,
    /// The folder `.reins/prompts`.
    pub(crate) prompts: Option<PathBuf>,
}

/// Looks into `.reins` of `cwd` and of the folders above it up to the root of its repository, or of
/// `cwd` alone when it is in none. A folder that is `home` belongs to the user, not to a project.
pub(crate) fn project_files(cwd: &Path, home: &Path) -> ProjectFiles {
    let is_root = |folder: &Path| folder.join(".git").symlink_metadata().is_ok();
    let folders: Vec<&Path> = cwd.ancestors().collect();
    let last = folders.iter().position(|folder| is_root(folder)).unwrap_or(0);
    let home = home.canonicalize().ok();
    let is_home = |folder: &Path| home.is_some() && folder.canonicalize().ok() == home;
    let mut files = ProjectFiles::default();
    for folder in folders.iter().take(last + 1).map(|folder| folder.join(".reins")) {
        if !folder.is_dir() || is_home(&folder) {
            continue;
        }
        let (settings, prompts) = (folder.join("settings.toml"), folder.join("prompts"));
        files.settings = files.settings.or_else(|| settings.is_file().then_some(settings));
        files.prompts = files.prompts.or_else(|| prompts.is_dir().then_some(prompts));
    }
    files
}

impl ProjectFiles {
    /// A line that says what is left aside; none when there is nothing.
    pub(crate) fn unread(&self) -> Option<String> {
        let found: Vec<String> = [&self.settings, &self.prompts]
            .into_iter()
            .flatten()
            .map(|path| format!("`{}`", path.display()))
            .collect();
        let are = match found.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        let found = found.join(" and ");
        Some(format!("{found} {are} not read: there is no way yet to say that you trust a project"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    fn folders(root: &Path, below: &[&str]) {
        for folder in below {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
    }

    #[test]
    fn the_nearest_of_each_up_to_the_root_of_the_repository() {
        let root = tempfile::TempDir::new().unwrap();
        let root = root.path();
        let home = root.join("home");
        folders(root, &[".reins/prompts", "repo/.git", "repo/a/.reins/prompts", "repo/a/b/c"]);
        folders(root, &["repo/.reins/prompts", "repo/a/b/.reins", "plain/sub", "plain/.reins"]);
        std::fs::File::create(root.join("repo/.reins/settings.toml")).unwrap();
        let of = |cwd: &str| project_files(&root.join(cwd), &home);
        let path = |below: &str| Some(root.join(below));

        let deep = of("repo/a/b/c");
        assert_eq!(deep.prompts, path("repo/a/.reins/prompts"));
        assert_eq!(deep.settings, path("repo/.reins/settings.toml"));
        assert_eq!(of("repo").prompts, path("repo/.reins/prompts"));
        assert_eq!(of("plain/sub"), ProjectFiles::default(), "in no repository, cwd alone");
        assert_eq!(of("").prompts, path(".reins/prompts"));
        let own = project_files(&root.join("repo"), &root.join("repo/a/../.reins"));
        assert_eq!(own, ProjectFiles::default(), "the home is no project's");
    }

    #[test]
    fn what_is_left_aside_is_said_in_one_line() {
        assert_eq!(ProjectFiles::default().unread(), None);
        let mut files = ProjectFiles { prompts: Some("/p".into()), ..ProjectFiles::default() };
        assert!(files.unread().unwrap().starts_with("`/p` is not read: "));
        files.settings = Some("/s".into());
        assert!(files.unread().unwrap().starts_with("`/s` and `/p` are not read: "));
    }
}
