//! Structs shared with the kernel's program, as in `bpf/tables.h` and `bpf/discovery.h`. The test
//! `layout` compares the two sides.

use std::net::{IpAddr, Ipv6Addr};

/// Declares structs with the memory layout of the kernel's program.
macro_rules! shared {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $type:ty),+ $(,)? })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $type),+ }

            // SAFETY: plain numbers and arrays of them, laid out as in C; any bytes are a value.
            unsafe impl aya::Pod for $name {}

            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: all zeros is a value of every such struct.
                    unsafe { std::mem::zeroed() }
                }
            }

            #[cfg(test)]
            impl $name {
                /// Returns the struct's name, size and field offsets, as the C side prints them.
                pub(crate) fn layout() -> String {
                    let mut text = format!("{} {}", stringify!($name), size_of::<Self>());
                    $({
                    let offset = std::mem::offset_of!(Self, $field);
                    text += &format!(" {}:{offset}", stringify!($field));
                })+
                    text
                }
            }
        )+

        #[cfg(test)]
        pub(crate) fn layouts() -> Vec<String> {
            vec![$($name::layout()),+]
        }
    };
}

shared! {
    /// One link; all zeros for an empty slot.
    LinkRow { up: u64, down: u64, latency: u64, name: [u8; 16], index: u32, unused: u32 }
    Links { at: [LinkRow; MAX_LINKS], ipv4: u32, ipv6: u32, metered: u32, unused: u32 }
    LoadRow { up: u64, down: u64, connections: u64, real_time: u64 }
    Loads { at: [LoadRow; MAX_LINKS] }
    DemandRow { up: u64, down: u64 }
    DemandKey { program: [u8; COMM], port_class: u32 }
    SettingsRow {
        netns: u64, introduction: u64, demand: [DemandRow; CLASSES], redirect4: [u8; 4],
        redirect6: [u8; 16], redirect4_port: u16, redirect6_port: u16, policy: u32,
        auto_mode: u32, process: u32, packets: u32, mark: u32, held: u32,
    }
    Action { class: u32, mode: u32, avoid: u32, links: u32, order: [u8; RULE_ORDER] }
    Rules {
        protocol: [u64; 2], dscp: [u64; 64], class: [u64; CLASSES], class_free: u64,
        program_free: u64, executable_free: u64, user_free: u64, cgroup_free: u64,
        address_free: u64, port_free: u64, sets_class: u64, sets_links: u64, sets_avoid: u64,
        sets_mode: u64, at: [Action; MAX_RULES],
    }
    ApplicationKey { program: [u8; COMM], user: u32 }
    ApplicationRow { program: u64, executable: u64 }
    FlowRow {
        demand: DemandRow, cgroup: u64, began: u64, established: u64, remote: [u8; 16],
        program: [u8; COMM], process: u32, user: u32, link: u32, place: u32, state: u32,
        port: u16, local_port: u16, class: u8, reason: u8, protocol: u8, redirected: u8,
        links: u16, dscp: u8, any_link: u8, sent: u64, received: u64,
    }
    RemainingRow { up: u64, down: u64, connections: u64 }
    OriginKey { port: u16, ipv6: u16 }
    OriginRow {
        remote: [u8; 16], cookie: u64, process: u32, user: u32, program: [u8; COMM], port: u16,
        dscp: u8, unused: [u8; 5],
    }
    PeerKey { remote: [u8; 16], port: u32 }
    NameServerRow { address: [u8; 16] }
    NamePort { port: u16, ipv6: u16 }
    EventRow { cookie: u64, at: u64, up: u64, down: u64, kind: u32, latency: u32, flow: FlowRow }
    AnnouncingRow {
        netns: u64, everywhere: u32, unused: u32, question: [[u8; QUESTION_ROOM]; OFFERS],
    }
    AvoidedKey { remote: [u8; 16], link: u32 }
    OwnRow { address: [u8; 16] }
    FrontedRow { answer: [u8; ANSWER_ROOM], paper: [u8; 8], bonds: u32, on: u32 }
    AttemptRow {
        remote: [u8; 16], question: [u8; QUESTION_ROOM], callbacks: u32, link: u32, written: u32,
        repeated: u32, asked: u32, rejected: u32, port: u16, by_socket: u16,
    }
    LearntRow {
        cookie: u64, at: u64, kind: u32, length: u32, options: [u8; MAX_OPTIONS],
        attempt: AttemptRow,
    }
}

/// Reads a row; `None` if `bytes` have another length.
pub(crate) fn read<R: aya::Pod>(bytes: &[u8]) -> Option<R> {
    // SAFETY: `bytes` are as long as a row, and any bytes are one.
    (bytes.len() == size_of::<R>())
        .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Returns an address as 16 bytes, IPv4 mapped into IPv6.
///
/// Source: RFC 4291 §2.5.5.2.
pub(crate) const fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Returns the address in 16 bytes; a mapped one as IPv4.
pub(crate) fn unmapped(bytes: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
}

/// Returns a process name as the kernel keeps it: cut to 15 bytes, padded with zeros.
pub(crate) fn comm(program: &str) -> [u8; COMM] {
    let mut comm = [0; COMM];
    for (to, from) in comm.iter_mut().zip(program.bytes().take(COMM - 1)) {
        *to = from;
    }
    comm
}

/// Reads a text up to the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// Maximum number of links in the table.
pub const MAX_LINKS: usize = 16;
/// Maximum number of rules in the kernel's program; further ones are left out.
pub const MAX_RULES: usize = 64;
pub(crate) const COMM: usize = 16;
pub(crate) const CLASSES: usize = 4;
pub(crate) const RULE_ORDER: usize = 8;

pub(crate) const FLOW_STARTED: u32 = 1;
pub(crate) const FLOW_ENDED: u32 = 2;
pub(crate) const FLOW_RELEASED: u32 = 4;

pub(crate) const EVENT_CONNECTED: u32 = 0;
pub(crate) const EVENT_ENDED: u32 = 1;
pub(crate) const EVENT_REFUSED: u32 = 2;

/// Bytes of a SYN's option, and of its answer, with room for padding.
pub(crate) const QUESTION_ROOM: usize = 12;
pub(crate) const ANSWER_ROOM: usize = 20;
/// Bytes of the options of the longest TCP header.
pub(crate) const MAX_OPTIONS: usize = 40;
/// Numbers of announcements in a SYN; 0 is no announcement.
pub(crate) const OFFER_THERE: u32 = 1;
pub(crate) const OFFER_BOND: u32 = 2;
pub(crate) const OFFER_PAPER: u32 = 3;
pub(crate) const OFFERS: usize = 4;

pub(crate) const BONDS_NONE: u32 = 0;
pub(crate) const BONDS_HERE: u32 = 1;
pub(crate) const BONDS_DIVERTED: u32 = 2;

pub(crate) const LOCAL_NOW: u64 = 1;
pub(crate) const LOCAL_ALWAYS: u64 = 2;
pub(crate) const PEER_BONDED: u32 = 1;
pub(crate) const PEER_HELD: u32 = 2;

pub(crate) const LEARNT_ANSWERED: u32 = 0;
pub(crate) const LEARNT_REPEATED: u32 = 1;

#[cfg(test)]
mod tests;
