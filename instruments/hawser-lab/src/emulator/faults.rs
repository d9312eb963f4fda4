//! Faults of a link that its owner switches on while packets pass.

use std::time::Duration;

use hawser_scenario::{Forgotten, TcpOption};
use hawser_types::{ByteCount, Instant, Rate};

use super::packet::{self, ETHERNET_HEADER};
use super::ports::{Flow, Ports};
use super::strip;
use crate::scenario::Direction;

/// Faults of a link beyond what its scenario says; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing that the client sends arrives.
    pub up_dead: bool,
    /// Nothing that the server sends arrives.
    pub down_dead: bool,
    /// Rate of UDP that passes, in each direction; zero for none, `None` for all that comes.
    pub udp: Option<Rate>,
    /// Segments with TCP options other than the common ones vanish.
    pub drops_options: bool,
    /// Size of the largest IP packet that passes; `None` for every size.
    pub largest_packet: Option<ByteCount>,
    /// Translation of the client's ports.
    pub translator: Option<Translator>,
}

/// A translator of ports that gives each connection of the client a port of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translator {
    /// Time after a connection's last packet, in either direction, when it is forgotten.
    pub forget: Duration,
    /// Handling of the client's TCP segments of a forgotten connection.
    pub then: Forgotten,
    /// The translator forgets all connections at once whenever this number changes.
    pub reboots: u32,
}

/// The state behind the faults of one link.
#[derive(Debug, Default)]
pub(super) struct Filter {
    ports: Ports,
    reboots: u32,
    /// UDP that passed lately: up, down.
    passed: [Bucket; 2],
}

impl Filter {
    /// Lets a frame pass, with its ports translated, or returns false.
    pub(super) fn pass(
        &mut self,
        faults: &Faults,
        now: Instant,
        direction: Direction,
        frame: &mut [u8],
    ) -> bool {
        let is_dead = match direction {
            Direction::Put => faults.up_dead,
            Direction::Get => faults.down_dead,
        };
        let size = ByteCount::from(frame.len().saturating_sub(ETHERNET_HEADER));
        let fits = faults.largest_packet.is_none_or(|largest| size <= largest);
        if is_dead || !fits || faults.drops_options && strip::holds(frame, &[TcpOption::Unknown]) {
            return false;
        }
        let Some(packet) = packet::ipv4(frame) else {
            return true;
        };
        let is_udp = matches!(packet::transport(packet), Some((packet::UDP, _)));
        if let Some(rate) = faults.udp.filter(|_| is_udp)
            && !self.passed[usize::from(direction == Direction::Get)].take(now, rate, size)
        {
            return false;
        }
        let translator = faults.translator;
        translator.is_none_or(|it| self.translate(it, now, direction, packet))
    }

    fn translate(
        &mut self,
        translator: Translator,
        now: Instant,
        direction: Direction,
        packet: &mut [u8],
    ) -> bool {
        if self.reboots != translator.reboots {
            self.reboots = translator.reboots;
            self.ports.forget_all();
        }
        let Some(flow) = Flow::of(packet, direction) else {
            return true;
        };
        let port = match direction {
            Direction::Put => {
                let may_begin = !flow.is_tcp_within() || translator.then == Forgotten::Reset;
                self.ports.outwards(now, translator.forget, flow, may_begin)
            }
            Direction::Get => self.ports.inwards(now, translator.forget, flow),
        };
        let Some(port) = port else {
            return false;
        };
        flow.rewrite(packet, direction, port);
        true
    }
}

/// Bytes that passed and have not leaked away at the rate yet.
#[derive(Debug, Default)]
struct Bucket {
    level: u64,
    at: Option<Instant>,
}

impl Bucket {
    /// Takes a packet in, or returns false where it is one too many.
    fn take(&mut self, now: Instant, rate: Rate, size: ByteCount) -> bool {
        let since = self.at.map_or(Duration::ZERO, |at| now.since(at));
        self.at = Some(now);
        self.level = self.level.saturating_sub((rate * since).as_u64());
        let level = self.level + size.as_u64();
        let passes = rate > Rate::ZERO && level <= BURST;
        if passes {
            self.level = level;
        }
        passes
    }
}

