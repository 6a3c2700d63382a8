//! A command's byte form: a header, then NUL-terminated strings that `execve` can be given where
//! they lie.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;

use crate::{CommandSpec, MAX_SPEC_BYTES, SandboxError};

/// The byte form of a command.
///
/// # Errors
/// [`SandboxError::Spec`] for what `execve` cannot take: no program, a NUL byte, an environment
/// name that is empty or has a `=`, a relative directory, more than [`MAX_SPEC_BYTES`].
pub(crate) fn encode(command: &CommandSpec) -> Result<Vec<u8>, SandboxError> {
    if command.argv.first().is_none_or(|program| program.is_empty()) {
        return Err(SandboxError::Spec("no program; argv[0] must name one".into()));
    }
    if !command.cwd.is_absolute() {
        let cwd = command.cwd.display();
        return Err(SandboxError::Spec(format!("working directory {cwd} is not absolute")));
    }
    let mut bytes = Vec::with_capacity(4096);
    for count in [command.argv.len(), command.env.len()] {
        let count = u32::try_from(count).map_err(|_| too_large())?;
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    push_string(&mut bytes, &[command.cwd.as_os_str().as_bytes()], "the working directory")?;
    for argument in &command.argv {
        push_string(&mut bytes, &[argument.as_bytes()], "an argument")?;
    }
    for (name, value) in &command.env {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            let name = name.display();
            return Err(SandboxError::Spec(format!("environment name {name:?} is not valid")));
        }
        push_string(&mut bytes, &[name.as_bytes(), b"=", value.as_bytes()], "a variable")?;
    }
    Ok(bytes)
}

fn push_string(bytes: &mut Vec<u8>, parts: &[&[u8]], what: &str) -> Result<(), SandboxError> {
    for part in parts {
        if part.contains(&0) {
            return Err(SandboxError::Spec(format!("{what} contains a NUL byte")));
        }
        bytes.extend_from_slice(part);
    }
    bytes.push(0);
    if bytes.len() > MAX_SPEC_BYTES { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> SandboxError {
    SandboxError::Spec(format!(
        "arguments and environment exceed {MAX_SPEC_BYTES} bytes; pass the data in a file"
    ))
}

/// A decoded command; its strings lie in the byte form.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded<'a> {
    pub(crate) cwd: &'a CStr,
    pub(crate) argv: Vec<&'a CStr>,
    pub(crate) env: Vec<&'a CStr>,
}

impl<'a> Decoded<'a> {
    /// Absent when the bytes are not what [`encode`] writes.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Decoded<'a>> {
        let (argc, rest) = bytes.split_first_chunk::<4>()?;
        let (envc, mut rest) = rest.split_first_chunk::<4>()?;
        let (cwd, tail) = split_string(rest)?;
        rest = tail;
        let mut take = |count: &[u8; 4]| {
            let count = u32::from_le_bytes(*count);
            let mut strings = Vec::new();
            for _ in 0..count {
                let (string, tail) = split_string(rest)?;
                strings.push(string);
                rest = tail;
            }
            Some(strings)
        };
        let decoded = Decoded { cwd, argv: take(argc)?, env: take(envc)? };
        (rest.is_empty() && !decoded.argv.is_empty()).then_some(decoded)
    }

    /// The files to try, in order: the program itself when it has a `/`, else one per absolute
    /// entry of `PATH`. Relative entries are skipped: they would run what a checkout contains.
    pub(crate) fn candidates(&self) -> Vec<CString> {
        let program = self.argv.first().map_or(&b""[..], |program| program.to_bytes());
        if program.contains(&b'/') {
            return CString::new(program).into_iter().collect();
        }
        let path = self.env.iter().find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="));
        path.unwrap_or_default()
            .split(|byte| *byte == b':')
            .filter(|directory| directory.starts_with(b"/"))
            .filter_map(|directory| CString::new([directory, b"/", program].concat()).ok())
            .collect()
    }
}

fn split_string(bytes: &[u8]) -> Option<(&CStr, &[u8])> {
    let string = CStr::from_bytes_until_nul(bytes).ok()?;
    bytes.get(string.to_bytes_with_nul().len()..).map(|tail| (string, tail))
}

#[cfg(test)]
mod tests;
