//! How the cases of the tables are written.
//!
//! A line `== NAME` begins a case, a line `-- HEAD` a section of it:
//!
//! - `-- home/settings.toml` or `-- project/p.toml`: a file and its text. `PATH: escaped` has no
//!   line ends but those written as `\n`, and bytes as `\x00`; other forms are `PATH: a folder`,
//!   `a pipe`, `a link to TARGET`, `too large`, `closed` (nobody may read it) and `a closed folder`
//!   (nobody may look into it).
//! - `-- added`: rows that the binary brings along.
//! - `-- variables`: lines `NAME=VALUE` of the environment.
//! - `-- options`: of every command; `-- options of run`: of that one besides. They are escaped.
//! - `-- says`: the whole message. `-- says of check` and `-- says of run` where the two differ: a
//!   `check` of which nothing is said finds nothing wrong.
//! - `-- warns`: all warnings, with which everything works.
//!
//! Places that differ are written `<home>` and, for a row of the bundle `base`, `{base:ID}` or
//! `{base:ID KEY}`. `{long}` is a word of 10 KB and `{secret}` a value that nobody may see.

use std::fs::Permissions;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use reins_testkit::Bin;

/// What `{secret}` stands for.
pub(super) const SECRET: &str = "sk-not-to-be-seen-anywhere-1234567890";
/// The settings, in messages.
const SETTINGS: &str = "<home>/settings.toml";
/// Bytes of what `{long}` stands for.
const LONG: usize = 10 * 1024;
/// Bytes that a file of rows may have.
const MOST: usize = 1024 * 1024;

/// One configuration and what is said of it.
pub(super) struct Case {
    pub(super) name: String,
    sections: Vec<(String, String)>,
}

/// The cases of a table.
pub(super) fn cases(table: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { name: name.to_owned(), sections: Vec::new() });
        } else if let Some(head) = line.strip_prefix("-- ") {
            let case = cases.last_mut().expect("a case before its sections");
            case.sections.push((head.to_owned(), String::new()));
        } else if let Some((_, text)) = cases.last_mut().and_then(|case| case.sections.last_mut()) {
            text.push_str(line);
            text.push('\n');
        }
    }
    for (_, text) in cases.iter_mut().flat_map(|case| &mut case.sections) {
        text.truncate(text.trim_end_matches('\n').len());
    }
    cases
}

impl Case {
    fn section(&self, head: &str) -> Option<&str> {
        self.sections.iter().find(|(known, _)| known == head).map(|(_, text)| text.as_str())
    }

    /// The message of a command; `None` = nothing is said of it.
    pub(super) fn says(&self, command: &str) -> Option<String> {
        let own = self.section(&format!("says of {command}"));
        own.or_else(|| self.section("says")).map(filled)
    }

    /// The message that every command gives.
    pub(super) fn always_says(&self) -> Option<String> {
        self.section("says").filter(|_| self.options("run") == self.options("")).map(filled)
    }

    /// Lines that begin with `warning: `.
    pub(super) fn warns(&self) -> String {
        filled(self.section("warns").unwrap_or_default())
    }

    pub(super) fn options(&self, command: &str) -> Vec<String> {
        let mut options = Vec::new();
        for head in ["options".to_owned(), format!("options of {command}")] {
            let words = self.section(&head).unwrap_or_default().split_whitespace();
            options.extend(words.map(|word| String::from_utf8(unescaped(&filled(word))).unwrap()));
        }
        options
    }

    /// The same mistake in a patch, when it is one of the settings alone.
    pub(super) fn in_patch(&self) -> Option<Self> {
        let (head, text, message) = self.of_settings()?;
        let head = head.replace("home/settings.toml", "project/p.toml");
        let message = message.replace(SETTINGS, "p.toml");
        Some(self.moved("in a patch", (head, text.to_owned()), message, "--patch p.toml"))
    }

