//! Extended attributes, access control lists among them.

use std::ffi::CStr;
use std::fs::File;

use rustix::fs::{
    XattrFlags, fgetxattr, fgetxattr_query, flistxattr, flistxattr_query, fremovexattr, fsetxattr,
};
use rustix::io::Errno;

const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// What a write into the file would drop or make wrong as well.
const OF_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];

/// Gives `to` the attributes of `from`.
pub(super) fn copy(from: &File, to: &File) -> rustix::io::Result<()> {
    let mut has_access_list = false;
    for name in names(from)? {
        has_access_list |= name.as_c_str() == ACCESS_LIST;
        if OF_CONTENT.contains(&name.to_bytes()) {
            continue;
        }
        let mut value = vec![0; fgetxattr_query(from, &name)?];
        let length = fgetxattr(from, &name, &mut value[..])?;
        match fsetxattr(to, &name, &value[..length], XattrFlags::empty()) {
            // Labels and trusted attributes are the administrator's to set.
            Err(_) if !is_users_own(name.to_bytes()) => {}
            set => set?,
        }
    }
    if !has_access_list {
        // The folder's default list came with the new file; the old one had none.
        match fremovexattr(to, ACCESS_LIST) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn is_users_own(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name.starts_with(b"system.")
}

fn names(file: &File) -> rustix::io::Result<Vec<std::ffi::CString>> {
    let length = match flistxattr_query(file) {
        Ok(0) | Err(Errno::NOTSUP) => return Ok(Vec::new()),
        found => found?,
    };
    let mut list = vec![0_u8; length];
    let length = flistxattr(file, &mut list[..])?;
    let names = list[..length].split_inclusive(|byte| *byte == 0);
    Ok(names.filter_map(|name| CStr::from_bytes_with_nul(name).ok().map(CStr::to_owned)).collect())
}
