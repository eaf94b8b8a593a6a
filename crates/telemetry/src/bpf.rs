//! Whether the kernel takes programs from this process (`include/uapi/linux/bpf.h`), tried with ones that do
//! nothing.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// The command that loads one, and the length of its structure in words, with room for what this leaves zero.
const PROG_LOAD: libc::c_int = 5;
const WORDS: usize = 16;
/// Kind of programs that see the packets of an interface.
const SCHED_CLS: u32 = 3;
/// `r0 = 0` and `exit`.
const NOTHING: [u64; 2] = [0xb7, 0x95];

/// Loads a program for the packets of an interface, which returns at once, and unloads it.
///
/// # Errors
/// The system's error: without the right to do so, or on a kernel without such programs.
pub fn load() -> io::Result<()> {
    // The type, the number of instructions, and addresses of these and of the licence.
    let mut words = [0_u64; WORDS];
    words[0] = pair(SCHED_CLS, NOTHING.len() as u32);
    words[1] = NOTHING.as_ptr() as u64;
    words[2] = c"GPL".as_ptr() as u64;
    let program = call(PROG_LOAD, &mut words)?;
    // SAFETY: the kernel has just opened it for this process, and nothing else knows it.
    drop(unsafe { OwnedFd::from_raw_fd(program) });
    Ok(())
}

/// Two numbers of 32 bits in their order in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

fn call(command: libc::c_int, words: &mut [u64; WORDS]) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads and writes the words, whose length it is told; what they point to
    // outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, words.as_mut_ptr(), size_of_val(words)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_taken_or_refused_and_nothing_is_left() {
        match load() {
            Ok(()) => assert!(load().is_ok()),
            Err(error) => println!("refused: {error}"),
        }
    }
}
