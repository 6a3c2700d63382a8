//! `reins config set` and `reins config unset`

use std::path::Path;

use reins_kernel::{Catalog, References, Reload, Row, RowError, compose, nearest};
use toml::Value;

use super::file::{self, Content, Held};
use super::judge::{Change, Judge, quoted};
use super::key::{self, Key, What};
use super::settings::{Edit, InForce, Item, Settings, config_of};
use super::text::{self, Segment};
use super::{model, value};
use crate::args::{ComposeArgs, ProfileArgs, SetArgs, UnsetArgs};
use crate::exit::{self, CliError};
use crate::start::{Start, row_errors};
use crate::terminal;

/// Everything that a change is made with. The settings are locked as long as it lives.
struct Desk<'a> {
    start: &'a Start,
    args: ComposeArgs,
    catalog: Catalog,
    /// The rows of the layers below the settings.
    below: Vec<Row>,
    content: Content,
    settings: Settings,
    _held: Held,
}

/// A change that is not checked yet.
struct Draft {
    after: Settings,
    /// The place in the new text, or in the old one for what went.
    line: u32,
    /// What changed, for people.
    says: String,
}

pub(super) async fn set(start: &Start, args: &SetArgs) -> Result<u8, CliError> {
    file::make_home(&start.home)?;
    let desk = Desk::open(start, &args.profile).await?;
    let key = desk.key(&args.key)?;
    let Some(before) = desk.settings.in_force(&key.row, desk.row(&key.row)) else {
        return Err(key::unknown_row(&key.row, &desk.rows()));
    };
    let (path, candidates) = match &key.what {
        What::Row => {
            let error = CliError::usage(format!("`{}` is a row; name a field of it", args.key));
            return Err(
                error.with_hint(format!("`{}.disabled`, or a field of its `config`", key.row))
            );
        }
        What::Disabled if !["true", "false"].contains(&args.value.trim()) => {
            return Err(CliError::usage(format!("`{}` must be true or false", args.key)));
        }
        What::Disabled => (None, vec![args.value.trim().to_owned()]),
        What::Field(path) => (Some(path), value::candidates(&args.value)),
    };
    let mut refused: Vec<Vec<RowError>> = Vec::new();
    for candidate in &candidates {
        let edit = match path {
            Some(path) => desk.put_field(&key, path, candidate)?,
            None => desk.put_disabled(&key.row, candidate),
        };
        let after = desk.settings.edited(&[edit]).map_err(|refused| refused.of(&args.key))?;
        let draft = desk.draft(&key, Some(&before), after)?;
        match desk.publish(&key, draft).await? {
            Ok(()) => return Ok(exit::COMPLETED),
            Err(errors) => refused.push(errors),
        }
    }
    let second = refused.pop();
    let (first, second) = match refused.pop() {
        Some(first) => (first, second),
        None => (second.unwrap_or_default(), None),
    };
    Err(desk.refusal(&key.row, value::sensible(first, second)))
}

pub(super) async fn unset(start: &Start, args: &UnsetArgs) -> Result<u8, CliError> {
    if !start.home.exists() {
        return Err(CliError::usage(format!("`{}`: there is nothing to unset", args.key)));
    }
    let desk = Desk::open(start, &args.profile).await?;
    let key = desk.key(&args.key)?;
    let below = desk.row(&key.row);
    let items = desk.settings.items(&key.row);
    if items.is_empty() && below.is_none() {
        return Err(key::unknown_row(&key.row, &desk.rows()));
    }
    let edits = match &key.what {
        What::Row => items.iter().rev().map(|item| Edit::Cut(item.path(&[]))).collect(),
        What::Disabled => desk.cut_key(&desk.settings, &key.row, "disabled"),
        What::Field(path) => desk.cut_field(&key.row, path)?,
    };
    if edits.is_empty() {
        return Err(desk.nothing(&args.key, &key));
    }
    let after = desk.settings.edited(&edits).map_err(|refused| refused.of(&args.key))?;
    let after = desk.without_empty_rows(&key.row, after, &args.key)?;
    let before = desk.settings.in_force(&key.row, below);
    let draft = desk.draft(&key, before.as_ref(), after)?;
    match desk.publish(&key, draft).await? {
        Ok(()) => Ok(exit::COMPLETED),
        Err(errors) => Err(desk.refusal(&key.row, errors)),
    }
}

