//! `reins config set` and `reins config unset`

use std::path::{Path, PathBuf};

use reins_kernel::{Catalog, Reload, Row, RowError, RowErrorKind, as_written, nearest};
use toml::Value;

use super::file::{self, Content, Held};
use super::judge::{Change, Judge, Left, quoted};
use super::key::{self, Key, What};
use super::says::Says;
use super::settings::{Edit, InForce, Item, Settings, config_of};
use super::text::{self, Segment};
use super::{model, value};
use crate::args::{ComposeArgs, ProfileArgs, SetArgs, UnsetArgs};
use crate::exit::{self, CliError};
use crate::explain::taken;
use crate::start::{self, Start, row_errors};
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
    /// The place in the new text, or in the old one for what went; `None` when neither has it.
    line: Option<u32>,
    /// What changed, for people.
    says: String,
}

pub(super) async fn set(start: &Start, args: &SetArgs) -> Result<u8, CliError> {
    let (typed, value) = key::and_value(&args.key, args.value.as_deref())?;
    file::check_home(&start.home)?;
    file::make_home(&start.home)?;
    let desk = Desk::open(start, &args.profile).await?;
    let key = desk.key(typed)?;
    let Some(before) = desk.settings.in_force(&key.row, desk.row(&key.row)) else {
        return Err(key::unknown_row(&key.row, &desk.rows()));
    };
    let candidates = match &key.what {
        What::Row => {
            let error = CliError::usage(format!("`{typed}` is a row; name a field of it"));
            return Err(
                error.with_hint(format!("`{}.disabled`, or a field of its `config`", key.row))
            );
        }
        What::Disabled if !["true", "false"].contains(&value.trim()) => {
            return Err(CliError::usage(format!("`{typed}` must be true or false")));
        }
        What::Disabled => vec![value.trim().to_owned()],
        What::Field(_) => value::candidates(value),
    };
    let mut refused: Vec<Vec<RowError>> = Vec::new();
    for candidate in &candidates {
        let after = match before.is(&key.what, candidate) {
            true => desk.settings.clone(),
            false => {
                let edit = desk.put(&key, candidate)?;
                desk.settings.edited(&[edit]).map_err(|refused| refused.of(typed))?
            }
        };
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
    Err(desk.refusal(&key, value::sensible(first, second)))
}

pub(super) async fn unset(start: &Start, args: &UnsetArgs) -> Result<u8, CliError> {
    file::check_home(&start.home)?;
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
        What::Disabled => desk.cut_switch(&key.row),
        What::Field(path) => desk.cut_field(&key.row, path),
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
        Err(errors) => Err(desk.refusal(&key, errors)),
    }
}