/// Bytes of UDP that pass at once where their rate is limited.
const BURST: u64 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of the client to the server, or the answer to it; nothing of it is summed.
    fn frame(protocol: u8, direction: Direction, port: u16, length: usize) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_HEADER + length];
        frame[12] = 8;
        frame[ETHERNET_HEADER] = 0x45;
        frame[ETHERNET_HEADER + 9] = protocol;
        let at = ETHERNET_HEADER + 20;
        let (client, server) = match direction {
            Direction::Put => (at, at + 2),
            Direction::Get => (at + 2, at),
        };
        frame[client..client + 2].copy_from_slice(&port.to_be_bytes());
        frame[server..server + 2].copy_from_slice(&7443_u16.to_be_bytes());
        frame
    }

    fn client_port(frame: &[u8], direction: Direction) -> u16 {
        let at = ETHERNET_HEADER + 20 + if direction == Direction::Put { 0 } else { 2 };
        u16::from_be_bytes([frame[at], frame[at + 1]])
    }

    fn translator(then: Forgotten) -> Faults {
        Faults {
            translator: Some(Translator {
                forget: Duration::from_secs(30),
                then,
                reboots: 0,
            }),
            ..Faults::default()
        }
    }

    #[test]
    fn one_direction_alone_can_be_dead() {
        let faults = Faults {
            down_dead: true,
            ..Faults::default()
        };
        let mut filter = Filter::default();
        for (direction, passes) in [(Direction::Put, true), (Direction::Get, false)] {
            let mut frame = frame(packet::TCP, direction, 1, 40);
            let now = Instant::from_nanos(0);
            assert_eq!(filter.pass(&faults, now, direction, &mut frame), passes);
        }
    }

    #[test]
    fn limited_udp_passes_at_its_rate_and_tcp_at_any() {
        let faults = Faults {
            udp: Some("200kbit/s".parse().unwrap()),
            ..Faults::default()
        };
        let mut filter = Filter::default();
        let mut passed = |protocol| {
            // A thousand bytes each millisecond, for ten seconds.
            let passed = (0..10_000_u64).filter(|millis| {
                let now = Instant::from_nanos(millis * 1_000_000);
                let mut frame = frame(protocol, Direction::Put, 1, 1000);
                filter.pass(&faults, now, Direction::Put, &mut frame)
            });
            passed.count()
        };
        let udp = passed(packet::UDP);
        assert!((250..=258).contains(&udp), "{udp}");
        assert_eq!(passed(packet::TCP), 10_000);
    }

    #[test]
    fn a_forgotten_connection_gets_another_port_or_vanishes() {
        for (then, lives) in [(Forgotten::Reset, true), (Forgotten::Silence, false)] {
            let faults = translator(then);
            let mut filter = Filter::default();
            let mut send = |seconds: u64, direction, protocol, flags, port| {
                let now = Instant::from_nanos(seconds * 1_000_000_000);
                let mut frame = frame(protocol, direction, port, 60);
                frame[ETHERNET_HEADER + 33] = flags;
                let passes = filter.pass(&faults, now, direction, &mut frame);
                passes.then(|| client_port(&frame, direction))
            };
            let first = send(0, Direction::Put, packet::TCP, SYN, 5000).unwrap();
            assert_ne!(first, 5000);
            assert_eq!(
                send(20, Direction::Get, packet::TCP, ACK, first),
                Some(5000)
            );
            assert_eq!(
                send(40, Direction::Put, packet::TCP, ACK, 5000),
                Some(first)
            );
            assert_eq!(send(71, Direction::Get, packet::TCP, ACK, first), None);
            let later = send(71, Direction::Put, packet::TCP, ACK, 5000);
            assert_eq!(later.is_some(), lives);
            assert_ne!(later, Some(first));
            // A datagram begins something new in any case.
            let datagram = send(71, Direction::Put, packet::UDP, 0, 5000).unwrap();
            assert_ne!(datagram, first);
        }
    }

    #[test]
    fn a_reboot_changes_the_ports_of_all_connections() {
        let mut faults = translator(Forgotten::Reset);
        let mut filter = Filter::default();
        let now = Instant::from_nanos(0);
        let mut port = |faults: &Faults| {
            let mut frame = frame(packet::UDP, Direction::Put, 5000, 60);
            assert!(filter.pass(faults, now, Direction::Put, &mut frame));
            client_port(&frame, Direction::Put)
        };
        let first = port(&faults);
        assert_eq!(port(&faults), first);
        faults.translator.as_mut().unwrap().reboots = 1;
        assert_ne!(port(&faults), first);
    }

    proptest::proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut frame in proptest::collection::vec(0_u8..=255, 0..80)) {
            let faults = Faults {
                udp: Some(Rate::ZERO),
                drops_options: true,
                ..translator(Forgotten::Reset)
            };
            let now = Instant::from_nanos(0);
            Filter::default().pass(&faults, now, Direction::Put, &mut frame);
            Filter::default().pass(&faults, now, Direction::Get, &mut frame);
        }
    }

    const SYN: u8 = 2;
    const ACK: u8 = 16;
}
