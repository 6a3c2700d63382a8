//! Fields of a row's `config`.

use reins_kernel::{FieldDoc, Written};

use super::{Explain, RowFacts};

/// A field of a row.
#[derive(Clone, Debug)]
pub struct FieldFacts {
    /// Id of the row.
    pub row: String,
    /// Where it is in `config`, for example `models[0].id`; as in the plugin's description,
    /// `models[].id`, when nothing like it is written.
    pub path: String,
    /// What the plugin says of it.
    pub doc: FieldDoc,
    /// What each `config` of the row said, the oldest first; the last one is in force.
    pub written: Vec<Written>,
}

impl FieldFacts {
    /// What is in force because it is written, not by default.
    pub fn in_force(&self) -> Option<&Written> {
        self.written.last().filter(|written| written.value.is_some())
    }
}

impl Explain {
    /// The fields of a row in the order of its plugin's source; those of lists and maps once for
    /// each entry that is written.
    pub fn fields(&self, of: &RowFacts) -> Vec<FieldFacts> {
        let docs = self.catalog.fields(&of.row.plugin).unwrap_or_default();
        let paths = of.row.paths();
        let mut fields = Vec::new();
        for doc in docs {
            let mut written = paths.iter().filter(|path| fits(&doc.path, path)).peekable();
            if written.peek().is_none() {
                fields.push(self.facts(of, &doc, &doc.path));
            }
            fields.extend(written.map(|path| self.facts(of, &doc, path)));
        }
        fields
    }

    /// The field of a row at this path; also an entry of a list or a map.
    pub fn field(&self, of: &RowFacts, path: &str) -> Option<FieldFacts> {
        let docs = self.catalog.fields(&of.row.plugin).unwrap_or_default();
        let known = docs.iter().find(|doc| doc.path == path);
        if let Some(doc) = known.or_else(|| docs.iter().find(|doc| fits(&doc.path, path))) {
            return Some(self.facts(of, doc, path));
        }
        // An entry itself, which is described with the list or map that holds it.
        let is_written = of.row.paths().iter().any(|written| written == path);
        let around = docs.iter().filter(|doc| {
            let rest = path.strip_prefix(doc.path.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '[']))
        });
        let around = around.max_by_key(|doc| doc.path.len()).filter(|_| is_written)?;
        let kind = format!("an entry of `{}`, {}", around.path, around.kind);
        let limits = String::new();
        let entry = FieldDoc { kind, limits, default: None, required: false, ..around.clone() };
        Some(self.facts(of, &entry, path))
    }

    fn facts(&self, of: &RowFacts, doc: &FieldDoc, path: &str) -> FieldFacts {
        FieldFacts {
            row: of.row.id.clone(),
            path: path.to_owned(),
            doc: doc.clone(),
            written: of.row.written(path, &self.catalog),
        }
    }
}

/// Whether a path is one that the description means: `models[].id` means `models[3].id`,
/// `routes.<name>.id` means `routes.x.y.id`.
fn fits(description: &str, path: &str) -> bool {
    let marks = ["[]", "<name>"].map(|mark| description.find(mark).map(|at| (at, mark)));
    let Some((at, mark)) = marks.into_iter().flatten().min() else { return description == path };
    let Some(rest) = path.strip_prefix(&description[..at]) else { return false };
    let after = &description[at + mark.len()..];
    if mark == "[]" {
        let entry = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        return entry.is_some_and(|(at, rest)| at.parse::<usize>().is_ok() && fits(after, rest));
    }
    // A key may hold dots, so every end of it is tried.
    let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.into_iter().any(|end| fits(after, &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_description_means_every_entry_of_a_list_and_every_key_of_a_map() {
        assert!(fits("retry.max", "retry.max"));
        assert!(!fits("retry.max", "retry.max_ms"));
        assert!(fits("models[].id", "models[12].id"));
        assert!(!fits("models[].id", "models[x].id"));
        assert!(!fits("models[].id", "models.id"));
        assert!(fits("headers.<name>", "headers.x-team"));
        assert!(fits("routes.<name>.id", "routes.x.y.id"), "a key may hold dots");
        assert!(!fits("routes.<name>.id", "routes.id"));
        assert!(fits("a.<name>[].b", "a.n[0].b"));
    }
}
