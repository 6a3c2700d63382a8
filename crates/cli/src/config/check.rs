//! `reins config check`

use std::io::ErrorKind;

use reins_agent::{CommandError, find_command, list_commands};
use reins_host::{Host, HostError};
use reins_kernel::RowError;

use crate::args::ComposeArgs;
use crate::exit::CliError;
use crate::layers::{Names, PLAIN_NAMES};
use crate::run::PROMPT_NAMES;
use crate::start::Start;
use crate::terminal::{self, count};

/// What was looked at and is fine.
#[derive(Default)]
struct Fine {
    rows: usize,
    presets: usize,
    profiles: usize,
    prompts: usize,
}

/// Mounts everything, since plugins check the values of their configuration only then: the rows,
/// each preset, what a new session would have, and the rows of the other profiles. Prompts are
/// read.
pub(super) async fn check(start: &Start, args: &ComposeArgs) -> Result<String, CliError> {
    let home = &start.home;
    // Nothing of a home that is closed can be said to be fine.
    if home.read_dir().is_err_and(|error| error.kind() != ErrorKind::NotFound) {
        reins_store::check_home(home)?;
    }
    let (mut fine, mut errors) = (Fine::default(), Vec::new());
    match Host::start(start.blueprint(args, None)?).await {
        Ok((host, warnings)) => {
            warnings.iter().for_each(warn);
            let checked = check_host(&host, &mut fine, &mut errors).await;
            host.stop().await;
            checked?;
        }
        Err(HostError::Rows(found)) => {
            add(&mut errors, rows(found));
            check_presets_alone(start, args, &mut errors)?;
        }
        Err(error) => return Err(error.into()),
    }
    check_profiles(start, args, &mut fine, &mut errors).await?;
    if !errors.is_empty() {
        return Err(CliError::config(errors.join("\n")));
    }
    // As a run would say it.
    reins_store::check_home(home)?;
    let Fine { rows, presets, profiles, prompts } = fine;
    let of = |number: usize, one: &str| count(number as u64, one);
    Ok(format!(
        "{}, {}, {} and {} are fine\n",
        of(rows, "row"),
        of(presets, "agent preset"),
        of(profiles, "profile"),
        of(prompts, "prompt")
    ))
}

