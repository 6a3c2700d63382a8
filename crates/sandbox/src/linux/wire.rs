//! Messages on the control socket, a `SOCK_SEQPACKET` pair: one packet is one message, in a fixed
//! little-endian layout. The host's end is shared by the host and its reapers, so a report needs no
//! relay, and end-of-file on the harness's end proves that all of them are gone.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::{Report, SpawnStage};

const SPAWN: u8 = 1;
const KILL: u8 = 2;
const REQUEST_BYTES: usize = 13;
/// Descriptors that come with a spawn request: encoded command, stdout, stderr.
const SPAWN_FDS: usize = 3;

const READY: u8 = 10;
const UNFIT: u8 = 11;
const STARTED: u8 = 12;
const EXITED: u8 = 13;
const GONE: u8 = 14;
const SPAWN_FAILED: u8 = 15;
const HEAD_BYTES: usize = 21;
const MAX_TEXT_BYTES: usize = 4096;
/// Largest message towards the harness.
pub(crate) const MAX_ANSWER_BYTES: usize = HEAD_BYTES + MAX_TEXT_BYTES;

/// What the harness asks of the host.
pub(crate) enum Request {
    Spawn {
        id: u64,
        command: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    Kill {
        id: u64,
        grace_ms: u32,
    },
    /// A spawn request whose descriptors did not arrive: this process may hold no more.
    Cut {
        id: u64,
    },
    /// Not a message of this version.
    Unknown,
    /// The harness has closed its end, or died.
    End,
}

/// What host and reapers tell the harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ready,
    /// The process cannot be a host, and why.
    Unfit(String),
    Report(Report),
}

pub(crate) fn send_spawn(
    socket: BorrowedFd<'_>,
    id: u64,
    fds: [BorrowedFd<'_>; SPAWN_FDS],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SPAWN_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::NOBUFS);
    }
    send(socket, &request(SPAWN, id, 0), &mut control)
}

pub(crate) fn send_kill(socket: BorrowedFd<'_>, id: u64, grace_ms: u32) -> Result<(), Errno> {
    send(socket, &request(KILL, id, grace_ms), &mut SendAncillaryBuffer::default())
}

fn request(kind: u8, id: u64, argument: u32) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&argument.to_le_bytes());
    bytes
}

fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    control: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(bytes)], control, flags).map(|_| ())
}

/// The next request, or `Errno::AGAIN`.
pub(crate) fn recv_request(socket: BorrowedFd<'_>) -> Result<Request, Errno> {
    let mut bytes = [0; REQUEST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SPAWN_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    if got.bytes == 0 {
        return Ok(Request::End);
    }
    let fds: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if got.bytes != REQUEST_BYTES || got.flags.contains(ReturnFlags::TRUNC) {
        return Ok(Request::Unknown);
    }
    let mut fields = Fields(&bytes);
    let kind = fields.take::<1>()[0];
    let id = u64::from_le_bytes(fields.take());
    let grace_ms = u32::from_le_bytes(fields.take());
    Ok(match kind {
        SPAWN => match <[OwnedFd; SPAWN_FDS]>::try_from(fds) {
            Ok([command, stdout, stderr]) => Request::Spawn { id, command, stdout, stderr },
            Err(_) => Request::Cut { id },
        },
        KILL => Request::Kill { id, grace_ms },
        _ => Request::Unknown,
    })
}

/// Reads fixed-width fields from the front; zeroes past the end, so check the length before.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((field, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *field
    }
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        let (kind, id, numbers, text) = match self {
            Answer::Ready => (READY, 0, [0; 3], ""),
            Answer::Unfit(reason) => (UNFIT, 0, [0; 3], reason.as_str()),
            Answer::Report(Report::Started { id, pid }) => (STARTED, *id, [*pid, 0, 0], ""),
            Answer::Report(Report::Exited { id, code, signal, survivors }) => {
                // -1 is neither an exit status nor a signal.
                let number = |value: &Option<i32>| value.unwrap_or(-1).cast_unsigned();
                (EXITED, *id, [number(code), number(signal), *survivors], "")
            }
            Answer::Report(Report::Gone { id, left }) => (GONE, *id, [*left, 0, 0], ""),
            Answer::Report(Report::SpawnFailed { id, stage, errno, what }) => {
                let stage = match stage {
                    SpawnStage::Directory => 0,
                    SpawnStage::Program => 1,
                    SpawnStage::Interpreter => 2,
                    SpawnStage::Process => 3,
                };
                (SPAWN_FAILED, *id, [stage, errno.cast_unsigned(), 0], what.as_str())
            }
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + text.len());
        bytes.push(kind);
        bytes.extend_from_slice(&id.to_le_bytes());
        for number in numbers {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let end = text.floor_char_boundary(MAX_TEXT_BYTES);
        bytes.extend_from_slice(text.get(..end).unwrap_or_default().as_bytes());
        bytes
    }

    /// Absent for a message of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Answer> {
        if bytes.len() < HEAD_BYTES {
            return None;
        }
        let mut fields = Fields(bytes);
        let kind = fields.take::<1>()[0];
        let id = u64::from_le_bytes(fields.take());
        let [a, b, c] = std::array::from_fn(|_| u32::from_le_bytes(fields.take()));
        let text = String::from_utf8(fields.0.to_vec()).ok()?;
        let known = |value: u32| Some(value.cast_signed()).filter(|value| *value >= 0);
        Some(match kind {
            READY => Answer::Ready,
            UNFIT => Answer::Unfit(text),
            STARTED => Answer::Report(Report::Started { id, pid: a }),
            EXITED => Answer::Report(Report::Exited {
                id,
                code: known(a),
                signal: known(b),
                survivors: c,
            }),
            GONE => Answer::Report(Report::Gone { id, left: a }),
            SPAWN_FAILED => {
                let stage = match a {
                    0 => SpawnStage::Directory,
                    1 => SpawnStage::Program,
                    2 => SpawnStage::Interpreter,
                    3 => SpawnStage::Process,
                    _ => return None,
                };
                let errno = b.cast_signed();
                Answer::Report(Report::SpawnFailed { id, stage, errno, what: text })
            }
            _ => return None,
        })
    }
}

/// Answers on their way to the harness. Never blocks; what the socket does not take now waits here.
/// A reaper has at most three; the host reads no more requests while it has many.
pub(crate) struct Outbox {
    waiting: VecDeque<Answer>,
}

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox { waiting: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, answer: Answer) {
        self.waiting.push_back(answer);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends what the socket takes. A harness that is gone needs no answers: they are dropped.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) {
        while let Some(answer) = self.waiting.front() {
            match send(socket, &answer.encode(), &mut SendAncillaryBuffer::default()) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return,
                Err(_) => self.waiting.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
