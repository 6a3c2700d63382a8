//! Keeping key values out of messages.

/// Shorter values are no secrets, and replacing them would garble any text.
const SHORTEST: usize = 4;

/// Values that may not be shown.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Of these values.
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        Self(values.into_iter().filter(|value| value.len() >= SHORTEST).collect())
    }

    /// These and one more.
    pub(crate) fn with(&self, value: Option<String>) -> Self {
        Self::new(self.0.iter().cloned().chain(value))
    }

    /// All of them.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The text without them.
    pub(crate) fn clean(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret, "[key]") } else { text }
        })
    }
}