impl<'a> Desk<'a> {
    /// Locks, then reads.
    async fn open(start: &'a Start, profile: &ProfileArgs) -> Result<Self, CliError> {
        let args = profile.compose();
        let held = file::lock(&start.home).await?;
        let catalog = start.catalog()?;
        let layers = start.files(&args, None).below_settings().map_err(|e| row_errors(&e))?;
        // Only what is written in the rows matters here, so an unset variable does not.
        let env = |name: &str| {
            let value = start.env.get(name).and_then(|value| value.to_str());
            Some(value.unwrap_or_default().to_owned())
        };
        let references = References { env: &env, home: &start.home };
        let below = compose(&layers, &catalog, &references).map_err(|e| row_errors(&e))?.rows;
        let content = file::read(&start.home).await?;
        let Some(settings) = Settings::read(&content.text) else {
            let judge = Judge { start, args: &args };
            let found = judge.judge(&content.text).await?;
            let hint = "mend the file with `reins config edit`; it is as it was";
            return Err(row_errors(&found.errors).with_hint(hint));
        };
        Ok(Self { start, args, catalog, below, content, settings, _held: held })
    }

    fn key(&self, typed: &str) -> Result<Key, CliError> {
        let below = self.below.iter().map(|row| row.id.as_str());
        key::read(typed, below.chain(self.settings.ids()))
    }

    fn row(&self, id: &str) -> Option<&Row> {
        self.below.iter().find(|row| row.id == id)
    }

    /// The ids of all rows.
    fn rows(&self) -> Vec<&str> {
        let below = self.below.iter().map(|row| row.id.as_str());
        below.chain(self.settings.inserted()).collect()
    }

    /// Where a row's `config` is, or would be: the last that holds it, else where the row is
    /// inserted or patched.
    fn place(&self, id: &str, name: &str) -> Option<Item> {
        let items = self.settings.items(id);
        self.settings.last_with(id, name).or(items.last().copied())
    }

    fn put_field(&self, key: &Key, path: &[Segment], value: &str) -> Result<Edit, CliError> {
        let config = Segment::key("config");
        let field = [std::slice::from_ref(&config), path].concat();
        let place = self.place(&key.row, "config");
        let is_own = self.row(&key.row).is_none();
        if let Some(item) = place
            && (is_own || self.settings.get(item, std::slice::from_ref(&config)).is_some())
        {
            return Ok(Edit::Put(item.path(&field), value.to_owned()));
        }
        // A patch replaces the whole `config`, so it repeats what is below.
        let below = config_of(self.row(&key.row));
        let whole = text::put(&format!("config = {below}"), &field, value).map_err(|error| {
            CliError::usage(format!("`{}`: {error}", key::shown(&key.row, path)))
        })?;
        let whole = whole.trim_start_matches("config = ").to_owned();
        Ok(match place {
            Some(item) => Edit::Put(item.path(&[config]), whole),
            None => self.append(&key.row, "config", &whole),
        })
    }

    fn put_disabled(&self, id: &str, value: &str) -> Edit {
        match self.place(id, "disabled") {
            Some(item) => Edit::Put(item.path(&[Segment::key("disabled")]), value.to_owned()),
            None => self.append(id, "disabled", value),
        }
    }

    fn append(&self, id: &str, key: &str, value: &str) -> Edit {
        let row = format!("{{ id = {}, {key} = {value} }}", quoted(id));
        Edit::Put(self.settings.next_row().path(&[]), row)
    }

    /// Takes one key out of everything with this id.
    fn cut_key(&self, settings: &Settings, id: &str, key: &str) -> Vec<Edit> {
        let key = [Segment::key(key)];
        let items = settings.items(id).into_iter();
        let items = items.filter(|item| settings.get(*item, &key).is_some());
        items.map(|item| Edit::Cut(item.path(&key))).collect()
    }

