//! Modules compiled against a real kernel. Without one, which takes minutes to build, the
//! tests say so and pass.

use std::time::{Duration, Instant};

use headway_uml::kernel::{BuildError, Kernel, Options, default_cache};

const SOURCE: &str = r#"#include <linux/module.h>
#include <net/tcp.h>

static u32 ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd / 2;
}

static struct tcp_congestion_ops ops = {
	.name = "headway_test",
	.owner = THIS_MODULE,
	.ssthresh = ssthresh,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.cong_avoid = tcp_reno_cong_avoid,
};

static int __init begin(void)
{
	WARN_ON(ops.flags);
	return tcp_register_congestion_control(&ops);
}

static void __exit finish(void)
{
	tcp_unregister_congestion_control(&ops);
}

module_init(begin);
module_exit(finish);
MODULE_LICENSE("GPL");
"#;

fn kernel() -> Option<Kernel> {
    let kernel = default_cache().and_then(|cache| Kernel::cached(&Options { debug: false, cache }));
    if kernel.is_none() {
        eprintln!("skipped: there is no kernel; `headway uml build` makes one");
    }
    kernel
}

#[test]
fn a_congestion_control_is_compiled_once_and_holds_no_path_of_this_machine() {
    let Some(kernel) = kernel() else { return };
    // A number in the source makes it unique, whatever earlier runs of this test left in the cache.
    let source = format!("{SOURCE}/* {} */\n", std::process::id());
    let sources = [("headway_test.c", source.as_str())];
    let began = Instant::now();
    let module = kernel.module("headway_test", &sources).expect("it compiles");
    eprintln!("compiled in {:?}", began.elapsed());
    let bytes = std::fs::read(&module).expect("the module");
    let folder = kernel.folder.as_os_str().as_encoded_bytes();
    assert!(!bytes.windows(folder.len()).any(|window| window == folder));

    let began = Instant::now();
    assert_eq!(kernel.module("headway_test", &sources).expect("it is kept"), module);
    assert!(began.elapsed() < Duration::from_millis(100));

    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("headway_test.c"), &source).expect("a file");
    assert_eq!(kernel.module_from(folder.path()).expect("the same sources"), module);
    let kept = module.parent().expect("a folder");
    std::fs::remove_dir_all(kept).expect("what this test made");
}

#[test]
fn a_mistake_in_a_module_is_told_as_the_compiler_tells_it() {
    let Some(kernel) = kernel() else { return };
    let wrong = SOURCE.replace("undo_cwnd =", "no_such_member =");
    let error = kernel.module("wrong", &[("wrong.c", &wrong)]).expect_err("it does not compile");
    assert!(matches!(error, BuildError::Module { .. }));
    let said = error.to_string();
    assert!(said.contains("  wrong.c:13:") && said.contains("no_such_member"), "{said}");
}
