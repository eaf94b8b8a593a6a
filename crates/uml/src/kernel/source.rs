//! Unpacks the part of the kernel source that is needed, and patches it.

use std::path::Path;

use super::command::{Ended, Runner, program};
use super::fetch::{PACKAGE, Package};
use super::{BuildError, Phase, Progress, cache};

/// Files that User Mode Linux never reads: two thirds of the source. `Kconfig` files stay.
const UNREAD: [&str; 25] = [
    "drivers/gpu/*.[chS]",
    "drivers/media/*.[chS]",
    "drivers/net/ethernet/*.[chS]",
    "drivers/net/wireless/*.[chS]",
    "drivers/infiniband/*.[chS]",
    "drivers/scsi/*.[chS]",
    "drivers/staging/*.[chS]",
    "drivers/iio/*.[chS]",
    "drivers/usb/*.[chS]",
    "drivers/clk/*.[chS]",
    "drivers/pinctrl/*.[chS]",
    "drivers/accel/*.[chS]",
    "drivers/crypto/*.[chS]",
    "drivers/hwmon/*.[chS]",
    "drivers/mtd/*.[chS]",
    "drivers/soc/*.[chS]",
    "sound/*.[chS]",
    "Documentation/*.rst",
    "Documentation/*.txt",
    "Documentation/*.yaml",
    "Documentation/*.svg",
    "arch/*.dts*",
    "arch/[!ux]*.[chS]",
    "tools/perf/*.[chS]",
    "tools/testing/*.[chS]",
];

/// Size of the archive in megabytes, the unit in which tar reports progress; only for the display.
const MEGABYTES: u64 = 1_521;

/// Unpacks the package and patches the source, which is then in `folder`/tree.
pub(super) fn unpack(
    runner: &mut Runner<'_>,
    package: &Package,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let tell = |done: u64| Progress { phase: Phase::Unpack, done, total: MEGABYTES.max(done) };
    progress(tell(0));
    let deb = folder.join("deb");
    let mut command = program("dpkg", folder);
    command.arg("-x").arg(&package.file).arg(&deb);
    well(runner.run(command, &mut |_| ())?, package)?;
    let tree = folder.join(cache::TREE);
    std::fs::create_dir_all(&tree).map_err(BuildError::file("make the folder", &tree))?;
    let mut command = program("tar", folder);
    command.arg("--extract").arg("--xz").arg("--file").arg(deb.join(format!("usr/src/{PACKAGE}.tar.xz")));
    command.arg("--directory").arg(&tree).args(["--strip-components=1", "--no-same-owner"]);
    // One checkpoint per 100 records of 10 kB.
    command.args(["--checkpoint=100", "--checkpoint-action=echo=%u"]).env("XZ_OPT", "-T0");
    command.arg("--anchored").args(UNREAD.map(|pattern| format!("--exclude={PACKAGE}/{pattern}")));
    let mut megabytes = 0;
    let ended = runner.run(command, &mut |line| {
        if line.is_some() {
            megabytes += 1;
            progress(tell(megabytes));
        }
    })?;
    well(ended, package)?;
    for path in [&deb, &package.file] {
        let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        removed.map_err(BuildError::file("remove", path))?;
    }
    patch(runner, package, folder)
}

/// Applies our patch; offsets and fuzz are accepted.
fn patch(runner: &mut Runner<'_>, package: &Package, folder: &Path) -> Result<(), BuildError> {
    let file = folder.join("headway.patch");
    std::fs::write(&file, cache::PATCH).map_err(BuildError::file("write", &file))?;
    let mut command = program("patch", &folder.join(cache::TREE));
    command.args(["-p1", "--forward", "--batch", "--no-backup-if-mismatch", "-i"]).arg(&file);
    let ended = runner.run(command, &mut |_| ())?;
    if ended.success {
        return Ok(());
    }
    let failed = ended.lines().iter().find(|line| line.contains("FAILED") || line.contains("can't find"));
    let said = failed.cloned().unwrap_or_else(|| ended.last());
    Err(BuildError::Patch { version: package.version.clone(), said })
}

fn well(ended: Ended, package: &Package) -> Result<(), BuildError> {
    if ended.success {
        return Ok(());
    }
    Err(BuildError::Unpack { version: package.version.clone(), said: ended.last() })
}
