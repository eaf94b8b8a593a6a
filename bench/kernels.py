#!/usr/bin/env python3
"""Runs Headway's commands on other kernels: each is a package of Debian that boots in an emulated machine.

The machine has three network namespaces, c - r - s, behind r two network cards of virtio with all offloads. No KVM is
needed; the emulated processor takes ten times as long, so rates and delays say little and pacing nothing. What is
tried is in kernels.sh beside this file. Prints a table, command by kernel, with the reason where a command fails.

    bench/kernels.py --programs target/demo 6.1 6.12

Exit codes: 0 all commands work; 1 one fails; 3 nothing can be tried here.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Of these folders and modules of a kernel the machine gets a copy.
MODULES = ["net", "lib", "crypto", "drivers/net", "drivers/virtio"]
TOOLS = "bash ip tc iperf3 ethtool ping curl timeout setpriv".split()
PROGRAMS = "headway headway-router headway-lab".split()
NEEDS = "qemu-system-x86_64 busybox cpio depmod unshare strip apt-get dpkg".split()
# Longest time of a machine in seconds; one takes 120 to 200 on two cores.
PATIENCE = 600
RESULT = re.compile(r"^RESULT\t([^\t]+)\t(ok|fails)\t(.*)$")
WAN = """ip link add wan type bridge; ip link set wan up
for tap in tap0 tap1; do ip tuntap add $tap mode tap vnet_hdr; ip link set $tap master wan up; done"""


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def cannot(reason):
    print(f"SKIPPED: {reason}", file=sys.stderr)
    sys.exit(3)


def kernel_of(version, architecture, cache):
    """Returns the folder of the newest package of a kernel version, which it fetches unless it is there."""
    folder = cache / f"{version}-{architecture}"
    if not folder.exists():
        pattern = rf"^linux-image-{re.escape(version)}\..*cloud-{architecture}$"
        found = run("apt-cache", "search", "--names-only", pattern, capture_output=True, text=True).stdout.split("\n")
        names = [line.split()[0] for line in found if line and "-unsigned" not in line]
        if not names:
            cannot(f"no package has Linux {version} (looked for {pattern}); `apt-get update` may find one")
        name = max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
        with tempfile.TemporaryDirectory(dir=cache) as at:
            if subprocess.run(["apt-get", "download", "-qq", name], cwd=at, stderr=subprocess.DEVNULL).returncode:
                cannot(f"the package {name} cannot be fetched")
            run("dpkg", "-x", next(Path(at).glob("*.deb")), Path(at, "kernel"))
            Path(at, "kernel").rename(folder)
    return folder


def copy_program(program, root):
    """Copies a program without its symbols, and the libraries it is linked with."""
    target = root / "usr/bin" / Path(program).name
    run("strip", "-o", target, os.path.realpath(program))
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+)", linked):
        place = root / library[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(os.path.realpath(library), place)


def make_image(kernel, programs, at):
    """Makes the initial file system; returns its path."""
    root = at / "root"
    for folder in "bin proc sys dev run tmp etc root var/lib usr/bin".split():
        (root / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin")
    for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True).stdout.split():
        if name not in TOOLS and not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")
    for tool in [*map(shutil.which, TOOLS), *programs]:
        copy_program(tool, root)
    (version,) = (kernel / "lib/modules").iterdir()
    modules = root / "lib/modules" / version.name
    for part in MODULES:
        shutil.copytree(version / "kernel" / part, modules / "kernel" / part)
    for listing in version.glob("modules.*"):
        shutil.copy(listing, modules)
    run("depmod", "-b", root, version.name, stderr=subprocess.DEVNULL)
    shutil.copy(HERE / "kernels.sh", root / "kernels.sh")
    shutil.copytree(HERE.parent / "scenarios", root / "scenarios")
    (root / "init").write_text("#!/bin/busybox sh\nexec /bin/busybox sh /kernels.sh init\n")
    (root / "init").chmod(0o755)
    image = at / "image"
    with image.open("wb") as file:
        run("sh", "-c", "find . | cpio -o -H newc --quiet | gzip -1", cwd=root, stdout=file)
    return image


def boot(kernel, image, only, show):
    """Boots the machine; yields its lines."""
    vmlinuz = next((kernel / "boot").glob("vmlinuz-*"))
    machine = (
        "qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 -nographic -no-reboot -nodefaults -serial stdio"
    ).split()
    for number in "01":
        machine += ["-netdev", f"tap,id=n{number},ifname=tap{number},script=no,downscript=no,vnet_hdr=on"]
        machine += ["-device", f"virtio-net-pci,netdev=n{number},romfile="]
    append = f"console=ttyS0 quiet panic=-1 mitigations=off no_timer_check only={only}"
    machine += ["-kernel", str(vmlinuz), "-initrd", str(image), "-append", append]
    # A namespace of its own for the taps and their bridge, which go with it.
    command = ["unshare", "-n", "sh", "-c", f'{WAN}\nexec "$@"', "sh", *machine]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            timer = threading.Timer(PATIENCE, process.kill)
            timer.start()
            for line in process.stdout:
                line = line.rstrip()
                if show:
                    print(line, file=sys.stderr)
                yield line
        finally:
            timer.cancel()
            process.kill()


def results_of(version, arguments):
    """Returns what a kernel can do: a pair of `ok` or `fails` and a sentence for each command."""
    kernel = kernel_of(version, "amd64", arguments.cache)
    programs = [arguments.programs / name for name in PROGRAMS] + arguments.verifier
    began, results = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as at:
        image = make_image(kernel, programs, Path(at))
        with contextlib.closing(boot(kernel, image, arguments.only, arguments.show)) as lines:
            for line in lines:
                if found := RESULT.match(line):
                    command, result, sentence = found.groups()
                    results[command] = (result, sentence)
                    print(f"Linux {version}: {command}: {result} {sentence}", file=sys.stderr)
                elif line.startswith("END"):
                    print(f"Linux {version}: {time.monotonic() - began:.0f} s", file=sys.stderr)
                    return results
    results["the machine"] = ("fails", "it ended before its tests did")
    return results


def table_of(results):
    """Returns the table of all kernels as lines of Markdown."""
    commands = list(dict.fromkeys(command for kernel in results.values() for command in kernel))
    yield "| | " + " | ".join(f"Linux {version}" for version in results) + " |"
    yield "|---" * (len(results) + 1) + "|"
    for command in commands:
        cells = (kernel.get(command, ("not tried",))[0] for kernel in results.values())
        yield f"| {command} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help="such as 6.1")
    parser.add_argument("--programs", type=Path, required=True, help="folder with Headway's programs")
    parser.add_argument("--verifier", type=Path, nargs="*", default=[], help="test that loads all programs of BPF")
    parser.add_argument("--cache", type=Path, default=HERE.parent / "target/kernels", help="where packages stay")
    parser.add_argument("--only", default="", help="try only commands with one of these in their names: edge,lab")
    parser.add_argument("--show", action="store_true", help="show all that the machine prints")
    arguments = parser.parse_args()
    missing = [tool for tool in [*TOOLS, *NEEDS] if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        cannot(f"it needs root and these commands: {' '.join(TOOLS + NEEDS)}; missing: {' '.join(missing) or 'root'}")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    results = {version: results_of(version, arguments) for version in arguments.kernels}
    print("\n".join(table_of(results)))
    for version, kernel in results.items():
        for command, (result, sentence) in kernel.items():
            if result != "ok":
                print(f"\nLinux {version}, {command}: {sentence}")
    return any(result != "ok" for kernel in results.values() for result, _ in kernel.values())


if __name__ == "__main__":
    sys.exit(main())
