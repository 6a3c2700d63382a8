//! What new sessions get when they ask for nothing: whether it can be had, and what is to blame
//! when it cannot.

use reins_kernel::{Catalog, Origin, Row, RowError, Scope};
use reins_schema::CallConfig;

use crate::model::known_model;
use crate::{DefaultModel, DefaultPreset};

/// The name of the preset of new sessions.
pub(crate) fn preset(
    scope: &Scope,
    rows: &[Row],
    catalog: &Catalog,
) -> Result<String, Vec<RowError>> {
    match scope.service::<DefaultPreset>() {
        Some(name) => Ok(name.0.clone()),
        None => Err(vec![missing("default preset", rows.iter(), catalog)]),
    }
}

/// What is said when the preset of new sessions cannot be used.
pub(crate) fn of_preset(errors: Vec<RowError>, name: &str, rows: &[Row]) -> Vec<RowError> {
    let Some(row) = row_of(rows, "default-preset") else { return errors };
    let place = |error: RowError| {
        // One without a layer is about the name, which the row says.
        if error.layer.is_empty() {
            let problem = match referring(row, "preset", name) {
                Some(written) => format!(
                    "`{written}` gives the name of no agent preset; `reins explain preset` lists \
                     them"
                ),
                None => error.problem,
            };
            let suggestion = error.suggestion;
            return RowError { suggestion, ..row_error(row, "preset", problem) };
        }
        let own =
            row_error(row, "preset", format!("agent preset `{name}` cannot be used: {error}"));
        // A person can change their own file and none of ours.
        if error.file.is_none() && own.file.is_some() { own } else { error }
    };
    errors.into_iter().map(place).collect()
}

/// The model of new sessions of a preset, whose rows are `own`. A key may be absent.
pub(crate) fn model(
    scope: &Scope,
    rows: &[Row],
    own: &[Row],
    catalog: &Catalog,
) -> Result<CallConfig, Vec<RowError>> {
    let Some(model) = scope.service::<DefaultModel>() else {
        return Err(vec![missing("default model", rows.iter().chain(own), catalog)]);
    };
    let failure = match known_model(scope, &model.0) {
        Ok(config) => return Ok(config),
        Err(failure) => failure,
    };
    let Some(row) = row_of(own, "default-model").or_else(|| row_of(rows, "default-model")) else {
        return Err(vec![RowError::new(failure.message)]);
    };
    let error = row_error(row, "model", named(failure.message, row, rows, &model.0));
    if error.file.is_none()
        && let Some((provider, by)) = changed_provider(rows, &model.0)
    {
        let told = if provider.disabled { "disabled here" } else { error.problem.as_str() };
        let problem = format!(
            "{told}; new sessions use model `{}` of it ({}): undo this, or give row `{}` another \
             model",
            referring(row, "model", &model.0).unwrap_or(&model.0),
            row.field_origin("model").place(),
            row.id
        );
        return Err(vec![RowError::at(by, problem)]);
    }
    Err(vec![error])
}

/// What a field holds as written, when that is not its value: references bring values that no
/// message may show.
fn referring<'r>(row: &'r Row, field: &str, value: &str) -> Option<&'r str> {
    let written = row.config.get(field)?.as_str()?;
    (written != value).then_some(written)
}

/// What is said of the model of this row, with its reference in place of the value.
fn named(message: String, row: &Row, rows: &[Row], value: &str) -> String {
    // As for what plugins say: what is shorter is no secret.
    const SECRET_MIN_BYTES: usize = 4;
    let Some(written) = referring(row, "model", value) else { return message };
    let (provider, model) = value.split_once('/').unwrap_or(("", value));
    let mut hidden = vec![value, provider, model];
    hidden.retain(|part| !part.is_empty() && rows.iter().all(|row| row.id != *part));
    let name = |message: String, part: &&str| {
        message.replace(&format!("`{part}`"), &format!("`{written}`"))
    };
    let message = hidden.iter().fold(message, name);
    if hidden.iter().any(|part| part.len() >= SECRET_MIN_BYTES && message.contains(part)) {
        return format!(
            "`{written}` gives no model that can be used; models are written provider/model"
        );
    }
    message
}

/// The provider of a model, when a person's file disabled or changed it last; and where.
fn changed_provider<'r>(rows: &'r [Row], model: &str) -> Option<(&'r Row, &'r Origin)> {
    let (provider, _) = model.split_once('/')?;
    let row = rows.iter().find(|row| row.id == provider)?;
    let by = if row.disabled { row.disabled_by.as_ref() } else { row.patched_by.last() }?;
    by.file.is_some().then_some((row, by))
}

/// The enabled row of a plugin that there is at most one of.
fn row_of<'r>(rows: &'r [Row], plugin: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.plugin == plugin && !row.disabled)
}

fn row_error(row: &Row, field: &str, problem: String) -> RowError {
    let field_of_row = Some(format!("config.{field}"));
    RowError { field: field_of_row, ..RowError::at(&row.field_origin(field), problem) }
}

/// What is said of a service that no row provides: where the row that would is disabled, or which
/// plugin would.
pub(crate) fn missing<'r>(
    service: &str,
    mut rows: impl Iterator<Item = &'r Row>,
    catalog: &Catalog,
) -> RowError {
    let plugins = catalog.plugins().into_iter();
    let plugins: Vec<&str> =
        plugins.filter(|plugin| plugin.provides.contains(&service)).map(|p| p.name).collect();
    let could = |row: &Row| plugins.contains(&&*row.plugin);
    let disabled = rows.find_map(|row| row.disabled_by.as_ref().filter(|_| could(row)));
    if let Some(by) = disabled {
        let problem = format!("Reins needs its service `{service}`; it must not be disabled");
        return RowError::at(by, problem);
    }
    let problem = format!(
        "Reins needs service `{service}`, which no row provides; insert a row of plugin `{}`, or \
         add a bundle that has one",
        plugins.join("` or `")
    );
    RowError::new(problem)
}
