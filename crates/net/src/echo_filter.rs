//! The kernel's filter of a raw socket: Echo Replies of one session. All others do not wake the server.

use crate::protocol::Family;
use crate::protocol::echo::{ECHO_REPLY, ECHO_REPLY_V6};
use socket2::SockFilter;

/// One instruction of classic BPF: operation, jumps if true and if false, operand.
type Instruction = (u16, u8, u8, u32);

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Version and length of an IPv4 header without options.
const PLAIN_IPV4: u32 = 0x45;

/// Returns the filter that accepts Echo Replies with this identifier. Raw sockets of IPv4 see packets from
/// their IP header on, those of IPv6 from their ICMPv6 header on.
pub(crate) fn accept(family: Family, identifier: u16) -> Vec<SockFilter> {
    assemble(&accepting(family, identifier))
}

/// Returns the filter that accepts nothing.
pub(crate) fn reject() -> Vec<SockFilter> {
    assemble(&[(RETURN, 0, 0, 0)])
}

fn assemble(program: &[Instruction]) -> Vec<SockFilter> {
    program.iter().map(|(code, jt, jf, k)| SockFilter::new(*code, *jt, *jf, *k)).collect()
}

fn accepting(family: Family, identifier: u16) -> Vec<Instruction> {
    let (start, kind) = match family {
        Family::V4 => (20, ECHO_REPLY),
        Family::V6 => (0, ECHO_REPLY_V6),
    };
    let mut program = match family {
        Family::V4 => vec![(LOAD_BYTE, 0, 0, 0), (JUMP_EQUAL, 0, 5, PLAIN_IPV4)],
        Family::V6 => Vec::new(),
    };
    program.extend([
        (LOAD_HALF, 0, 0, start),
        (JUMP_EQUAL, 0, 3, u32::from(kind)),
        (LOAD_HALF, 0, 0, start + 4),
        (JUMP_EQUAL, 0, 1, u32::from(identifier)),
        (RETURN, 0, 0, u32::MAX),
        (RETURN, 0, 0, 0),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::echo::{identifier, write_echo_header};

    const SESSION: u64 = 0x0123_4567_89ab_cdef;

    /// Runs a filter as the kernel would; a load beyond the end of the packet rejects it.
    fn accepts(program: &[Instruction], packet: &[u8]) -> bool {
        let (mut at, mut value) = (0, 0);
        loop {
            let (code, jt, jf, k) = program[at];
            let k_bytes = packet.get(k as usize..).unwrap_or_default();
            at += 1;
            match (code, k_bytes) {
                (LOAD_BYTE, [first, ..]) => value = u32::from(*first),
                (LOAD_HALF, [first, second, ..]) => value = u32::from(u16::from_be_bytes([*first, *second])),
                (LOAD_BYTE | LOAD_HALF, _) => return false,
                (JUMP_EQUAL, _) => at += usize::from(if value == k { jt } else { jf }),
                (RETURN, _) => return k != 0,
                _ => panic!("unknown operation {code}"),
            }
        }
    }

    /// Returns what a raw socket sees of a probe.
    fn packet(family: Family) -> Vec<u8> {
        let mut message = vec![0; 64];
        write_echo_header(family, SESSION, &mut message);
        match family {
            Family::V4 => [vec![0x45; 20], message].concat(),
            Family::V6 => message,
        }
    }

    #[test]
    fn only_echo_replies_of_the_session_pass() {
        for (family, start) in [(Family::V4, 20), (Family::V6, 0)] {
            let program = accepting(family, identifier(SESSION));
            let good = packet(family);
            assert!(accepts(&program, &good));
            let changed = |at: usize, byte: u8| {
                let mut packet = good.clone();
                packet[at] = byte;
                accepts(&program, &packet)
            };
            assert!(!changed(start, 8) && !changed(start, 128), "requests");
            assert!(!changed(start, 11) && !changed(start, 3), "errors");
            assert!(!changed(start + 1, 1), "another code");
            assert!(!changed(start + 4, 0) && !changed(start + 5, 0), "another identifier");
            assert!(
                changed(start + 3, 0) && changed(start + 7, 0),
                "checksum and sequence number do not matter"
            );
            assert!((0..start + 6).all(|length| !accepts(&program, &good[..length])), "too short");
        }
        let program = accepting(Family::V4, identifier(SESSION));
        let mut with_options = packet(Family::V4);
        with_options[0] = 0x46;
        assert!(!accepts(&program, &with_options));
    }
}