    /// Gives a field the value that it has below, or none.
    fn cut_field(&self, id: &str, path: &[Segment]) -> Result<Vec<Edit>, CliError> {
        let Some(item) = self.settings.last_with(id, "config") else { return Ok(Vec::new()) };
        let config = [Segment::key("config")];
        let below = config_of(self.row(id));
        let own = self.settings.get(item, &config).cloned().unwrap_or(config_of(None));
        let lower = model::get(&below, path);
        if model::get(&own, path) == lower {
            return Ok(Vec::new());
        }
        let mut wanted = own;
        let edit = match lower {
            Some(lower) => {
                model::put(&mut wanted, path, lower.clone());
                Edit::Put(item.path(&[&config, path].concat()), lower.to_string())
            }
            None => {
                let path = without_empty(&wanted, &below, path);
                model::cut(&mut wanted, path);
                Edit::Cut(item.path(&[&config, path].concat()))
            }
        };
        if wanted == below {
            Ok(self.cut_key(&self.settings, id, "config"))
        } else {
            Ok(vec![edit])
        }
    }

    /// Without patches of this row that say nothing any more.
    fn without_empty_rows(
        &self,
        id: &str,
        settings: Settings,
        typed: &str,
    ) -> Result<Settings, CliError> {
        let says_nothing = |item: &Item| {
            let row = settings.get(*item, &[]).and_then(Value::as_table);
            !item.is_insert()
                && row.is_some_and(|row| row.keys().all(|key| key == "id" || key == "plugin"))
        };
        let items = settings.items(id).into_iter().rev().filter(says_nothing);
        let edits: Vec<Edit> = items.map(|item| Edit::Cut(item.path(&[]))).collect();
        settings.edited(&edits).map_err(|refused| refused.of(typed))
    }

    fn nothing(&self, typed: &str, key: &Key) -> CliError {
        let file = self.start.files(&self.args, None).settings();
        let message = format!("`{typed}`: there is nothing to unset in {}", file.display());
        let error = CliError::usage(message);
        let What::Field(path) = &key.what else { return error };
        let item = self.settings.last_with(&key.row, "config");
        let config = item.and_then(|item| self.settings.get(item, &[Segment::key("config")]));
        let names: Vec<&str> = config
            .and_then(Value::as_table)
            .map(|table| table.keys().map(String::as_str).collect())
            .unwrap_or_default();
        match &path[0] {
            Segment::Key(name) if !names.contains(&name.as_str()) => {
                match nearest(name, names.iter().copied()) {
                    Some(near) => error.with_hint(format!("did you mean `{}.{near}`?", key.row)),
                    None => error,
                }
            }
            _ => error,
        }
    }

    fn draft(
        &self,
        key: &Key,
        before: Option<&InForce>,
        after: Settings,
    ) -> Result<Draft, CliError> {
        let now = after.in_force(&key.row, self.row(&key.row));
        let says = match (before, now) {
            (Some(before), Some(now)) => says(key, before, &now, &self.marked(&key.row)),
            (Some(_), None) => {
                let plugin = self.settings.plugin(&key.row).unwrap_or_default();
                format!("row `{}` of plugin `{plugin}` → gone", key.row)
            }
            (None, _) => format!("{}: no row has this id, and nothing is set for it now", key.row),
        };
        let internal = |error: text::EditError| CliError::internal(error.to_string());
        let (name, below) = match &key.what {
            What::Row => (None, [].as_slice()),
            What::Disabled => (Some("disabled"), [].as_slice()),
            What::Field(path) => (Some("config"), path.as_slice()),
        };
        let path = |settings: &Settings| {
            let item = match name {
                Some(name) => settings.last_with(&key.row, name),
                None => settings.items(&key.row).first().copied(),
            }?;
            let name = name.map(Segment::key);
            let path = [name.as_slice(), below].concat();
            settings.get(item, &path).map(|_| item.path(&path))
        };
        let line = match (path(&after), path(&self.settings)) {
            (Some(path), _) => text::line_of(&after.text, &path),
            (None, Some(path)) => text::line_of(&self.settings.text, &path),
            (None, None) => Ok(1),
        };
        Ok(Draft { after, line: line.map_err(internal)?, says })
    }

