//! Switches on the callbacks of listeners that are older than the programs.
//!
//! A program that the kernel runs once for each TCP socket does for these listeners what
//! `handshake` does at `listen`. It is short, and written in the kernel's instructions, since it
//! needs a number that only the running kernel knows: the type of its iterators.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use aya::Btf;
use aya_obj::btf::BtfKind;

use crate::CaptureError;
use crate::sys::{self, Instruction};

/// Switches on the callbacks of the listeners in the caller's network namespace whose ports are
/// keys of the table `fronted`. Needs Linux 6.12 with type information. Older kernels run the
/// program and refuse the change, which is an error here, too.
pub(super) fn switch_on(fronted: BorrowedFd<'_>) -> Result<(), CaptureError> {
    switch(fronted, WRITE_HDR_OPT)
}

fn switch(fronted: BorrowedFd<'_>, callback: i32) -> Result<(), CaptureError> {
    let types = Btf::from_sys_fs().map_err(|error| CaptureError::NoIterator(error.to_string()))?;
    let function = types
        .id_by_type_name_kind("bpf_iter_tcp", BtfKind::Func)
        .map_err(|error| CaptureError::NoIterator(error.to_string()))?;
    let program = program(fronted.as_raw_fd(), callback);
    sys::for_each_tcp_socket(&program, function).map_err(|error| {
        match error.kind() {
            io::ErrorKind::PermissionDenied => CaptureError::NotPermitted(error),
            // The program itself returns this error.
            io::ErrorKind::WouldBlock => {
                CaptureError::NoIterator("it refuses to change a listener's callbacks".to_owned())
            }
            _ => CaptureError::NoIterator(error.to_string()),
        }
    })
}

/// Returns the program, with the table's descriptor and the callback to switch on. When it returns
/// 1, the kernel ends the iteration, and reading the iterator fails with EAGAIN.
///
/// ```c
/// struct sock_common *sk = ctx->sk_common;
/// __u32 port, flags;
///
/// if (!sk || sk->skc_state != TCP_LISTEN)
///         return 0;
/// port = sk->skc_num;
/// if (!bpf_map_lookup_elem(&FRONTED, &port))
///         return 0;
/// if (bpf_getsockopt(sk, IPPROTO_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
///         return 1;
/// flags |= callback;
/// if (bpf_setsockopt(sk, IPPROTO_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
///         return 1;
/// return 0;
/// ```
fn program(fronted: i32, callback: i32) -> [Instruction; LENGTH] {
    let end = |from: i16| LENGTH as i16 - 5 - from;
    let failed = |from: i16| LENGTH as i16 - 3 - from;
    [
        Instruction(LOAD_8, 0x16, SK_COMMON, 0), // r6 = ctx->sk_common
        Instruction(IF_ZERO, 0x06, end(1), 0),   // if (!r6) goto end
        Instruction(LOAD_1, 0x61, STATE, 0),     // r1 = r6->skc_state
        Instruction(IF_NOT, 0x01, end(3), LISTEN), // if (r1 != TCP_LISTEN) goto end
        Instruction(LOAD_2, 0x61, NUM, 0),       // r1 = r6->skc_num
        Instruction(STORE_4, 0x1a, PORT, 0),     // port = r1
        Instruction(MOVE, 0xa2, 0, 0),           // r2 = &port
        Instruction(ADD, 0x02, 0, PORT as i32),
        Instruction(LOAD_TABLE, 0x11, 0, fronted), // r1 = &FRONTED
        Instruction(0, 0, 0, 0),
        Instruction(CALL, 0, 0, MAP_LOOKUP_ELEM),
        Instruction(IF_ZERO, 0x00, end(11), 0), // if (!r0) goto end
        Instruction(STORE_4_VALUE, 0x0a, FLAGS, 0),
        Instruction(MOVE, 0x61, 0, 0), // r1 = r6
        Instruction(SET, 0x02, 0, libc::IPPROTO_TCP),
        Instruction(SET, 0x03, 0, SOCK_OPS_CB_FLAGS),
        Instruction(MOVE, 0xa4, 0, 0), // r4 = &flags
        Instruction(ADD, 0x04, 0, FLAGS as i32),
        Instruction(SET, 0x05, 0, 4),
        Instruction(CALL, 0, 0, GETSOCKOPT),
        Instruction(IF_NOT, 0x00, failed(20), 0), // if (r0) goto failed
        Instruction(LOAD_4, 0xa1, FLAGS, 0),      // r1 = flags
        Instruction(OR, 0x01, 0, callback),
        Instruction(STORE_4, 0x1a, FLAGS, 0), // flags = r1
        Instruction(MOVE, 0x61, 0, 0),        // r1 = r6
        Instruction(SET, 0x02, 0, libc::IPPROTO_TCP),
        Instruction(SET, 0x03, 0, SOCK_OPS_CB_FLAGS),
        Instruction(MOVE, 0xa4, 0, 0), // r4 = &flags
        Instruction(ADD, 0x04, 0, FLAGS as i32),
        Instruction(SET, 0x05, 0, 4),
        Instruction(CALL, 0, 0, SETSOCKOPT),
        Instruction(IF_NOT, 0x00, failed(31), 0), // if (r0) goto failed
        Instruction(SET, 0x00, 0, 0),             // end: r0 = 0
        Instruction(EXIT, 0, 0, 0),
        Instruction(SET, 0x00, 0, 1), // failed: r0 = 1
        Instruction(EXIT, 0, 0, 0),
    ]
}

