use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use hawser_skip::namespace::in_namespace;
use hawser_tunnel::packet::PacketView;
use quinn_udp::{Transmit, UdpSockRef, UdpSocketState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::*;
use crate::tun::{Tun, TunAddresses, TunError, create, set_up};

/// Makes datagrams of one UDP flow, as [`Split`] does.
fn datagrams(count: usize) -> Vec<Bytes> {
    let payload = vec![7; 100 * count];
    let length = 28 + payload.len();
    let mut packet = vec![
        0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2,
    ];
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 1, 0, 2]);
    packet.extend_from_slice(&(length as u16 - 20).to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&payload);
    // A virtio header: the checksum is open, UDP is to be cut into pieces of 100 bytes.
    let mut frame = vec![1, 5, 28, 0, 100, 0, 20, 0, 6, 0];
    frame.extend_from_slice(&packet);
    let mut memory = TunMemory::new();
    memory.frame()[..frame.len()].copy_from_slice(&frame);
    let mut packets = Vec::new();
    let frames = Frames::new(TunFrames::TcpAndUdp);
    frames.take(&mut memory, frame.len(), &mut packets);
    assert_eq!(packets.len(), count);
    packets
}

/// Accepts frames, or refuses those of several packets, and notes how many packets each has.
fn kernel(refuses: bool, taken: &RefCell<Vec<usize>>) -> impl Write {
    move |frame: &[IoSlice<'_>]| {
        let packets = frame.len() - 1;
        if refuses && packets > 1 {
            return Err(Errno::INVAL);
        }
        taken.borrow_mut().push(packets);
        Ok(())
    }
}

#[test]
fn packets_of_a_flow_are_written_with_one_call() {
    let frames = Frames::new(TunFrames::TcpAndUdp);
    let taken = RefCell::default();
    let mut packets = datagrams(10);
    let written = frames.write_all(&kernel(false, &taken), &mut packets);
    let expected = Written {
        packets: 10,
        bytes: 10 * 128,
        dropped: 0,
    };
    assert_eq!(written, expected);
    assert_eq!((taken.take(), packets.len()), (vec![10], 0));
    let only_tcp = Frames::new(TunFrames::Tcp);
    only_tcp.write_all(&kernel(false, &taken), &mut datagrams(3));
    assert_eq!(taken.take(), [1, 1, 1]);
}

#[test]
fn frames_that_the_kernel_refuses_are_written_apart_and_soon_not_tried_any_more() {
    let frames = Frames::new(TunFrames::TcpAndUdp);
    let taken = RefCell::default();
    for _ in 0..MAX_REFUSED + 4 {
        let written = frames.write_all(&kernel(true, &taken), &mut datagrams(5));
        assert_eq!(
            (written.packets, written.bytes, written.dropped),
            (5, 5 * 128, 0)
        );
        assert_eq!(taken.take(), [1; 5]);
    }
    frames.write_all(&kernel(false, &taken), &mut datagrams(5));
    assert_eq!(taken.take(), [1; 5]);
}

#[test]
fn one_success_makes_refusals_forgotten() {
    let frames = Frames::new(TunFrames::TcpAndUdp);
    let taken = RefCell::default();
    for _ in 0..4 {
        for _ in 0..MAX_REFUSED - 1 {
            frames.write_all(&kernel(true, &taken), &mut datagrams(2));
        }
        taken.take();
        frames.write_all(&kernel(false, &taken), &mut datagrams(2));
        assert_eq!(taken.take(), [2]);
    }
}

#[test]
fn a_malformed_frame_is_passed_on_to_be_counted() {
    let frames = Frames::new(TunFrames::Tcp);
    let mut memory = TunMemory::new();
    let mut packets = Vec::new();
    memory.frame()[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x15, 9]);
    frames.take(&mut memory, 12, &mut packets);
    frames.take(&mut memory, 3, &mut packets);
    let bare = Frames::new(TunFrames::Bare);
    bare.take(&mut memory, 2, &mut packets);
    assert_eq!(packets, [&[0x15, 9][..], &[], &[0, 0]]);
}

