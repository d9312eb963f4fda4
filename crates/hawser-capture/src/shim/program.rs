//! Detection of programs that do not load the shim.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Reason why a program does not load the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unaffected {
    /// The program is statically linked, without a loader.
    #[error("it is linked statically")]
    Static,
    /// The program's loader ignores `LD_PRELOAD`.
    #[error("it runs as another user")]
    Privileged,
    /// The program is for another processor or word size.
    #[error("it is for another processor or word size than this hawser")]
    Foreign,
}

/// Examines the program at `path`, and its interpreter if it is a script.
///
/// `Ok(None)`: the program loads the shim, or there is no sign that it does not.
///
/// # Errors
/// When the file cannot be read.
pub fn unaffected(path: &Path) -> io::Result<Option<Unaffected>> {
    let (head, metadata) = head(path)?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.mode() & SET_USER != 0 && metadata.uid() != own {
        return Ok(Some(Unaffected::Privileged));
    }
    match interpreter(&head) {
        // One step only: interpreters are not scripts.
        Some(interpreter) => Ok(elf(&self::head(Path::new(interpreter))?.0)),
        None => Ok(elf(&head)),
    }
}

fn head(path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_HEAD).read_to_end(&mut bytes)?;
    Ok((bytes, fs::metadata(path)?))
}

/// Returns the interpreter in a script's first line.
fn interpreter(head: &[u8]) -> Option<&str> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    std::str::from_utf8(line).ok()?.split_whitespace().next()
}

/// Reads the header and the program headers of an ELF file; other or damaged files are left to the
/// kernel.
fn elf(head: &[u8]) -> Option<Unaffected> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let own = OWN.as_slice();
    if head.get(4..6) != own.get(..2) || head.get(18..20) != own.get(2..) {
        return Some(Unaffected::Foreign);
    }
    let wide = own.first() == Some(&WIDE);
    let number = |at: usize, length: usize| -> Option<usize> {
        let mut bytes = [0; 8];
        let from = head.get(at..at.checked_add(length)?)?;
        let place = if cfg!(target_endian = "big") {
            8 - length
        } else {
            0
        };
        bytes.get_mut(place..place + length)?.copy_from_slice(from);
        usize::try_from(u64::from_ne_bytes(bytes)).ok()
    };
    let [table, size, count] = if wide {
        [number(32, 8)?, number(54, 2)?, number(56, 2)?]
    } else {
        [number(28, 4)?, number(42, 2)?, number(44, 2)?]
    };
    for index in 0..count {
        let kind = number(table.checked_add(index.checked_mul(size)?)?, 4)?;
        if kind == PT_INTERP {
            return None;
        }
    }
    Some(Unaffected::Static)
}

/// Width, byte order and processor of this program, as ELF has them.
const OWN: [u8; 4] = {
    let order = if cfg!(target_endian = "big") { 2 } else { 1 };
    let width = if cfg!(target_pointer_width = "64") {
        WIDE
    } else {
        1
    };
    let machine: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else if cfg!(target_arch = "x86") {
        3
    } else if cfg!(target_arch = "arm") {
        40
    } else if cfg!(target_arch = "riscv64") {
        243
    } else {
        0
    };
    let [first, second] = machine.to_ne_bytes();
    [width, order, first, second]
};
const WIDE: u8 = 2;
const PT_INTERP: usize = 3;
const SET_USER: u32 = 0o4000;
/// Program headers follow the header.
const MAX_HEAD: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An ELF file with one program header of this kind.
    fn file(kind: u32) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.extend(&OWN[..2]);
        bytes.resize(120, 0);
        bytes[18..20].copy_from_slice(&OWN[2..]);
        bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&kind.to_ne_bytes());
        bytes
    }

    #[test]
    fn what_names_a_loader_is_loaded_dynamically() {
        assert_eq!(elf(&file(PT_INTERP as u32)), None);
        assert_eq!(elf(&file(1)), Some(Unaffected::Static));
        let mut foreign = file(1);
        foreign[18] ^= 0xff;
        assert_eq!(elf(&foreign), Some(Unaffected::Foreign));
        assert_eq!(elf(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn a_script_is_as_its_interpreter_is() {
        assert_eq!(interpreter(b"#! /bin/sh -e\nexit"), Some("/bin/sh"));
        assert_eq!(interpreter(b"\x7fELF"), None);
        let folder = tempfile::tempdir().unwrap();
        let [program, script] = ["program", "script"].map(|name| folder.path().join(name));
        fs::write(&program, file(1)).unwrap();
        fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        assert_eq!(unaffected(&script).unwrap(), Some(Unaffected::Static));
        assert!(unaffected(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn this_test_loads_it() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(unaffected(&own).unwrap(), None);
    }

    proptest! {
        #[test]
        fn arbitrary_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            let _ = interpreter(&bytes);
            if bytes.len() >= 20 {
                bytes[..4].copy_from_slice(b"\x7fELF");
                bytes[4..6].copy_from_slice(&OWN[..2]);
                bytes[18..20].copy_from_slice(&OWN[2..]);
            }
            let _ = elf(&bytes);
        }
    }
}