const LENGTH: usize = 36;

/// Codes of instructions, those on whole registers.
///
/// Source: RFC 9669 §§4, 5.
const LOAD_8: u8 = 0x79;
const LOAD_4: u8 = 0x61;
const LOAD_2: u8 = 0x69;
const LOAD_1: u8 = 0x71;
const LOAD_TABLE: u8 = 0x18;
const STORE_4: u8 = 0x63;
const STORE_4_VALUE: u8 = 0x62;
const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const OR: u8 = 0x47;
const IF_ZERO: u8 = 0x15;
const IF_NOT: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Functions of the kernel, by `enum bpf_func_id`.
const MAP_LOOKUP_ELEM: i32 = 1;
const SETSOCKOPT: i32 = 49;
const GETSOCKOPT: i32 = 57;
/// `TCP_BPF_SOCK_OPS_CB_FLAGS` and `BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG`.
const SOCK_OPS_CB_FLAGS: i32 = 1008;
const WRITE_HDR_OPT: i32 = 64;
/// `TCP_LISTEN`.
const LISTEN: i32 = 10;
/// Place of the socket in the iterator's context, `struct bpf_iter__tcp`.
const SK_COMMON: i16 = 8;
/// Places of `skc_num` and `skc_state` in `struct sock_common`, since Linux 3.13. The verifier
/// checks them by the kernel's type information.
const NUM: i16 = 14;
const STATE: i16 = 18;
/// Places on the stack.
const PORT: i16 = -4;
const FLAGS: i16 = -8;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsFd as _;

    use hawser_wire::KeyHint;

    use super::*;
    use crate::discovery::{Bonds, FrontedPort};
    use crate::{Discovery, RunGroup};

    /// Programs that front a listener older than themselves; `None`, with a report, where the
    /// machine forbids them.
    fn fronting(test: &str) -> Option<(Discovery, RunGroup, TcpListener)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = FrontedPort {
            port: listener.local_addr().unwrap().port(),
            interfaces: 1,
            key_hint: KeyHint(*b"key-hint"),
            bonds: Bonds::Refused,
        };
        let started = RunGroup::create().and_then(|group| {
            let mut discovery = Discovery::start(group.path())?;
            discovery.set_fronted(&[port])?;
            switch_on(discovery.tables.fronted_table.as_fd())?;
            Ok((discovery, group))
        });
        match started {
            Ok((discovery, group)) => Some((discovery, group, listener)),
            Err(error) => {
                hawser_skip::skip(test, &error.to_string());
                None
            }
        }
    }

    #[test]
    fn a_kernel_that_refuses_the_change_is_an_error_where_there_is_a_listener() {
        let test = "a_kernel_that_refuses_the_change_is_an_error_where_there_is_a_listener";
        let Some((discovery, _group, _listener)) = fronting(test) else {
            return;
        };
        let table = discovery.tables.fronted_table.as_fd();
        let error = switch(table, NO_CALLBACK).unwrap_err().to_string();
        assert!(
            error.ends_with("refuses to change a listener's callbacks"),
            "{error}"
        );
    }

    /// A callback that no kernel knows.
    const NO_CALLBACK: i32 = 1 << 30;
}