/// Sends all packets of a device back to their source, under the address that they went to:
/// checksums stay right when two addresses are exchanged. Records the most packets of one read.
async fn reflect(tun: Arc<Tun>, most: Arc<AtomicUsize>) {
    let mut memory = TunMemory::new();
    let mut packets = Vec::new();
    while tun.read_some(&mut memory, &mut packets).await.is_ok() {
        most.fetch_max(packets.len(), Ordering::Relaxed);
        packets.retain(|packet| PacketView::parse(packet).is_ok_and(|it| it.source().is_ipv4()));
        for packet in &mut packets {
            assert!(packet.len() <= MTU.into(), "{} bytes", packet.len());
            let mut swapped = packet.to_vec();
            let (source, destination) = swapped[12..20].split_at_mut(4);
            source.swap_with_slice(destination);
            *packet = swapped.into();
        }
        tun.write_all(&mut packets);
    }
}

const MTU: u16 = 1420;
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

async fn device() -> Option<(Arc<Tun>, Arc<AtomicUsize>)> {
    let (file, name) = match create("hawser%d") {
        Err(error @ TunError::Open(_)) => {
            hawser_skip::skip("hawser_host::tun::frames::tests", &error.to_string());
            return None;
        }
        made => made.unwrap(),
    };
    let wanted = TunAddresses {
        addresses: vec!["10.9.0.1/24".parse().unwrap()],
        mtu: MTU,
        is_default: false,
    };
    set_up(&name, &wanted).await.unwrap();
    let (tun, most) = (Arc::new(Tun::new(file).unwrap()), Arc::default());
    tokio::spawn(reflect(Arc::clone(&tun), Arc::clone(&most)));
    Some((tun, most))
}

/// Sends long streams, and a train of datagrams, through a real device.
async fn carry_all() {
    let Some((tun, most)) = device().await else {
        return;
    };
    carry_stream().await;
    if tun.frames.kind == TunFrames::Bare {
        return;
    }
    // Without frames a read returns at most 64 packets. On a busy machine reads may find fewer.
    while most.load(Ordering::Relaxed) <= 64 {
        carry_stream().await;
    }
    carry_datagrams().await;
}

async fn carry_stream() {
    let listener = TcpListener::bind((NEAR, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let (to, accepted) = tokio::join!(TcpStream::connect((FAR, port)), listener.accept());
    let (mut to, mut from) = (to.unwrap(), accepted.unwrap().0);
    let sent = bytes.clone();
    tokio::spawn(async move { to.write_all(&sent).await.unwrap() });
    let mut arrived = Vec::new();
    from.read_to_end(&mut arrived).await.unwrap();
    assert!(arrived == bytes, "the stream has changed");
}

async fn carry_datagrams() {
    let (from, to) = (
        UdpSocket::bind((NEAR, 0)).await.unwrap(),
        UdpSocket::bind((NEAR, 0)).await.unwrap(),
    );
    let options = UdpSocketState::new(UdpSockRef::from(&from)).unwrap();
    let contents: Vec<u8> = (0..20_u8).flat_map(|number| [number; 1000]).collect();
    let transmit = Transmit {
        destination: SocketAddr::from((FAR, to.local_addr().unwrap().port())),
        ecn: None,
        contents: &contents,
        segment_size: Some(1000),
        src_ip: None,
    };
    options
        .try_send(UdpSockRef::from(&from), &transmit)
        .unwrap();
    for number in 0..20 {
        let mut datagram = [0; 2000];
        let length = to.recv(&mut datagram).await.unwrap();
        assert_eq!(datagram[..length], [number; 1000]);
    }
}

#[test]
fn a_stream_and_datagrams_pass_a_device_in_frames() {
    let test = "tun::frames::tests::a_stream_and_datagrams_pass_a_device_in_frames";
    in_namespace(test, || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let carried = tokio::time::timeout(Duration::from_secs(60), carry_all());
            carried.await.expect("it does not end");
        });
    });
}
