//! A middlebox that takes options out of TCP's headers.

use hawser_scenario::TcpOption;

use super::packet;
use super::rewrite::adjust;

/// Puts padding where an Ethernet frame has options that are to go, and corrects TCP's checksum.
/// The frame keeps its length.
pub(super) fn strip(frame: &mut [u8], unwanted: &[TcpOption]) {
    if unwanted.is_empty() {
        return;
    }
    let Some(segment) = packet::ipv4(frame).and_then(packet::segment) else {
        return;
    };
    let end = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let Some(options) = segment.get_mut(FIXED..end) else {
        return;
    };
    let before = options.to_vec();
    pad(options, unwanted);
    let after = options.to_vec();
    adjust(segment, CHECKSUM, &before, &after);
}

/// Returns whether an Ethernet frame holds such options.
pub(super) fn holds(frame: &mut [u8], wanted: &[TcpOption]) -> bool {
    let Some(segment) = packet::ipv4(frame).and_then(packet::segment) else {
        return false;
    };
    let end = segment.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
    let Some(options) = segment.get(FIXED..end) else {
        return false;
    };
    let mut without = options.to_vec();
    pad(&mut without, wanted);
    without != options
}

fn pad(mut options: &mut [u8], unwanted: &[TcpOption]) {
    loop {
        let length = match *options {
            [] | [END, ..] => return,
            [PADDING, ..] => 1,
            [_, length, ..] if usize::from(length) >= 2 => usize::from(length),
            // Malformed: the receiver will report it.
            _ => return,
        };
        let Some((option, rest)) = options.split_at_mut_checked(length) else {
            return;
        };
        let body = option.get(2..).unwrap_or_default();
        if unwanted
            .iter()
            .any(|unwanted| unwanted.covers(option[0], body))
        {
            option.fill(PADDING);
        }
        options = rest;
    }
}

const END: u8 = 0;
const PADDING: u8 = 1;
/// The header without options, and where its checksum is.
const FIXED: usize = 20;
const CHECKSUM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN: maximum segment size, selective acknowledgement, time stamps, window scale,
    /// Multipath TCP, Fast Open under both its numbers.
    const OPTIONS: [u8; 40] = [
        2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7, 30, 12, 1, 1, 9, 8, 7, 6, 5,
        4, 3, 2, 34, 2, 254, 4, 0xF9, 0x89, 1, 1,
    ];

    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 80, 1, 2, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([
            1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0xf0, 2, 9, 9, 0, 0, 0, 0,
        ]);
        frame.extend(OPTIONS);
        let sum = !sum(&frame);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// Over the pseudo-header and the segment.
    fn sum(frame: &[u8]) -> u16 {
        let mut bytes = frame[26..34].to_vec();
        bytes.extend([0, 6, 0, 60]);
        bytes.extend(&frame[34..]);
        let words = bytes
            .chunks(2)
            .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn stripped(unwanted: &[TcpOption]) -> Vec<u8> {
        let mut frame = frame();
        assert_eq!(sum(&frame), 0xffff);
        strip(&mut frame, unwanted);
        assert_eq!(sum(&frame), 0xffff);
        frame.split_off(54)
    }

    fn padded(places: &[(usize, usize)]) -> Vec<u8> {
        let mut options = OPTIONS.to_vec();
        for &(from, to) in places {
            options[from..to].fill(PADDING);
        }
        options
    }

    #[test]
    fn each_name_takes_out_its_own_options_and_no_others() {
        assert_eq!(stripped(&[]), OPTIONS);
        assert_eq!(stripped(&[TcpOption::Sack]), padded(&[(4, 6)]));
        assert_eq!(stripped(&[TcpOption::Timestamps]), padded(&[(6, 16)]));
        assert_eq!(stripped(&[TcpOption::Mptcp]), padded(&[(20, 32)]));
        assert_eq!(stripped(&[TcpOption::FastOpen]), padded(&[(32, 38)]));
        assert_eq!(stripped(&[TcpOption::Unknown]), padded(&[(20, 38)]));
        let two = [TcpOption::Unknown, TcpOption::Sack];
        assert_eq!(stripped(&two), padded(&[(4, 6), (20, 38)]));
    }

    #[test]
    fn frames_that_hold_an_option_are_told_from_others() {
        assert!(holds(&mut frame(), &[TcpOption::Unknown]));
        let mut frame = frame();
        strip(&mut frame, &[TcpOption::Unknown]);
        assert!(!holds(&mut frame, &[TcpOption::Unknown]));
        assert!(holds(&mut frame, &[TcpOption::Sack]));
    }

    #[test]
    fn malformed_frames_are_left_alone() {
        let whole = frame();
        let everything = [TcpOption::Unknown, TcpOption::Sack, TcpOption::Timestamps];
        for length in 0..54 {
            let mut cut = whole[..length].to_vec();
            strip(&mut cut, &everything);
            assert_eq!(cut, whole[..length]);
        }
        for place in 54..94 {
            let mut odd = whole.clone();
            odd[place] = 0xff;
            strip(&mut odd, &everything);
            assert_eq!(odd.len(), whole.len());
        }
    }
}