    /// Checks, writes, and tells. The inner error is what is wrong.
    async fn publish(
        &self,
        key: &Key,
        draft: Draft,
    ) -> Result<Result<(), Vec<RowError>>, CliError> {
        let below = self.row(&key.row);
        let change = Change {
            row: &key.row,
            before: &self.settings.text,
            after: &draft.after.text,
            alone_before: self.settings.alone(&key.row, below),
            alone_after: draft.after.alone(&key.row, below),
        };
        let judge = Judge { start: self.start, args: &self.args };
        let left = match judge.compare(&change).await? {
            Ok(left) => left,
            Err(errors) => return Ok(Err(errors)),
        };
        if draft.after.text != self.settings.text || self.content.is_absent() {
            file::write(&self.start.home, &self.content, &draft.after.text).await?;
        }
        for error in &left.errors {
            terminal::note(&format!("note: still wrong: {error}"));
        }
        for error in &left.presets {
            terminal::note(&format!("note: no longer to be used: {error}"));
        }
        let file = self.start.files(&self.args, None).settings();
        let is_well = left.errors.is_empty();
        let when = if is_well { self.when(&key.row) } else { "when the rest is mended" };
        let Draft { line, says, .. } = draft;
        let text = format!("{}:{line}: {says}\nin force {when}\n", file.display());
        terminal::print_text(&text)
            .map_err(|e| CliError::internal(format!("standard output: {e}")))?;
        Ok(Ok(()))
    }

    fn plugin(&self, id: &str) -> Option<&str> {
        let below = self.row(id).map(|row| row.plugin.as_str());
        below.or_else(|| self.settings.plugin(id))
    }

    /// The fields that the row's plugin says are secret.
    fn marked(&self, id: &str) -> Vec<String> {
        let fields = self.plugin(id).and_then(|plugin| self.catalog.fields(plugin));
        let secret = fields.into_iter().flatten().filter(|field| field.secret);
        secret.map(|field| field.path).collect()
    }

    /// When a running Reins takes a change of the row.
    fn when(&self, id: &str) -> &'static str {
        let plugin = self.plugin(id);
        let plugins = self.catalog.plugins();
        match plugins.iter().find(|summary| Some(summary.name) == plugin) {
            Some(summary) if summary.reload == Reload::Live => "from the next turn on",
            _ => "when Reins starts again",
        }
    }

    /// Lines of a text that is not written lead nowhere.
    fn refusal(&self, row: &str, mut errors: Vec<RowError>) -> CliError {
        let file = self.start.files(&self.args, None).settings();
        for error in &mut errors {
            if error.file.as_deref() == Some(Path::new(&file)) {
                error.line = 0;
                if error.row.as_deref() == Some(row) {
                    (error.file, error.layer) = (None, "".into());
                }
            }
        }
        row_errors(&errors).with_hint(format!("{} is as it was", file.display()))
    }
}

/// The shortest path that leads to the same once what would be left empty goes too; what is also
/// below stays.
fn without_empty<'p>(config: &Value, below: &Value, mut path: &'p [Segment]) -> &'p [Segment] {
    while let Some((Segment::Key(_), around)) = path.split_last()
        && !around.is_empty()
        && model::get(below, around).is_none()
        && model::get(config, around).and_then(Value::as_table).is_some_and(|t| t.len() == 1)
    {
        path = around;
    }
    path
}

/// What changed, on one line.
fn says(key: &Key, before: &InForce, after: &InForce, marked: &[String]) -> String {
    let flag = |disabled: bool| Value::Boolean(disabled);
    let row = &key.row;
    let arrow = |name: String, path: &[Segment], old: Option<&Value>, new: Option<&Value>| {
        format!("{name}: {} → {}", value::shown(path, old, marked), value::shown(path, new, marked))
    };
    match &key.what {
        What::Disabled => {
            let (old, new) = (flag(before.disabled), flag(after.disabled));
            arrow(format!("{row}.disabled"), &[], Some(&old), Some(&new))
        }
        What::Field(path) => {
            let (old, new) = (model::get(&before.config, path), model::get(&after.config, path));
            arrow(key::shown(row, path), path, old, new)
        }
        What::Row => {
            let mut names: Vec<&String> = [&before.config, &after.config]
                .into_iter()
                .filter_map(Value::as_table)
                .flat_map(toml::Table::keys)
                .collect();
            names.sort();
            names.dedup();
            let mut parts = Vec::new();
            for name in names {
                let path = [Segment::key(name)];
                let (old, new) = (before.config.get(name), after.config.get(name));
                if old != new {
                    parts.push(arrow(key::shown(row, &path), &path, old, new));
                }
            }
            if before.disabled != after.disabled {
                let (old, new) = (flag(before.disabled), flag(after.disabled));
                parts.push(arrow(format!("{row}.disabled"), &[], Some(&old), Some(&new)));
            }
            match parts.is_empty() {
                true => format!("{row}: as it was without it"),
                false => parts.join(", "),
            }
        }
    }
}
