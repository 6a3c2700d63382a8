//! The one who edits the settings, in every way that files can change.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::rig::{Asked, write};

/// Edits between two checks.
const STRIDE: u64 = 25;
/// A file that stays half written for longer than this may be taken for a whole one.
const HALF_LASTS: Duration = Duration::from_millis(30);

/// What must be so when the file is left alone.
pub(crate) struct Check {
    pub(crate) edits: u64,
    pub(crate) serves: Asked,
    pub(crate) broken: bool,
}

pub(crate) struct Editor {
    path: PathBuf,
    plain: Asked,
    random: u64,
    number: u64,
    /// What was there long enough though it was only half of a file.
    stretched: BTreeSet<Asked>,
}

impl Asked {
    fn number(number: u64) -> Self {
        Self { persona: format!("persona {number}"), max_tokens: Some(1000 + number) }
    }

    /// Whether an edit wrote both together.
    pub(crate) fn is_whole(&self) -> bool {
        let number = self.persona.strip_prefix("persona ").and_then(|text| text.parse().ok());
        number.is_some_and(|number| *self == Self::number(number))
    }
}

impl Editor {
    pub(crate) fn new(path: PathBuf, plain: Asked, seed: u64) -> Self {
        Self { path, plain, random: seed | 1, number: 0, stretched: BTreeSet::new() }
    }

    /// Edits so many times; returns what was half written for too long.
    pub(crate) fn edit(
        mut self,
        edits: u64,
        checks: &SyncSender<Check>,
        go_on: &Receiver<()>,
    ) -> BTreeSet<Asked> {
        for edit in 1..=edits {
            if edit % STRIDE > 0 {
                self.any();
                self.pause();
                continue;
            }
            self.valid();
            let serves = Asked::number(self.number);
            let check = |broken| {
                checks.send(Check { edits: edit, serves: serves.clone(), broken }).unwrap();
                go_on.recv().unwrap();
            };
            check(false);
            if edit % (2 * STRIDE) == 0 && edit < edits {
                self.broken();
                check(true);
            }
        }
        self.stretched
    }

