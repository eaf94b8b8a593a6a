//! Frames: PAUSE frames that fill gaps, and UDP packets with all their headers.

use headway_units::Bytes;
use std::net::{IpAddr, SocketAddr};

/// Length of an Ethernet header.
const ETHERNET: usize = 14;
/// Preamble, check sequence and gap, which a frame takes on the wire beside its bytes here.
const BESIDE: usize = 24;
/// The station behind the next port, which forwards nothing that is for this address (802.3, annex 31B).
const NEXT_STATION: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];
const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
/// The operation of PAUSE; what follows is for how long, and stays zero: no host stops for such a frame.
const PAUSE: [u8; 2] = [0, 1];
/// Limit of hops, as the kernel has it.
const HOPS: u8 = 64;
const UDP: u8 = 17;

/// The two ends of a frame.
pub(crate) type Macs = [[u8; 6]; 2];

/// Returns a PAUSE frame of time zero, as long as frames of `largest` bytes on the wire; shorter
/// ones are its beginning.
pub(crate) fn pause(source: [u8; 6], largest: Bytes) -> Vec<u8> {
    let mut frame = [&NEXT_STATION[..], &source, &MAC_CONTROL, &PAUSE].concat();
    frame.resize(length(largest).max(frame.len()), 0);
    frame
}

/// Returns the length of a frame that takes `wire` bytes.
pub(crate) fn length(wire: Bytes) -> usize {
    (wire.get() as usize).saturating_sub(BESIDE)
}

/// Writes a UDP packet with `data` into `frame`, in place of what was there.
pub(crate) fn udp(
    frame: &mut Vec<u8>,
    [source, target]: Macs,
    from: SocketAddr,
    to: SocketAddr,
    data: &[u8],
) {
    frame.clear();
    frame.extend(target);
    frame.extend(source);
    let length = (data.len() + 8) as u16;
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([0x08, 0x00, 0x45, 0]);
            frame.extend((length + 20).to_be_bytes());
            // Not to be fragmented.
            frame.extend([0, 0, 0x40, 0, HOPS, UDP, 0, 0]);
            frame.extend(from.octets());
            frame.extend(to.octets());
            let sum = !fold(sum(&frame[ETHERNET..]));
            frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
        }
        (from, to) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([UDP, HOPS]);
            frame.extend(octets(from));
            frame.extend(octets(to));
        }
    }
    let (begin, addresses) = (frame.len(), if from.is_ipv4() { 8 } else { 32 });
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(data);
    let pseudo = sum(&frame[begin - addresses..begin]) + u64::from(UDP) + u64::from(length);
    // Zero would mean that there is no checksum.
    let sum = match !fold(pseudo + sum(&frame[begin..])) {
        0 => 0xffff,
        sum => sum,
    };
    frame[begin + 6..begin + 8].copy_from_slice(&sum.to_be_bytes());
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Adds up 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
    words.map(u64::from).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACS: Macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    #[test]
    fn a_pause_frame_is_that_of_the_standard_with_time_zero() {
        // rapid F7: 88 bytes on the wire to the MTU.
        let frame = pause(MACS[0], Bytes::new(1538));
        assert_eq!(frame.len(), 1514);
        assert_eq!(frame[..18], [1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x88, 8, 0, 1, 0, 0]);
        assert!(frame[18..].iter().all(|byte| *byte == 0));
        assert_eq!(length(Bytes::new(88)), 64);
    }

    /// Returns a capture of frames (pcap, Ethernet).
    fn capture(frames: &[&[u8]]) -> Vec<u8> {
        let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1_u32];
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let record = |frame: &&[u8]| {
            let length = frame.len() as u32;
            [&words(&[0, 0, length, length]), *frame].concat()
        };
        [words(&header)].into_iter().chain(frames.iter().map(record)).flatten().collect()
    }

    #[test]
    fn another_decoder_finds_pause_frames_and_sound_packets() {
        let frame = pause(MACS[0], Bytes::new(1538));
        let mut packet = Vec::new();
        udp(&mut packet, MACS, "10.0.0.1:9".parse().unwrap(), "10.0.0.2:7".parse().unwrap(), &[0xab; 35]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("frames.pcap");
        let lengths = [64, 65, 700, 1514];
        let frames: Vec<&[u8]> =
            lengths.iter().map(|length| &frame[..*length]).chain([&packet[..]]).collect();
        std::fs::write(&file, capture(&frames)).unwrap();
        let fields = ["eth.dst", "macc.opcode", "macc.pause_time", "udp.checksum.status"];
        let mut command = std::process::Command::new("tshark");
        command.args(["-o", "udp.check_checksum:TRUE", "-T", "fields", "-r"]).arg(&file);
        let Ok(output) = command.args(fields.iter().flat_map(|field| ["-e", field])).output() else {
            println!("SKIPPED: there is no tshark to decode frames");
            return;
        };
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[..4], ["01:80:c2:00:00:01\t0x0001\t0"; 4], "{text}");
        assert!(lines[4].starts_with("02:00:00:00:00:02") && lines[4].ends_with("\t1"), "{text}");
    }

    #[test]
    fn checksums_of_packets_are_complete() {
        for (ends, header) in [(["10.0.0.1:9", "10.0.0.2:7"], 20), (["[fd00::1]:9", "[fd00::2]:7"], 40)] {
            let [from, to] = ends.map(|end| end.parse::<SocketAddr>().unwrap());
            let mut frame = vec![1, 2, 3];
            // An odd number of bytes.
            udp(&mut frame, MACS, from, to, &[0xab; 35]);
            assert_eq!(frame.len(), ETHERNET + header + 8 + 35);
            assert_eq!(frame[..12], [MACS[1], MACS[0]].concat());
            let addresses = if from.is_ipv4() { 8 } else { 32 };
            let transport = ETHERNET + header;
            let covered = sum(&frame[transport - addresses..]) + u64::from(UDP) + 43;
            assert_eq!(fold(covered), 0xffff);
            if from.is_ipv4() {
                assert_eq!(fold(sum(&frame[ETHERNET..transport])), 0xffff);
            }
        }
    }
}