impl<'a> Desk<'a> {
    /// Locks, then reads.
    async fn open(start: &'a Start, profile: &ProfileArgs) -> Result<Self, CliError> {
        let args = profile.compose();
        let held = file::lock(&start.home).await?;
        let catalog = start.catalog()?;
        let layers = start.files(&args, None).below_settings().map_err(|e| row_errors(&e))?;
        // What is wrong in them is for the judge.
        let below = as_written(&layers);
        let content = file::read(&start.home).await?;
        let Some(settings) = Settings::read(&content.text) else {
            let found = Judge { start, args: &args }.judge(&content.text).await?;
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

    fn put(&self, key: &Key, value: &str) -> Result<Edit, CliError> {
        match &key.what {
            What::Field(path) => self.put_field(key, path, value),
            What::Disabled | What::Row => Ok(match self.place(&key.row, "disabled") {
                Some(item) => Edit::Put(item.path(&[Segment::key("disabled")]), value.to_owned()),
                None => self.append(&key.row, "disabled", value),
            }),
        }
    }

    fn put_field(&self, key: &Key, path: &[Segment], value: &str) -> Result<Edit, CliError> {
        const WHOLE: &str = "config = ";
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
        let text = text::put(&format!("{WHOLE}{below}"), &field, value).map_err(|error| {
            CliError::usage(format!("`{}`: {error}", key::shown(&key.row, path)))
        })?;
        let whole = text.strip_prefix(WHOLE).unwrap_or(&text);
        Ok(match place {
            Some(item) => Edit::Put(item.path(&[config]), whole.to_owned()),
            None => self.append(&key.row, "config", whole),
        })
    }

    fn append(&self, id: &str, key: &str, value: &str) -> Edit {
        let row = format!("{{ id = {}, {key} = {value} }}", quoted(id));
        Edit::Put(self.settings.next_row().path(&[]), row)
    }

    /// Takes `disabled` out of everything with this id.
    fn cut_switch(&self, id: &str) -> Vec<Edit> {
        let key = [Segment::key("disabled")];
        let items = self.settings.items(id).into_iter();
        let items = items.filter(|item| self.settings.get(*item, &key).is_some());
        items.map(|item| Edit::Cut(item.path(&key))).collect()
    }

    /// Gives a field the value that it has below the settings, or none, wherever these say
    /// something of it. A `config` that then says what would hold without it goes; what is in force
    /// of other fields stays.
    fn cut_field(&self, id: &str, path: &[Segment]) -> Vec<Edit> {
        let config = [Segment::key("config")];
        let below = config_of(self.row(id));
        let lower = model::get(&below, path);
        let Some(last) = self.settings.last_with(id, "config") else { return Vec::new() };
        let in_force = self.settings.get(last, &config);
        if in_force.and_then(|own| model::get(own, path)) == lower {
            return Vec::new();
        }
        let mut edits = Vec::new();
        let mut without = below.clone();
        for item in self.settings.items(id) {
            let Some(mut wanted) = self.settings.get(item, &config).cloned() else { continue };
            let edit = match lower {
                _ if item != last && model::get(&wanted, path).is_none() => None,
                Some(lower) => {
                    model::put(&mut wanted, path, lower.clone());
                    let place = item.path(&[&config, path].concat());
                    Some(Edit::Put(place, lower.to_string()))
                }
                None => {
                    let path = without_empty(&wanted, &below, path);
                    model::cut(&mut wanted, path);
                    Some(Edit::Cut(item.path(&[&config, path].concat())))
                }
            };
            match edit {
                Some(_) if wanted == without => edits.push(Edit::Cut(item.path(&config))),
                edit => edits.extend(edit),
            }
            without = wanted;
        }
        edits
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
        let file = self.file();
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
            (Some(before), Some(now)) => {
                let plugin = self.plugin(&key.row).unwrap_or_default();
                let says = Says { catalog: &self.catalog, plugin, row: &key.row };
                says.of(&key.what, before, &now)
            }
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
            (Some(path), _) => Some(text::line_of(&after.text, &path)),
            (None, Some(path)) => Some(text::line_of(&self.settings.text, &path)),
            (None, None) => None,
        };
        Ok(Draft { after, line: line.transpose().map_err(internal)?, says })
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
        let is_change = draft.after.text != self.settings.text;
        if is_change {
            file::write(&self.start.home, &self.content, &draft.after.text).await?;
        }
        for error in &left.errors {
            terminal::note(&format!("note: still wrong: {error}"));
        }
        for error in &left.presets {
            terminal::note(&format!("note: no longer to be used: {error}"));
        }
        for (preset, row) in left.default_preset.iter().flat_map(|default| default.hides(&key.row))
        {
            terminal::note(&format!(
                "note: agent preset `{preset}`, the default, has its own `{row}`: agents of it do \
                 not see this"
            ));
        }
        let mut text = match draft.line {
            Some(line) => format!("{}:{line}: {}\n", self.file().display(), draft.says),
            None => format!("{}\n", draft.says),
        };
        if is_change {
            text.push_str(&format!("taken {}\n", self.when(&key.row, &left)));
        }
        terminal::output(&text)?;
        Ok(Ok(()))
    }

    fn file(&self) -> PathBuf {
        self.start.files(&self.args, None).settings()
    }

    fn plugin(&self, id: &str) -> Option<&str> {
        let below = self.row(id).map(|row| row.plugin.as_str());
        below.or_else(|| self.settings.plugin(id))
    }

    fn when(&self, id: &str, left: &Left) -> &'static str {
        if !left.errors.is_empty() {
            return "when the rest is mended";
        }
        let plugin = self.plugin(id);
        let plugins = self.catalog.plugins();
        let plugin = plugins.iter().find(|summary| Some(summary.name) == plugin);
        let is_live = plugin.is_some_and(|summary| summary.reload == Reload::Live);
        taken(is_live, left.reloads)
    }

    /// Lines of a text that is not written lead nowhere.
    fn refusal(&self, key: &Key, mut errors: Vec<RowError>) -> CliError {
        let file = self.file();
        let whole = whole_table(key, &errors);
        for error in &mut errors {
            // What the kernel advises then is to take back the change that is not made.
            if error.kind == RowErrorKind::NeedsService && error.row.as_deref() != Some(&*key.row) {
                error.problem = format!("needs row `{}`", key.row);
            }
            if error.file.as_deref() == Some(Path::new(&file)) {
                error.line = 0;
                if error.row.as_deref() == Some(&*key.row) {
                    (error.file, error.layer) = (None, "".into());
                }
            }
        }
        let as_it_was = format!("{} is as it was", file.display());
        row_errors(&errors).with_hints(whole.iter().chain([&as_it_was]).map(String::as_str))
    }
}

/// How the table around a field is set whole, when it needs more than the field.
fn whole_table(key: &Key, errors: &[RowError]) -> Option<String> {
    let What::Field(path) = &key.what else { return None };
    let (_, around) = path.split_last()?;
    let table = key::shown(&key.row, around);
    let field = table.strip_prefix(&*key.row).filter(|_| !around.is_empty())?;
    let is_in = |path: &str| path.strip_prefix(field).is_some_and(|rest| rest.starts_with('.'));
    let is_needed = |error: &RowError| {
        let path = error.field.as_deref().and_then(|field| field.strip_prefix("config"));
        error.kind == RowErrorKind::Missing
            && error.row.as_deref() == Some(&*key.row)
            && path.is_some_and(is_in)
    };
    errors.iter().any(is_needed).then(|| {
        format!("`reins config set {} '{{ … }}'` sets the whole table", start::quoted(&table))
    })
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
