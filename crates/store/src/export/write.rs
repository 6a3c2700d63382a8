//! Writing an export.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::Arc;

use reins_schema::{Header, ParentPosition, SessionId};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::copy::{Stop, copy_log};
use super::target::{Sink, Target};
use super::{ABOUT, About, AboutSession, BLOBS, CHILDREN, HEADER, HeaderOf, LAYOUT, LOG, PAGE};
use super::{Told, hex, is_blob};
use crate::medium::Medium;
use crate::reading::Source;
use crate::{ExportOrder, Exported, Progress, StoreError};

/// Writes a session with its descendants to a zip file.
///
/// # Errors
/// Absent; the file exists or cannot be written. What is damaged is left out, and named.
pub(crate) fn export(
    medium: &Arc<dyn Medium>,
    order: &ExportOrder,
    header: &HeaderOf<'_>,
    progress: &Progress,
) -> Result<Exported, StoreError> {
    let top = header(&order.id)?.header;
    let (target, sink) = Target::begin(&order.to, order.replace)?;
    let mut headers = vec![top];
    for id in descendants(&**medium, &order.id, order.forks)? {
        headers.push(header(&id)?.header);
    }
    let failed = sink.failed();
    let mut zip = ZipWriter::new(sink);
    let mut writing =
        Writing { medium, zip: &mut zip, told: Told::new(progress, total(&**medium, &headers)?) };
    let written = writing.everything(order, &headers);
    let finished = written.and_then(|()| zip.finish().map_err(Stop::from));
    let sink = finished.map_err(|stop| match stop {
        Stop::Store(error) => error,
        Stop::Write(told) => {
            let code = failed.get().and_then(std::io::Error::raw_os_error);
            StoreError::io(&order.to, code.map_or(told, std::io::Error::from_raw_os_error))
        }
    })?;
    let bytes = target.publish(sink)?;
    Ok(Exported { sessions: headers.into_iter().map(|header| header.id).collect(), bytes })
}

impl From<zip::result::ZipError> for Stop {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Write(error.into())
    }
}

/// What a header says about where its session comes from; nothing else of it has to be right.
#[derive(Deserialize)]
struct Descent {
    parent: Option<Of>,
    origin: Option<String>,
}

#[derive(Deserialize)]
struct Of {
    session: SessionId,
}

/// Sessions that come from this one, directly or not, parents first: those that it delegated to
/// and, when they are wanted, its forks.
fn descendants(
    medium: &dyn Medium,
    top: &SessionId,
    forks: bool,
) -> Result<Vec<SessionId>, StoreError> {
    let mut children: BTreeMap<SessionId, Vec<SessionId>> = BTreeMap::new();
    let mut ids = medium.ids()?.sessions;
    ids.sort();
    for id in ids {
        // One that cannot be read belongs to nobody.
        let Ok(Some(bytes)) = medium.header(&id) else { continue };
        let Ok(from) = serde_json::from_slice::<Descent>(&bytes) else { continue };
        let Some(parent) = from.parent.filter(|_| forks || from.origin.is_some()) else { continue };
        children.entry(parent.session).or_default().push(id);
    }
    let (mut found, mut waiting) = (Vec::new(), VecDeque::from([top.clone()]));
    while let Some(parent) = waiting.pop_front() {
        // Taken out, so that a circle ends.
        for id in children.remove(&parent).unwrap_or_default() {
            if id != *top {
                found.push(id.clone());
                waiting.push_back(id);
            }
        }
    }
    Ok(found)
}

/// Stored bytes of everything.
fn total(medium: &dyn Medium, headers: &[Header]) -> Result<u64, StoreError> {
    let mut total = 0;
    for header in headers {
        total += medium.segments(&header.id)?.iter().map(|info| info.stored).sum::<u64>();
        total += medium.blobs(&header.id)?.iter().map(|blob| blob.1).sum::<u64>();
    }
    Ok(total)
}

struct Writing<'a> {
    medium: &'a Arc<dyn Medium>,
    zip: &'a mut ZipWriter<Sink>,
    told: Told<'a>,
}

impl Writing<'_> {
    fn everything(&mut self, order: &ExportOrder, headers: &[Header]) -> Result<(), Stop> {
        let mut about = About {
            export: LAYOUT,
            reins: env!("CARGO_PKG_VERSION").to_owned(),
            session: order.id.clone(),
            sessions: Vec::with_capacity(headers.len()),
        };
        for header in headers {
            let folder = match header.id == order.id {
                true => String::new(),
                false => format!("{CHILDREN}{}/", header.id),
            };
            let page = order.pages.iter().find(|page| page.0 == header.id);
            about.sessions.push(self.session(header, &folder, page.map(|page| page.1.as_str()))?);
        }
        self.json(ABOUT, &about)?;
        self.told.end();
        Ok(())
    }

    fn session(
        &mut self,
        header: &Header,
        folder: &str,
        page: Option<&str>,
    ) -> Result<AboutSession, Stop> {
        let bounds = header.parent.as_ref().map(|it| it.segments.clone()).unwrap_or_default();
        let source = Source { medium: Arc::clone(self.medium), id: header.id.clone(), bounds };
        self.json(&format!("{folder}{HEADER}"), &alone(header))?;
        self.start(&format!("{folder}{LOG}"))?;
        let before = self.told.done;
        let told = &mut self.told;
        let mut about = copy_log(&source, self.zip, &mut |done| told.at(before + done))?;
        if let Some(page) = page {
            self.start(&format!("{folder}{PAGE}"))?;
            self.zip.write_all(page.as_bytes())?;
        }
        self.blobs(&header.id, folder, &mut about)?;
        Ok(about)
    }

    fn blobs(
        &mut self,
        id: &SessionId,
        folder: &str,
        about: &mut AboutSession,
    ) -> Result<(), Stop> {
        for (name, size) in self.medium.blobs(id)? {
            let place = format!("blob {name}");
            self.told.at(self.told.done + size);
            let limit = usize::try_from(size).unwrap_or(usize::MAX);
            let bytes = match self.medium.blob(id, &name, limit) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                Err(error) => {
                    about.leave_out(place, size, error.to_string());
                    continue;
                }
            };
            if !is_blob(&name) || hex(&Sha256::digest(&bytes)) != name {
                let problem = "it does not contain what its name says".to_owned();
                about.leave_out(place, size, problem);
                continue;
            }
            self.start(&format!("{folder}{BLOBS}{name}"))?;
            self.zip.write_all(&bytes)?;
            about.blobs += 1;
        }
        Ok(())
    }

    fn json(&mut self, name: &str, value: &impl serde::Serialize) -> Result<(), Stop> {
        self.start(name)?;
        let mut text = serde_json::to_vec_pretty(value).map_err(std::io::Error::from)?;
        text.push(b'\n');
        Ok(self.zip.write_all(&text)?)
    }

    fn start(&mut self, name: &str) -> Result<(), Stop> {
        let options = SimpleFileOptions::default();
        let options = options.compression_method(CompressionMethod::Deflated);
        // Room for sizes of 4 GiB and more, which only a log may have.
        let options = options.unix_permissions(0o600).large_file(name.ends_with(LOG));
        Ok(self.zip.start_file(name, options)?)
    }
}

/// A header whose log is whole: what it shares with others is in it.
fn alone(header: &Header) -> Header {
    let parent = header.parent.clone().map(|it| ParentPosition { segments: Vec::new(), ..it });
    Header { parent, ..header.clone() }
}
