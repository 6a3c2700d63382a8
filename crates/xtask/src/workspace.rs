use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use syn::{Item, ItemMod, Meta};

use crate::finding::Finding;
use crate::source::{Source, is_test_condition};
use crate::tidy::TidyError;

/// The part before the crate's own name in every package name.
const PREFIX: &str = "reins-";
/// Folders whose `.rs` files are data for tests and compiled by nothing.
const DATA_FOLDERS: [&str; 2] = ["fixtures", "target"];

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) crates: Vec<Crate>,
}

pub(crate) struct Crate {
    /// Name without the prefix; also its folder's.
    pub(crate) name: String,
    /// Folder below the workspace root.
    pub(crate) dir: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    /// Every file that a target reaches, keyed by its path below the workspace root.
    pub(crate) sources: BTreeMap<PathBuf, Source>,
}

/// A dependency on another crate of the workspace.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Tests only.
    pub(crate) dev: bool,
}

impl Crate {
    pub(crate) fn source(&self, below: &str) -> Option<&Source> {
        self.sources.get(&self.dir.join(below))
    }
}

/// Reads all crates named by `metadata`; files that do not parse or that nothing reaches are
/// findings.
pub(crate) fn load(metadata: &Value, findings: &mut Vec<Finding>) -> Result<Workspace, TidyError> {
    let root = PathBuf::from(text(metadata, "workspace_root")?);
    let mut crates = Vec::new();
    for package in list(metadata, "packages")? {
        crates.push(load_crate(&root, package, findings)?);
    }
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Workspace { root, crates })
}

fn load_crate(
    root: &Path,
    package: &Value,
    findings: &mut Vec<Finding>,
) -> Result<Crate, TidyError> {
    let package_name = text(package, "name")?;
    let manifest = below(root, Path::new(text(package, "manifest_path")?));
    let dir = manifest.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = package_name.strip_prefix(PREFIX).unwrap_or(package_name).to_owned();
    if dir != Path::new("crates").join(&name) || !package_name.starts_with(PREFIX) {
        let message = format!("package `{package_name}` here; name it `{PREFIX}<folder>`");
        findings.push(Finding::new(&manifest, 0, "crate-name", message));
    }
    let mut dependencies = Vec::new();
    for dependency in list(package, "dependencies")? {
        let name = text(dependency, "name")?;
        let internal = dependency.get("path").is_some_and(Value::is_string);
        if let (true, Some(name)) = (internal, name.strip_prefix(PREFIX)) {
            let dev = dependency.get("kind").and_then(Value::as_str) == Some("dev");
            dependencies.push(Dependency { name: name.to_owned(), dev });
        }
    }
    let mut walk = Walk { root, sources: BTreeMap::new(), findings };
    for target in list(package, "targets")? {
        let kinds = list(target, "kind")?;
        let test =
            kinds.iter().any(|kind| matches!(kind.as_str(), Some("test" | "bench" | "example")));
        let path = PathBuf::from(text(target, "src_path")?);
        let children = path.parent().unwrap_or(root).to_path_buf();
        walk.file(&path, &children, test)?;
    }
    let sources = walk.sources;
    let mut files = Vec::new();
    rust_files(&root.join(&dir), &mut files)?;
    for file in files {
        let path = below(root, &file);
        if !sources.contains_key(&path) && !findings.iter().any(|known| known.path == path) {
            findings.push(unreached(path));
        }
    }
    Ok(Crate { name, dir, dependencies, sources })
}

fn unreached(path: PathBuf) -> Finding {
    let is_suite = path.parent().is_some_and(|parent| parent.ends_with("tests/it"));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let message = if is_suite {
        format!("these tests never run; add `mod {stem};` to main.rs beside it")
    } else {
        "no `mod` reaches this file; list it in its parent or delete it".to_owned()
    };
    Finding::new(path, 0, "dead-file", message)
}

struct Walk<'a> {
    root: &'a Path,
    sources: BTreeMap<PathBuf, Source>,
    findings: &'a mut Vec<Finding>,
}

impl Walk<'_> {
    /// Reads a file and the modules it declares, which live in `children`.
    fn file(&mut self, path: &Path, children: &Path, test: bool) -> Result<(), TidyError> {
        let key = below(self.root, path);
        if let Some(known) = self.sources.get_mut(&key) {
            known.test &= test;
            return Ok(());
        }
        let text = read(path)?;
        let source = match Source::parse(key.clone(), text, test) {
            Ok(source) => source,
            Err((line, message)) => {
                let message = format!("does not parse ({message}); repair it");
                self.findings.push(Finding::new(key, line, "syntax", message));
                return Ok(());
            }
        };
        let declared = declarations(&source.syntax.items, children, test);
        self.sources.insert(key, source);
        for module in declared {
            self.module(path, module)?;
        }
        Ok(())
    }

    fn module(&mut self, parent: &Path, module: Declaration) -> Result<(), TidyError> {
        if let Some(explicit) = module.path {
            let path = parent.parent().unwrap_or(self.root).join(explicit);
            let children = path.parent().unwrap_or(self.root).to_path_buf();
            return self.file(&path, &children, module.test);
        }
        let own = module.folder.join(&module.name);
        let flat = own.with_extension("rs");
        // A missing file is the compiler's to report.
        if flat.is_file() {
            self.file(&flat, &own, module.test)
        } else if own.join("mod.rs").is_file() {
            self.file(&own.join("mod.rs"), &own, module.test)
        } else {
            Ok(())
        }
    }
}

/// A `mod name;` that names a file.
struct Declaration {
    name: String,
    folder: PathBuf,
    path: Option<String>,
    test: bool,
}

fn declarations(items: &[Item], folder: &Path, test: bool) -> Vec<Declaration> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let test = test || is_test_module(module);
        match &module.content {
            Some((_, items)) => found.extend(declarations(items, &folder.join(&name), test)),
            None => {
                let (path, folder) = (path_attribute(module), folder.to_path_buf());
                found.push(Declaration { name, folder, path, test });
            }
        }
    }
    found
}

fn is_test_module(module: &ItemMod) -> bool {
    module.attrs.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => is_test_condition(list.tokens.clone()),
        _ => false,
    })
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), TidyError> {
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !DATA_FOLDERS.contains(&name.as_str()) && !name.starts_with('.') {
                rust_files(&path, found)?;
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// The entries of a folder, sorted.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>, TidyError> {
    let failed = |source| TidyError::Read { path: folder.to_path_buf(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

pub(crate) fn read(path: &Path) -> Result<String, TidyError> {
    fs::read_to_string(path).map_err(|source| TidyError::Read { path: path.to_path_buf(), source })
}

fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_path_buf()
}

fn text<'a>(value: &'a Value, key: &'static str) -> Result<&'a str, TidyError> {
    value.get(key).and_then(Value::as_str).ok_or(TidyError::MetadataKey { key })
}

fn list<'a>(value: &'a Value, key: &'static str) -> Result<&'a [Value], TidyError> {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or(TidyError::MetadataKey { key })
}
