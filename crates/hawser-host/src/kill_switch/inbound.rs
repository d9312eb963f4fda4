//! TCP connections that other hosts have made to this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection: the local address, and the remote one.
pub(super) type Connection = (SocketAddr, SocketAddr);

/// Returns the connections that are open now, in this network namespace. A connection counts as
/// inbound if this machine listens on its port.
///
/// Blocks for the time that the kernel takes to list all sockets.
pub(super) fn connections() -> Vec<Connection> {
    let mut text = String::new();
    for file in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        // A machine may lack one of the families.
        text.push_str(&std::fs::read_to_string(file).unwrap_or_default());
    }
    inbound(&text)
}

/// Reads the kernel's socket table: a number, both addresses, the state, and more.
fn inbound(text: &str) -> Vec<Connection> {
    let row = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, remote) = (address(words.next()?)?, address(words.next()?)?);
        Some((local, remote, u8::from_str_radix(words.next()?, 16).ok()?))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    let listening = rows.iter().filter(|(_, _, state)| *state == LISTEN);
    let ports: BTreeSet<u16> = listening.map(|(local, _, _)| local.port()).collect();
    let is_inbound = |(local, remote, state): &(SocketAddr, SocketAddr, u8)| {
        OPEN.contains(state) && ports.contains(&local.port()) && !remote.ip().is_loopback()
    };
    let inbound = rows.into_iter().filter(is_inbound);
    let inbound = inbound.map(|(local, remote, _)| (local, remote));
    inbound.take(MAX_CONNECTIONS).collect()
}

/// Reads `0100007F:0016`: the address as 32-bit words in host byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = digits
        .as_bytes()
        .chunks(8)
        .map(|word| {
            let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
            Some(word.to_ne_bytes())
        })
        .collect();
    let bytes = words?.concat();
    let address: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(address.to_canonical(), port))
}

/// Socket states, by the kernel's numbers: established, and those of a closing connection.
const OPEN: [u8; 6] = [1, 4, 5, 8, 9, 11];
const LISTEN: u8 = 10;
/// Most connections that are kept; others have to be made again.
const MAX_CONNECTIONS: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats an address like the kernel of a machine with this byte order.
    fn written(address: SocketAddr) -> String {
        let bytes = match address.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let word = |word: &[u8]| u32::from_ne_bytes(word.try_into().unwrap());
        let words = bytes.chunks(4).map(|it| format!("{:08X}", word(it)));
        format!("{}:{:04X}", words.collect::<String>(), address.port())
    }

    fn row(local: &str, remote: &str, state: u8) -> String {
        let [local, remote] = [local, remote].map(|it| written(it.parse().unwrap()));
        format!("   0: {local} {remote} {state:02X} 00000000:00000000 00:00000000 00000000 0\n")
    }

    #[test]
    fn connections_to_listening_ports_are_inbound() {
        let text = [
            "  sl  local_address rem_address   st tx_queue rx_queue\n".to_owned(),
            row("0.0.0.0:22", "0.0.0.0:0", LISTEN),
            row("[::]:443", "[::]:0", LISTEN),
            row("192.0.2.1:22", "198.51.100.7:4000", 1),
            row("192.0.2.1:22", "198.51.100.7:4001", 6),
            row("192.0.2.1:50000", "198.51.100.7:22", 1),
            row("127.0.0.1:22", "127.0.0.1:4000", 1),
            row("[::ffff:192.0.2.1]:443", "[::ffff:198.51.100.8]:5000", 8),
            row("[2001:db8::1]:443", "[2001:db8::2]:6000", 1),
            "nonsense\n 1: 2:3 4:5 6\n".to_owned(),
        ];
        let expected = [
            ("192.0.2.1:22", "198.51.100.7:4000"),
            ("192.0.2.1:443", "198.51.100.8:5000"),
            ("[2001:db8::1]:443", "[2001:db8::2]:6000"),
        ];
        let expected = expected.map(|(local, remote)| {
            let read = |text: &str| text.parse::<SocketAddr>().unwrap();
            (read(local), read(remote))
        });
        assert_eq!(inbound(&text.concat()), expected);
    }

    #[test]
    fn this_machines_own_are_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let text = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
        let rows = text
            .lines()
            .filter_map(|line| address(line.split_whitespace().nth(1)?));
        let own = listener.local_addr().unwrap();
        assert!(rows.into_iter().any(|local| local == own), "{text}");
    }
}
