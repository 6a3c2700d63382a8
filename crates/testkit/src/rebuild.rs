//! Every request of a session again, from its log alone.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use reins_agent::{EVENT_TYPES, Renderer as _};
use reins_providers::{ChatRenderer, DIALECT, Vendor, VendorError};
use reins_schema::{Event, Failure, Header, Payload, RequestSent};
use reins_session::{Fold, FoldError, KnownTypes};

use crate::transcript::{TranscriptError, read_events};

/// The vendor of providers that are not named like one.
const OTHERS: &str = "compatible";

/// A request as the log renders it.
#[derive(Clone, Debug)]
pub struct RebuiltRequest {
    /// The number of its `request/sent`.
    pub seq: u64,
    /// What that event says.
    pub sent: RequestSent,
    /// The body.
    pub body: Bytes,
}

/// A log that does not give back what was sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The log's events cannot be read.
    #[error(transparent)]
    Log(#[from] TranscriptError),
    /// The session's header cannot be read.
    #[error("{path}: {problem}")]
    Header {
        /// `header.json`.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An event does not follow from the ones before it.
    #[error(transparent)]
    Fold(#[from] FoldError),
    /// A provider's rules cannot be found.
    #[error(transparent)]
    Vendor(#[from] VendorError),
    /// The renderer refuses.
    #[error("event {seq}: {failure}")]
    Render {
        /// The number of the `request/sent`.
        seq: u64,
        /// Its words.
        failure: Failure,
    },
    /// What is rendered is not what `request/sent` describes.
    #[error("event {seq}: {problem}")]
    Differs {
        /// The number of the `request/sent`.
        seq: u64,
        /// What differs.
        problem: String,
    },
}

/// The requests of the session whose log this is, in order, each rendered by a fresh renderer from
/// nothing but the header and the events before its `request/sent`, and compared with what that
/// event says: items, bytes, hash, and how many items it shares with the request before it.
///
/// # Errors
/// Something cannot be read, or a request differs.
pub fn rebuild_requests(log: &Path) -> Result<Vec<RebuiltRequest>, RebuildError> {
    let known = EVENT_TYPES.iter().map(|(name, of)| ((*name).to_owned(), *of));
    let mut fold = Fold::new(header(log)?, known.collect::<KnownTypes>());
    let mut requests = Vec::new();
    for event in read_events(log)? {
        if let Ok(Payload::RequestSent(sent)) = Payload::read(&event.body) {
            requests.push(rebuilt(&fold, &event, sent)?);
        }
        fold.apply(&event)?;
    }
    Ok(requests)
}

fn header(log: &Path) -> Result<Header, RebuildError> {
    let path = log.with_file_name("header.json");
    let read = std::fs::read(&path).map_err(|e| e.to_string());
    let header = read.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()));
    header.map_err(|problem| RebuildError::Header { path, problem })
}

fn rebuilt(fold: &Fold, event: &Event, sent: RequestSent) -> Result<RebuiltRequest, RebuildError> {
    let seq = event.seq;
    let differs = |problem: String| Err(RebuildError::Differs { seq, problem });
    if sent.dialect != DIALECT {
        return differs(format!("the dialect `{}` is not known here", sent.dialect));
    }
    let Some(header) = fold.request_header() else {
        return differs("there is no `request/header` before it".to_owned());
    };
    let id = &header.config.provider;
    let vendor = match Vendor::named(id) {
        Err(VendorError::Unknown { .. }) => Vendor::named(OTHERS)?,
        vendor => vendor?,
    };
    let mut renderer = ChatRenderer::new(id, &vendor.aliases, vendor.quirks);
    let rendered = renderer
        .render(header, fold.surface(), fold.last_sent(sent.purpose))
        .map_err(|failure| RebuildError::Render { seq, failure })?;
    let (said, found) = (&sent, &rendered.facts);
    let same = (said.items, said.bytes, &said.hash) == (found.items, found.bytes, &found.hash);
    // How much is shared with a request that is no prefix only the renderer of both knows.
    let shared = said.cause.is_some() == found.cause.is_some()
        && (said.cause.is_some() || said.shared == found.shared);
    if !same || !shared {
        return differs(format!("sent was {said:?}, but the log gives {found:?}"));
    }
    Ok(RebuiltRequest { seq, sent, body: rendered.body })
}