/// Presets and profiles share what the settings say, and so what is wrong with them.
fn add(errors: &mut Vec<String>, found: Vec<String>) {
    for error in found {
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
}

fn rows(errors: Vec<RowError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn lines(error: HostError) -> Vec<String> {
    match error {
        HostError::Rows(errors) => rows(errors),
        other => vec![other.to_string()],
    }
}

fn warn(what: impl std::fmt::Display) {
    terminal::note(&format!("warning: {what}"));
}

/// Where no layer is to blame, the profile as a whole is.
fn of_profile(profile: &str, error: HostError) -> Vec<String> {
    let HostError::Rows(errors) = error else {
        return vec![format!("profile `{profile}`: {error}")];
    };
    let line = |error: &RowError| match error.layer.is_empty() && error.file.is_none() {
        true => format!("profile `{profile}`: {error}"),
        false => error.to_string(),
    };
    errors.iter().map(line).collect()
}

async fn check_host(
    host: &Host,
    fine: &mut Fine,
    errors: &mut Vec<String>,
) -> Result<(), CliError> {
    match host.check_defaults().await {
        Ok(()) => {}
        Err(HostError::Rows(found)) => add(errors, rows(found)),
        Err(other) => return Err(other.into()),
    }
    match host.blueprint().source.presets() {
        Ok(names) => {
            for name in names {
                check_preset(host, &name, fine, errors).await;
            }
        }
        Err(found) => add(errors, rows(found)),
    }
    check_prompts(host, fine, errors).await;
    let (all, _) = host.rows("").await;
    fine.rows = all.iter().filter(|row| !row.disabled).count();
    Ok(())
}

async fn check_preset(host: &Host, name: &str, fine: &mut Fine, errors: &mut Vec<String>) {
    let is_shipped = host.blueprint().source.preset(name).is_ok_and(|layer| layer.file.is_none());
    let checked = match is_shipped {
        true => host.preset(name).await.map(drop),
        false => host.check_preset(name).await,
    };
    match checked {
        Ok(()) => fine.presets += 1,
        // Settings may leave a shipped preset without what it needs.
        Err(error) if is_shipped => warn(format_args!("agent preset `{name}`: {error}")),
        Err(error) => add(errors, lines(error)),
    }
}

/// What presets show by themselves, when there are no rows to mount them on.
fn check_presets_alone(
    start: &Start,
    args: &ComposeArgs,
    errors: &mut Vec<String>,
) -> Result<(), CliError> {
    let blueprint = start.blueprint(args, None)?;
    match blueprint.source.presets() {
        Ok(names) => {
            let found = names.iter().filter_map(|name| blueprint.preset(name).err());
            add(errors, rows(found.flatten().collect()));
        }
        Err(found) => add(errors, rows(found)),
    }
    Ok(())
}

async fn check_prompts(host: &Host, fine: &mut Fine, errors: &mut Vec<String>) {
    let scope = host.scope().await;
    let line = |CommandError { message, hint }| match hint {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    };
    let (list, failed) = list_commands(&scope).await;
    add(errors, failed.into_iter().map(line).collect());
    for name in &list.names {
        match find_command(&scope, name).await {
            Ok(Some(_)) => fine.prompts += 1,
            // Removed meanwhile.
            Ok(None) => {}
            Err(error) => add(errors, vec![line(error)]),
        }
    }
    for file in &list.unusable {
        warn(format_args!("{}: not read: {PROMPT_NAMES}", file.display()));
    }
    if list.incomplete {
        warn("there are more prompts than can be listed, and the rest was not looked at");
    }
}

/// The other profiles, and the names of files that are none.
async fn check_profiles(
    start: &Start,
    args: &ComposeArgs,
    fine: &mut Fine,
    errors: &mut Vec<String>,
) -> Result<(), CliError> {
    let files = start.files(args, None);
    // What is wrong with the list of presets was said above.
    for file in files.preset_names().unwrap_or_default().odd {
        warn(format_args!("{}: not read: {PLAIN_NAMES}", file.display()));
    }
    let Names { names, odd } = match files.profiles() {
        Ok(names) => names,
        Err(found) => {
            add(errors, rows(found));
            return Ok(());
        }
    };
    for file in odd {
        warn(format_args!("{}: not read: {PLAIN_NAMES}", file.display()));
    }
    let is_well = errors.is_empty();
    fine.profiles += 1;
    for name in names.into_iter().filter(|name| *name != args.profile) {
        check_profile(start, name, is_well, (fine, errors)).await?;
    }
    Ok(())
}

/// `is_well` tells whether the settings are well with the profile that was asked for.
async fn check_profile(
    start: &Start,
    name: String,
    is_well: bool,
    (fine, errors): (&mut Fine, &mut Vec<String>),
) -> Result<(), CliError> {
    let args = ComposeArgs::of_profile(name);
    let below = start.files(&args, None).below_settings();
    let is_shipped = below.is_ok_and(|layers| layers.iter().all(|layer| layer.file.is_none()));
    let checked = match Host::start(start.blueprint(&args, None)?).await {
        Ok((host, warnings)) => {
            // What settings say of no row they say with every profile.
            let own = format!("profile {}", args.profile);
            warnings.iter().filter(|warning| *warning.0.layer == *own).for_each(warn);
            let checked = host.check_defaults().await;
            host.stop().await;
            checked
        }
        Err(error) => Err(error),
    };
    match checked {
        Ok(()) => fine.profiles += 1,
        Err(error) if !is_shipped => {
            add(errors, of_profile(&args.profile, error));
        }
        // Settings that are well elsewhere may leave a shipped profile without what it needs.
        Err(error) if is_well => warn(format_args!("profile `{}`: {error}", args.profile)),
        Err(_) => {}
    }
    Ok(())
}
