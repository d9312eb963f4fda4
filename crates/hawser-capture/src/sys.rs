//! The system calls without a safe wrapper. All `unsafe` of this crate is here and in `tables.rs`.

use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use tokio::io::unix::AsyncFd;

/// The ring of events, as a pollable object.
pub(crate) struct Ring(pub(crate) RingBuf<MapData>);

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns its descriptor and holds it for as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

impl AsRawFd for Ring {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Deref for Ring {
    type Target = RingBuf<MapData>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Ring {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Ring {
    /// Registers the ring with the runtime.
    pub(crate) fn watch(self) -> io::Result<AsyncFd<Self>> {
        // SAFETY: the descriptor is the ring's own, is open as long as the ring lives, and is never
        // exchanged for another.
        unsafe { AsyncFd::register(self) }.map_err(|error| error.into_parts().1)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ring").field(&self.0.as_raw_fd()).finish()
    }
}

/// Returns the release of the running kernel, such as `6.1.0-25-amd64`.
pub(crate) fn kernel_release() -> String {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the kernel fills the struct, which is all zeros where it does not.
    let names = unsafe {
        libc::uname(names.as_mut_ptr());
        names.assume_init()
    };
    // SAFETY: the field ends with a zero, the kernel's or ours.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    release.to_string_lossy().into_owned()
}

/// Returns the cookie of a socket, which is never reused.
pub(crate) fn socket_cookie(socket: impl AsFd) -> io::Result<u64> {
    read_u64(socket, libc::SO_COOKIE)
}

/// Returns the cookie of a socket's network namespace, which is never reused.
pub(crate) fn namespace_cookie(socket: impl AsFd) -> io::Result<u64> {
    read_u64(socket, SO_NETNS_COOKIE)
}

fn read_u64(socket: impl AsFd, option: libc::c_int) -> io::Result<u64> {
    let mut value = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `value`.
    let code = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    match code {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Since Linux 5.14; not in every version of the libc crate.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// Makes `command` write itself into `members`, the process list of a control group, before its
/// program begins.
pub(crate) fn start_in(command: &mut Command, members: File) {
    let join = move || {
        // SAFETY: the descriptor is open, since the closure owns the file; the bytes are static.
        match unsafe { libc::write(members.as_raw_fd(), c"0".as_ptr().cast(), 1) } {
            1 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec it only calls write, and allocates nothing.
    unsafe { command.pre_exec(join) };
}

/// Waits until the kernel reports a change of `file`, at most for this time.
pub(crate) fn wait_for_change(file: &File, at_most: Duration) {
    let mut wanted = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLPRI,
        revents: 0,
    };
    let millis = libc::c_int::try_from(at_most.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: one entry, which lives until the call returns. A failure only ends the wait.
    unsafe { libc::poll(&raw mut wanted, 1, millis) };
}

/// Reads the clock that the kernel's programs use for connections (`CLOCK_MONOTONIC`).
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(libc::CLOCK_MONOTONIC)
}

/// Reads the clock that continues while the machine is suspended (`CLOCK_BOOTTIME`).
pub(crate) fn boot_nanos() -> u64 {
    nanos(libc::CLOCK_BOOTTIME)
}

fn nanos(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `now`; these clocks exist everywhere.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default()
}

/// An instruction of a program in the kernel: code, registers (source << 4 | destination), offset
/// and immediate value.
///
/// Source: RFC 9669 §3.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Instruction(pub(crate) u8, pub(crate) u8, pub(crate) i16, pub(crate) i32);

/// Runs a program once for each TCP socket of the caller's network namespace. `function` is the
/// kernel's number of the type of its iterators.
///
/// Source: the kernel's `Documentation/bpf/bpf_iterators.rst` and `union bpf_attr`.
pub(crate) fn for_each_tcp_socket(program: &[Instruction], function: u32) -> io::Result<()> {
    let load = LoadProgram {
        kind: PROGRAM_TRACING,
        count: u32::try_from(program.len()).unwrap_or(u32::MAX),
        program: program.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        attached_as: ATTACHED_AS_ITERATOR,
        function,
        ..LoadProgram::default()
    };
    let program = bpf(COMMAND_LOAD, &load)?;
    let program = program.as_raw_fd().unsigned_abs();
    let link = bpf(
        COMMAND_LINK,
        &[program, 0, ATTACHED_AS_ITERATOR, 0, 0, 0, 0, 0],
    )?;
    let iterator = bpf(COMMAND_ITERATE, &[link.as_raw_fd().unsigned_abs(), 0])?;
    // The iterator works while it is read, and returns no text.
    io::copy(&mut File::from(iterator), &mut io::sink())?;
    Ok(())
}

/// Makes a system call whose result is a descriptor.
fn bpf<A>(command: libc::c_int, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<A>()` bytes of attributes that are plain numbers without
    // gaps; the addresses in them are of values that live until the call returns.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<A>(),
        )
    };
    match RawFd::try_from(result) {
        // SAFETY: these commands return a new descriptor, which has no other owner.
        Ok(descriptor @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Attributes of the command that loads a program.
#[derive(Default)]
#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    program: u64,
    license: u64,
    log: [u32; 4],
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attached_as: u32,
    types: [u32; 2],
    functions: [u32; 4],
    lines: [u32; 3],
    function: u32,
    of_program: u32,
    unused: u32,
}

const COMMAND_LOAD: libc::c_int = 5;
const COMMAND_LINK: libc::c_int = 28;
const COMMAND_ITERATE: libc::c_int = 33;
const PROGRAM_TRACING: u32 = 26;
const ATTACHED_AS_ITERATOR: u32 = 28;
