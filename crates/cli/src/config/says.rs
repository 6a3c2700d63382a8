//! What an edit changes, in words. Secrets are withheld as they are everywhere.

use reins_kernel::Catalog;
use toml::Value;

use super::key::{self, What};
use super::model;
use super::settings::InForce;
use super::text::Segment;
use crate::explain::json_as_toml;
use crate::terminal::one_line;

/// Longest value that is shown whole, in cells of a terminal.
const WIDTH: usize = 60;

/// A row, and what is known of its fields.
pub(super) struct Says<'a> {
    pub(super) catalog: &'a Catalog,
    pub(super) plugin: &'a str,
    pub(super) row: &'a str,
}

impl Says<'_> {
    /// Old and new on one line.
    pub(super) fn of(&self, what: &What, before: &InForce, after: &InForce) -> String {
        match what {
            What::Disabled => self.switch(before, after),
            What::Field(path) => self.field(path, before, after),
            What::Row => {
                let tables =
                    [&before.config, &after.config].into_iter().filter_map(Value::as_table);
                let mut names: Vec<&String> = tables.flat_map(toml::Table::keys).collect();
                names.sort();
                names.dedup();
                names.retain(|name| before.config.get(name) != after.config.get(name));
                let fields =
                    names.iter().map(|name| self.field(&[Segment::key(name)], before, after));
                let mut parts: Vec<String> = fields.collect();
                if before.disabled != after.disabled {
                    parts.push(self.switch(before, after));
                }
                match parts.is_empty() {
                    true => format!("{}: as it was without it", self.row),
                    false => parts.join(", "),
                }
            }
        }
    }

    fn switch(&self, before: &InForce, after: &InForce) -> String {
        let change = arrow(&before.disabled.to_string(), &after.disabled.to_string());
        format!("{}.disabled: {change}", self.row)
    }

    fn field(&self, path: &[Segment], before: &InForce, after: &InForce) -> String {
        let name = key::shown(self.row, path);
        let (old, new) = (self.value(path, &before.config), self.value(path, &after.config));
        // Two secrets look the same.
        let is_same = model::get(&before.config, path) == model::get(&after.config, path);
        match is_same {
            true => format!("{name}: {new}, unchanged"),
            false => format!("{name}: {old} → {new}"),
        }
    }

    fn value(&self, path: &[Segment], config: &Value) -> String {
        let table = config.as_table().cloned().unwrap_or_default();
        let shown = Value::Table(self.catalog.withhold(self.plugin, &table));
        if let Some(value) = model::get(&shown, path) {
            return one_line(&value.to_string(), WIDTH);
        }
        match self.default(path) {
            Some(default) => format!("{} (default)", one_line(&default, WIDTH)),
            None => "not set".to_owned(),
        }
    }

    fn default(&self, path: &[Segment]) -> Option<String> {
        let fields = self.catalog.fields(self.plugin)?;
        let field = fields.into_iter().find(|field| means(&field.path, path))?;
        field.default.as_ref().map(json_as_toml)
    }
}

fn arrow(old: &str, new: &str) -> String {
    if old == new { format!("{new}, unchanged") } else { format!("{old} → {new}") }
}

