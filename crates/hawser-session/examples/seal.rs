//! Measures what sealing and opening a datagram cost: nanoseconds for a packet of 1400 bytes.
//!
//! `cargo run --release -p hawser-session --example seal`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures the code from outside"
)]

use std::time::Instant as Clock;

use bytes::BytesMut;
use hawser_session::seal::{Aead, Direction, SessionKeys};
use hawser_types::{ChannelId, Instant};
use zeroize::Zeroizing;

fn main() {
    println!("aead               ns to seal   to open (best of {RUNS})");
    for aead in [Aead::Aes128Gcm, Aead::Aes256Gcm, Aead::ChaCha20Poly1305] {
        let runs = (0..RUNS).map(|_| run(aead));
        let best = runs.fold((f64::MAX, f64::MAX), |best, run| {
            (best.0.min(run.0), best.1.min(run.1))
        });
        println!(
            "{:<18} {:>10.0} {:>9.0}",
            format!("{aead:?}"),
            best.0,
            best.1
        );
    }
}

/// Nanoseconds for sealing, and for opening, one of many.
fn run(aead: Aead) -> (f64, f64) {
    let keys = SessionKeys::new(Zeroizing::new([7; 32]), aead);
    let (channel, up) = (ChannelId::new(1), Direction::ClientToGateway);
    let mut sealer = keys.datagram_sealer(channel, up);
    let mut opener = keys.datagram_opener(channel, up);
    let packet = [1; 1400];
    let mut datagrams: Vec<BytesMut> = vec![BytesMut::with_capacity(2048); PACKETS];
    let began = Clock::now();
    for datagram in &mut datagrams {
        let sealed = sealer.seal(Instant::ZERO, &packet, datagram);
        sealed.expect("few numbers are used");
    }
    let sealing = began.elapsed();
    let began = Clock::now();
    for datagram in datagrams {
        let opened = opener.open(Instant::ZERO, datagram);
        opened.expect("it was just sealed");
    }
    let each = |whole: std::time::Duration| whole.as_nanos() as f64 / PACKETS as f64;
    (each(sealing), each(began.elapsed()))
}

const PACKETS: usize = 20_000;
const RUNS: usize = 5;