    fn any(&mut self) {
        match self.below(13) {
            0..=2 => self.valid(),
            3 => self.broken(),
            4 | 5 => self.half_written(),
            6 => self.remove(),
            7 => self.link(),
            8 => {
                self.remove();
                std::fs::create_dir(&self.path).unwrap();
            }
            9 => {
                self.remove();
                mknodat(CWD, &self.path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            }
            10 => self.huge(),
            11 => {
                self.remove();
                std::os::unix::fs::symlink("nowhere.toml", &self.path).unwrap();
            }
            _ => self.same(),
        }
    }

    /// A new valid text, in place or at once.
    fn valid(&mut self) {
        let text = self.next();
        if self.below(2) == 0 {
            self.make_writable();
            write(&self.path, &text);
        } else {
            self.replace(&text);
        }
    }

    fn half_written(&mut self) {
        let text = self.next();
        let cut = usize::try_from(self.below(text.len() as u64)).unwrap();
        let (half, rest) = text.as_bytes().split_at(cut);
        self.make_writable();
        let began = Instant::now();
        let mut file = File::create(&self.path).unwrap();
        file.write_all(half).unwrap();
        let pause = 1 + self.below(5);
        wait(Duration::from_millis(pause));
        file.write_all(rest).unwrap();
        if began.elapsed() > HALF_LASTS {
            self.stretched.extend(self.asks(std::str::from_utf8(half).unwrap()));
        }
    }

    fn broken(&mut self) {
        self.number += 1;
        let number = self.number;
        let text = match self.below(4) {
            0 => format!("{}[[row\n", "\n".repeat(usize::try_from(number % 50).unwrap())),
            1 => format!("[[row]]\nid = \"prompt\"\nconfig = {{ persna{number} = 1 }}\n"),
            2 => format!("[[insert]]\nid = \"a{number}\"\nplugin = \"none\"\n"),
            // Only mounting refuses it.
            _ => format!(
                "# {number}\n[[row]]\nid = \"bash\"\nconfig = {{ timeout_ms = {} }}\n",
                1_000_000 + number
            ),
        };
        self.replace(&text);
    }

    fn huge(&mut self) {
        self.remove();
        let file = File::create(&self.path).unwrap();
        if self.below(2) == 0 {
            file.set_len(1 << 40).unwrap();
        } else {
            let mut file = file;
            file.write_all("# ä\n".repeat(500_000).as_bytes()).unwrap();
        }
    }

    fn link(&mut self) {
        let text = self.next();
        let name = format!("other-{}.toml", self.number % 5);
        let (target, link) = (self.beside("target"), self.beside("link"));
        write(&target, &text);
        std::fs::rename(&target, self.beside(&name)).unwrap();
        std::os::unix::fs::symlink(&name, &link).unwrap();
        self.over(&link);
    }

    /// Writes again what is there, or changes its times only.
    fn same(&self) {
        let is_file = self.path.metadata().is_ok_and(|found| found.is_file());
        if is_file && self.path.metadata().unwrap().len() < 10_000 {
            let text = std::fs::read_to_string(&self.path).unwrap();
            self.replace(&text);
        }
    }

    fn next(&mut self) -> String {
        self.number += 1;
        let Asked { persona, max_tokens } = Asked::number(self.number);
        let prompt = format!("[[row]]\nid = \"prompt\"\n[row.config]\npersona = \"{persona}\"\n");
        let provider = format!(
            "[[row]]\nid = \"deepseek\"\n[row.config]\nvendor = \"deepseek\"\nmax_tokens = {}\n",
            max_tokens.unwrap()
        );
        match self.below(2) {
            0 => prompt + &provider,
            _ => provider + &prompt,
        }
    }

    /// What these settings ask for, when they are TOML.
    fn asks(&self, text: &str) -> Option<Asked> {
        let settings: toml::Table = text.parse().ok()?;
        let rows = settings.get("row").and_then(toml::Value::as_array);
        let of = |row: &str, field: &str| {
            let row = rows?
                .iter()
                .find(|found| found.get("id").is_some_and(|id| id.as_str() == Some(row)))?;
            row.get("config")?.get(field).cloned()
        };
        let persona = of("prompt", "persona").and_then(|text| text.as_str().map(str::to_owned));
        let max_tokens = of("deepseek", "max_tokens").and_then(|number| number.as_integer());
        Some(Asked {
            persona: persona.unwrap_or_else(|| self.plain.persona.clone()),
            max_tokens: max_tokens
                .map_or(self.plain.max_tokens, |number| u64::try_from(number).ok()),
        })
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    fn replace(&self, text: &str) {
        let new = self.beside("new");
        write(&new, text);
        self.over(&new);
    }

    /// Puts something in the place of the file at once, unless a folder is in the way.
    fn over(&self, new: &Path) {
        if self.path.is_dir() {
            self.remove();
        }
        std::fs::rename(new, &self.path).unwrap();
    }

    /// Removes what cannot be written to.
    fn make_writable(&self) {
        let writable = self.path.metadata().is_ok_and(|found| found.is_file());
        if !writable {
            self.remove();
        }
    }

    fn remove(&self) {
        match self.path.symlink_metadata() {
            Ok(found) if found.is_dir() => std::fs::remove_dir(&self.path).unwrap(),
            Ok(_) => std::fs::remove_file(&self.path).unwrap(),
            Err(_) => {}
        }
    }

    fn pause(&mut self) {
        let ms = match self.below(20) {
            0 => 60 + self.below(60),
            1..=4 => self.below(12),
            _ => self.below(3),
        };
        wait(Duration::from_millis(ms));
    }

    /// Below `limit`, evenly enough.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own, outside of any runtime")]
fn wait(time: Duration) {
    std::thread::sleep(time);
}
