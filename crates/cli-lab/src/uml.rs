//! `headway uml`: the Linux network stack in virtual time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, Subcommand};
use headway_uml::kernel::{self, BuildError, Kernel, Options};
use headway_worlds::cache;

use headway_program::exit::{Code, Failed};
use headway_program::print_line;
use headway_runs::Building;

/// Builds and caches the Linux kernel whose network stack runs in virtual time.
#[derive(Args, Debug)]
pub(crate) struct UmlArgs {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Build(BuildArgs),
    Path(PathArgs),
    Clean(CleanArgs),
}

/// Builds the kernel from Debian's source package, unless it is cached. Takes minutes and needs no root.
///
/// The cache holds the kernel and the files needed to compile modules, in $HEADWAY_CACHE, else
/// $XDG_CACHE_HOME/headway, else ~/.cache/headway. A version of Headway with another patch or configuration
/// builds a kernel of its own.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0    the kernel is available
  1    it cannot be built; the message says why and what to do
  2    invalid arguments
  130  interrupted; nothing of the unfinished kernel was kept")]
struct BuildArgs {
    /// Build a kernel with debug checks (KASAN, lockdep, UBSAN), many times slower, cached beside the other.
    #[arg(long)]
    debug: bool,
    /// Fetch the newest package and build it even if a kernel is cached.
    #[arg(long)]
    force: bool,
}

/// Prints the path of the cached kernel.
#[derive(Args, Debug)]
struct PathArgs {
    /// Print the path of the kernel with debug checks.
    #[arg(long)]
    debug: bool,
}

/// Removes all cached kernels and their modules, and prints the space freed.
#[derive(Args, Debug)]
struct CleanArgs {}

impl UmlArgs {
    /// Whether the command has a JSON form.
    pub(crate) fn has_json(&self) -> bool {
        matches!(self.command, What::Build(_))
    }
}

pub(crate) fn run(args: &UmlArgs, json: bool) -> Result<(), Failed> {
    match &args.command {
        What::Build(args) => build(args, json),
        What::Path(args) => path(args),
        What::Clean(CleanArgs {}) => clean(),
    }
}

fn build(args: &BuildArgs, json: bool) -> Result<(), Failed> {
    let began = Instant::now();
    let options = Options { debug: args.debug, cache: cache()? };
    let kept = Kernel::cached(&options).filter(|_| !args.force);
    let cached = kept.is_some();
    let kernel = match kept {
        Some(kernel) => kernel,
        None => compile(&options, args.force, &*interruption()?).map_err(failed)?,
    };
    if json {
        print_line!(
            "{}",
            serde_json::json!({
                "version": kernel.version,
                "folder": kernel.folder,
                "binary": kernel.binary(),
                "cached": cached,
                "seconds": (began.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            })
        );
    } else {
        let how = if cached {
            "(cached)".to_owned()
        } else {
            format!("(built in {} s)", began.elapsed().as_secs())
        };
        print_line!("Linux {} {how}: {}", kernel.version, kernel.binary().display());
    }
    Ok(())
}

/// Returns a flag that the first signal sets, to end the build cleanly; a second signal ends the process.
fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

fn compile(options: &Options, force: bool, interrupted: &AtomicBool) -> Result<Kernel, BuildError> {
    let building = Building::default();
    let mut report = |now| building.show(now);
    if force {
        Kernel::rebuild(options, &mut report, interrupted)
    } else {
        Kernel::build(options, &mut report, interrupted)
    }
}

fn failed(error: BuildError) -> Failed {
    match error {
        BuildError::Interrupted => Failed::new(Code::Interrupted, error),
        error => error.into(),
    }
}

fn path(args: &PathArgs) -> Result<(), Failed> {
    let options = Options { debug: args.debug, cache: cache()? };
    let Some(kernel) = Kernel::cached(&options) else {
        let flag = if args.debug { " --debug" } else { "" };
        return Err(
            anyhow::anyhow!("there is no kernel yet; build one with `headway uml build{flag}`").into()
        );
    };
    print_line!("{}", kernel.binary().display());
    Ok(())
}

fn clean() -> Result<(), Failed> {
    let cleaned = kernel::clean(&cache()?)?;
    let kernels = if cleaned.kernels == 1 { "kernel" } else { "kernels" };
    print_line!("Removed {} {kernels}, {} MB.", cleaned.kernels, cleaned.bytes.div_ceil(1_000_000));
    Ok(())
}
