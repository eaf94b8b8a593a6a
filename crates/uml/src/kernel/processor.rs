//! Processors that the kernel cannot run on.

/// A flag of processors with AMX, whose registers take 11 kB; Linux 6.12 in user mode has room for 4 kB, and the first
/// program in it dies with "ptrace set fp regs failed".
const TOO_LARGE: &str = "amx_tile";

/// Returns why this machine's processor cannot run the kernel; `None` if nothing is known against it.
pub fn unusable_processor() -> Option<&'static str> {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    has(&known, TOO_LARGE).then_some(
        "this processor has AMX registers, which Linux 6.12 in user mode cannot save; use a machine without them (`--on sim` works everywhere)",
    )
}

fn has(cpuinfo: &str, flag: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|word| word == flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_a_whole_word_of_the_line_of_flags() {
        let text = "model name\t: amx_tile\nflags\t\t: fpu amx_tile avx\n";
        assert!(has(text, TOO_LARGE));
        assert!(!has(text, "amx"));
        assert!(!has("model name\t: amx_tile\nflags\t\t: fpu\n", TOO_LARGE));
        assert!(!has("", TOO_LARGE));
    }
}
