//! Vendors are data: what is the same for everybody who uses a service.

use reins_kernel::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The vendor files, by the name that a row uses.
const VENDORS: [(&str, &str); 2] = [
    ("deepseek", include_str!("../vendors/deepseek.toml")),
    ("compatible", include_str!("../vendors/compatible.toml")),
];

/// One service, or one kind of server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vendor {
    /// What a row's `vendor` says.
    pub name: String,
    /// The provider id of a row that gives none; absent = the row's own id.
    pub provider: Option<String>,
    /// Other provider ids that mean the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The wire it speaks.
    pub dialect: String,
    /// Where it is; absent = every row must say.
    pub base_url: Option<String>,
    /// An environment variable that overrules `base_url`.
    pub base_url_env: Option<String>,
    /// The environment variable of the key; absent = it works without a key.
    pub api_key_env: Option<String>,
    /// What happens to model ids that are not listed.
    pub unlisted_models: Unlisted,
    /// Efforts that it takes; empty = any text is passed on.
    #[serde(default)]
    pub efforts: Vec<String>,
    /// The effort of a call that names none.
    pub effort: Option<String>,
    /// Known models, best first.
    #[serde(default)]
    pub models: Vec<Model>,
    /// Where it differs from the dialect.
    pub quirks: Quirks,
}

/// A model of a vendor or of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Its id as the server knows it, which is what stands after the `/` of `id/model`.
    pub id: String,
    /// How much fits into a request and its answer, in tokens. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The output limit, in tokens, of a call that names none. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// What happens to a model id that is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unlisted {
    /// It is an error, with a suggestion.
    Refuse,
    /// It is passed on.
    Allow,
}

/// Where servers of one dialect differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// Whether an answer without `[DONE]` can be complete.
    pub done_mark: DoneMark,
    /// When the model's reasoning is sent back.
    pub reasoning_echo: ReasoningEcho,
    /// How the effort is written into a request.
    pub effort_style: EffortStyle,
}

/// Whether an answer without `[DONE]` can be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DoneMark {
    /// Without it the answer counts as cut.
    Required,
    /// A clean end after the finish reason is an end, too.
    Optional,
}

/// When the model's reasoning is sent back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningEcho {
    /// With messages that hold calls, when this provider wrote them.
    WithCalls,
    /// Not at all.
    Never,
}

/// How the effort is written into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffortStyle {
    /// `thinking: {type}`, and `reasoning_effort` unless it is `off`.
    Thinking,
    /// `reasoning_effort` alone.
    Plain,
}

/// A vendor that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// No such vendor.
    #[error("there is no vendor `{name}`; the vendors are {known}")]
    Unknown {
        /// As asked for.
        name: String,
        /// Their names, and the nearest.
        known: String,
    },
    /// Its file is damaged.
    #[error("the vendor file `{name}.toml` cannot be read: {problem}")]
    File {
        /// The vendor.
        name: String,
        /// The parser's words.
        problem: String,
    },
}

impl Vendor {
    /// The shipped vendor with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Self, VendorError> {
        let Some((_, text)) = VENDORS.iter().find(|(known, _)| *known == name) else {
            let mut known = Self::names().collect::<Vec<_>>().join(", ");
            if let Some(near) = nearest(name, Self::names()) {
                known.push_str(&format!("; did you mean `{near}`?"));
            }
            return Err(VendorError::Unknown { name: name.to_owned(), known });
        };
        toml::from_str(text).map_err(|error| VendorError::File {
            name: name.to_owned(),
            problem: error.to_string(),
        })
    }

    /// The names of the shipped vendors.
    pub fn names() -> impl Iterator<Item = &'static str> {
        VENDORS.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Unlisted, Vendor};

    #[test]
    fn every_vendor_file_is_readable_and_named_right() {
        for name in Vendor::names() {
            let vendor = Vendor::named(name).unwrap();
            assert_eq!(vendor.name, name);
            assert_eq!(vendor.dialect, "chat");
            assert!(vendor.effort.iter().all(|effort| vendor.efforts.contains(effort)));
        }
        assert_eq!(Vendor::named("deepseek").unwrap().unlisted_models, Unlisted::Refuse);
        let error = Vendor::named("deepsek").unwrap_err().to_string();
        let said = "there is no vendor `deepsek`; the vendors are deepseek, compatible; did you \
                    mean `deepseek`?";
        assert_eq!(error, said);
    }
}