/// Whether a description like `models[].id` or `headers.<name>` is one of this path.
fn means(description: &str, path: &[Segment]) -> bool {
    let rest = path.iter().try_fold(description, |rest, segment| match segment {
        Segment::Index(_) => rest.strip_prefix("[]"),
        Segment::Key(name) => {
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            let rest = rest.strip_prefix("<name>").or_else(|| rest.strip_prefix(name.as_str()))?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
        }
    });
    rest == Some("")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use std::collections::BTreeMap;

    use reins_kernel::{Mount, MountError, Plugin, PluginDef};
    use schemars::JsonSchema;
    use serde::Deserialize;
    use toml::Table;

    use super::*;

    /// A secret that is a type of its own.
    #[derive(Deserialize, JsonSchema)]
    #[schemars(extend("writeOnly" = true))]
    struct Secret(#[expect(dead_code, reason = "only its schema counts")] String);

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Route {
        pin: Secret,
        #[serde(default = "seven")]
        tries: u8,
    }

    fn seven() -> u8 {
        7
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema counts")]
    struct Config {
        #[serde(default)]
        routes: BTreeMap<String, Route>,
        #[serde(default)]
        old: Vec<Secret>,
        #[serde(default)]
        list: Vec<Route>,
        #[schemars(extend("writeOnly" = true))]
        token: Option<BTreeMap<String, Vec<u64>>>,
        api_key: Option<String>,
        address: Option<String>,
    }

    struct Routed;

    impl Plugin for Routed {
        const NAME: &'static str = "routed";
        const SUMMARY: &'static str = "Has secrets in maps and lists.";
        type Config = Config;

        fn mount(_: Config, _: &mut Mount<'_>) -> Result<(), MountError> {
            Ok(())
        }
    }

    fn says(what: &What, before: &str, after: &str) -> String {
        let catalog = Catalog::new(&[PluginDef::of::<Routed>()]).unwrap();
        let in_force = |text: &str| InForce {
            config: Value::Table(toml::from_str::<Table>(text).unwrap()),
            disabled: false,
        };
        let says = Says { catalog: &catalog, plugin: "routed", row: "r" };
        says.of(what, &in_force(before), &in_force(after))
    }

    fn field(typed: &str) -> What {
        key::read(&format!("r.{typed}"), ["r"].into_iter()).unwrap().what
    }

    #[test]
    fn nothing_shows_a_secret_wherever_it_is() {
        const BEFORE: &str = "old = ['sk-0']\nlist = [{ pin = 'sk-1' }]\ntoken = { a = [911] }\n\
                              [routes.'x.y']\npin = 'sk-2'\n";
        const AFTER: &str = "old = ['sk-3', 'sk-4']\nlist = [{ pin = 'sk-5', tries = 1 }]\n\
                             token = { a = [912] }\n[routes.'x.y']\npin = 'sk-6'\n[routes.z]\n\
                             pin = 'sk-7'\ntries = 2\n";
        for typed in [
            "old",
            "old[0]",
            "old[1]",
            "list",
            "list[0]",
            "list[0].pin",
            "routes",
            "routes.\"x.y\"",
            "routes.\"x.y\".pin",
            "routes.z",
            "routes.z.pin",
            "token",
            "token.a",
            "token.a[0]",
        ] {
            for what in [field(typed), What::Row] {
                let said = says(&what, BEFORE, AFTER);
                let shows = said.contains("sk-") || said.contains("91");
                assert!(!shows && said.contains("\"[withheld]\""), "{typed}: {said}");
            }
        }
        let said = says(&field("routes.z"), BEFORE, AFTER);
        assert_eq!(said, "r.routes.z: not set → { pin = \"[withheld]\", tries = 2 }");
        let said = says(&field("old[0]"), BEFORE, AFTER);
        assert_eq!(said, "r.old[0]: \"[withheld]\" → \"[withheld]\"");
        let said = says(&field("old[0]"), BEFORE, BEFORE);
        assert_eq!(said, "r.old[0]: \"[withheld]\", unchanged");
    }

    #[test]
    fn only_what_the_plugin_says_is_secret_and_references_are_not() {
        let said = says(&field("api_key"), "", "api_key = 'not marked'");
        assert_eq!(said, "r.api_key: not set → \"not marked\"");
        let said = says(&field("routes.a.pin"), "", "routes.a.pin = '${env:PIN}'");
        assert_eq!(said, "r.routes.a.pin: not set → \"${env:PIN}\"");
        let said = says(&field("address"), "address = 'http://h/@'", "address = 'http://u:p@h/'");
        assert_eq!(said, "r.address: \"http://h/@\" → \"[withheld]\"");
    }

    #[test]
    fn defaults_are_found_in_maps_and_lists() {
        let said = says(&field("routes.a.tries"), "routes.a.pin = ''", "routes.a.tries = 2");
        assert_eq!(said, "r.routes.a.tries: 7 (default) → 2");
        let said = says(&field("list[0].tries"), "list = [{ tries = 2 }]", "list = [{}]");
        assert_eq!(said, "r.list[0].tries: 2 → 7 (default)");
        let said = says(&What::Row, "", "");
        assert_eq!(said, "r: as it was without it");
    }

    #[test]
    fn a_description_means_the_whole_path() {
        let path = [Segment::key("models"), Segment::Index(3), Segment::key("id")];
        assert!(means("models[].id", &path));
        for other in ["models[]", "models[].idle", "models[].id.x", "model[].id", "models.id"] {
            assert!(!means(other, &path), "{other}");
        }
        assert!(means("headers.<name>", &[Segment::key("headers"), Segment::key("x.y")]));
        assert!(!means("retry.max_ms", &[Segment::key("retry"), Segment::key("max")]));
    }
}
