//! The filter that the kernel applies before it copies a packet: TCP over IPv4 or IPv6.

/// Bytes kept of a packet: IPv6 with some extension headers, and the longest TCP header.
pub(super) const SNAP: u32 = 192;

/// Loads a byte of the packet.
const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const SHIFT_RIGHT: u16 = (libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K) as u16;
const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// TCP, and the extension headers that may precede it: hop-by-hop, routing, fragment,
/// authentication, destination.
const NEXT_HEADERS: [u32; 6] = [6, 0, 43, 44, 51, 60];

/// Returns the filter for packets that begin with their IP header.
pub(super) fn tcp() -> Vec<libc::sock_filter> {
    let op = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let jump = |k, jt, jf| libc::sock_filter { code: JUMP_EQUAL, jt, jf, k };
    let mut program = vec![
        op(LOAD_BYTE, 0),
        op(SHIFT_RIGHT, 4),
        jump(4, 0, 2),
        op(LOAD_BYTE, 9),
        // To the last test of the next headers, which TCP over IPv4 shares.
        jump(6, NEXT_HEADERS.len() as u8 + 3, NEXT_HEADERS.len() as u8 + 2),
        jump(6, 0, NEXT_HEADERS.len() as u8 + 1),
        op(LOAD_BYTE, 6),
    ];
    for (k, header) in NEXT_HEADERS.into_iter().enumerate() {
        let after = (NEXT_HEADERS.len() - 1 - k) as u8;
        program.push(jump(header, after + 1, 0));
    }
    program.extend([op(RETURN, 0), op(RETURN, SNAP)]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel would.
    fn run(program: &[libc::sock_filter], packet: &[u8]) -> u32 {
        let (mut at, mut value) = (0, 0u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                LOAD_BYTE => match packet.get(k as usize) {
                    Some(byte) => value = u32::from(*byte),
                    None => return 0,
                },
                SHIFT_RIGHT => value >>= k,
                JUMP_EQUAL => at += usize::from(if value == k { jt } else { jf }),
                RETURN => return k,
                _ => panic!("unknown operation {code}"),
            }
        }
    }

    #[test]
    fn tcp_passes_and_nothing_else() {
        let program = tcp();
        let mut packet = [0u8; 60];
        let mut passes = |first: u8, at: usize, protocol: u8| {
            packet = [0xff; 60];
            (packet[0], packet[at]) = (first, protocol);
            run(&program, &packet)
        };
        assert_eq!(passes(0x45, 9, 6), SNAP);
        assert_eq!(passes(0x45, 9, 17), 0);
        assert_eq!(passes(0x45, 9, 0), 0, "an extension header's number means something else in IPv4");
        for header in NEXT_HEADERS {
            assert_eq!(passes(0x60, 6, header as u8), SNAP);
        }
        assert_eq!(passes(0x60, 6, 17), 0);
        assert_eq!(passes(0x00, 9, 6), 0);
        assert_eq!(run(&program, &[0x45]), 0);
    }
}