    /// The same mistake in a profile, when it is one of the settings alone.
    pub(super) fn in_profile(&self) -> Option<Self> {
        let (head, text, message) = self.of_settings()?;
        if head.contains(':') || text.contains("bundles") {
            return None;
        }
        let text = format!("bundles = [\"base\"]\n{text}");
        // Everything stands one line lower.
        let place = format!("{SETTINGS}:");
        let mut parts = message.split(&place);
        let mut moved = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let line: u32 = part[..end].parse().unwrap();
            moved.push_str(&format!("<home>/profiles/mine.toml:{}{}", line + 1, &part[end..]));
        }
        let message = moved.replace("a layer has `[[", "a layer has `bundles`, `[[");
        let file = ("home/profiles/mine.toml".to_owned(), text);
        Some(self.moved("in a profile", file, message, "--profile mine"))
    }

    fn moved(&self, to: &str, file: (String, String), message: String, options: &str) -> Self {
        let mut sections = vec![file, ("says".to_owned(), message)];
        sections.push(("options".to_owned(), options.to_owned()));
        let variables = self.sections.iter().filter(|(head, _)| head == "variables").cloned();
        sections.extend(variables);
        Self { name: format!("{}, {to}", self.name), sections }
    }

    /// Head and text of the settings, and the message, when there is nothing else.
    fn of_settings(&self) -> Option<(&str, &str, &str)> {
        let is_file = |head: &str| head.starts_with("home/") || head.starts_with("project/");
        let others = ["variables", "says"];
        let plain = self.sections.iter().all(|(head, _)| {
            others.contains(&head.as_str())
                || head == "home/settings.toml"
                || head == "home/settings.toml: escaped"
        });
        let (head, text) = self.sections.iter().find(|(head, _)| is_file(head))?;
        plain.then_some((head, text, self.section("says")?))
    }

    /// Makes the files and sets the variables.
    pub(super) fn lay_out(&self, mut bin: Bin) -> Bin {
        for line in self.section("variables").unwrap_or_default().lines() {
            let (name, value) = line.split_once('=').unwrap();
            bin = bin.env(name, filled(value));
        }
        if let Some(rows) = self.section("added") {
            bin = bin.env("TEST_ROWS", rows);
        }
        let root = bin.home().parent().unwrap().to_owned();
        for (head, text) in &self.sections {
            if head.starts_with("home/") || head.starts_with("project/") {
                let (path, form) = head.split_once(": ").unwrap_or((head, "text"));
                let path = root.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                make(&path, form, text);
            }
        }
        bin
    }
}

fn make(path: &Path, form: &str, text: &str) {
    let write = |bytes: &[u8]| {
        let mut file = std::fs::File::create(path).unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
    };
    match form {
        "text" if text.is_empty() => write(b""),
        "text" => write(format!("{}\n", filled(text)).as_bytes()),
        "escaped" => write(&unescaped(&text.replace('\n', ""))),
        "too large" => write(&vec![b'#'; MOST + 1]),
        "a folder" => std::fs::create_dir(path).unwrap(),
        "a pipe" => {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }
        "a closed folder" => {
            std::fs::create_dir(path).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o0)).unwrap();
        }
        "closed" => {
            write(b"");
            std::fs::set_permissions(path, Permissions::from_mode(0o0)).unwrap();
        }
        _ => {
            let target = form.strip_prefix("a link to ").expect("a form that is known");
            symlink(std::ffi::OsString::from_vec(unescaped(target)), path).unwrap();
        }
    }
}

/// With everything in place of its name that does not differ from run to run.
fn filled(text: &str) -> String {
    let mut filled = text.replace("{secret}", SECRET).replace("{long}", &"x".repeat(LONG));
    while let Some((before, rest)) = filled.split_once("{base:") {
        let (place, after) = rest.split_once('}').unwrap();
        filled = format!("{before}{}{after}", in_base(place));
    }
    filled
}

/// Where `ID` or `ID KEY` stands in the bundle, as messages name it.
fn in_base(place: &str) -> String {
    let (id, key) = place.split_once(' ').unwrap_or((place, "[[insert]]"));
    let lines: Vec<&str> = include_str!("../../../bundles/base.toml").lines().collect();
    let id = lines.iter().position(|line| *line == format!("id = \"{id}\"")).unwrap();
    let mut row = lines.iter().enumerate().skip(id - 1);
    let (line, _) = row.find(|(_, line)| line.starts_with(key)).unwrap();
    format!("bundle base:{}", line + 1)
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (byte, used) = match escaped.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b'r' => (b'\r', 1),
            b'x' => (u8::from_str_radix(&escaped[1..3], 16).unwrap(), 3),
            other => panic!("\\{} is no escape here", char::from(other)),
        };
        bytes.push(byte);
        rest = &escaped[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
