#!/usr/bin/env python3
"""Runs Headway's commands on other kernels: each is a package of Debian that boots in an emulated machine.

The machine has three network namespaces, c - r - s, behind r two network cards of virtio with all offloads. No KVM is
needed; the processor is emulated and slow, so rates and delays say little and pacing nothing. What is
tried is in kernels.sh beside this file. Prints a table, command by kernel, with the reason where a command fails.

    bench/kernels.py --programs target/demo 6.1 6.12
    bench/kernels.py --architecture arm64 --programs target/aarch64-unknown-linux-gnu/demo 6.12

Exit codes: 0 all commands work, or say which kernel they need; 1 one fails; 3 nothing can be tried here.
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
# Where these are of another architecture they come from packages, with the libraries of Headway's programs.
PACKAGES = "bash iproute2 iperf3 ethtool iputils-ping curl coreutils util-linux busybox-static libelf1 zlib1g libgcc-s1".split()
UNUSED = re.compile("perl|cdebconf|dpkg")
PROGRAMS = "headway headway-router headway-lab".split()
NEEDS = "busybox cpio depmod unshare apt-get dpkg".split()
# By Debian's names of architectures: the name of processors, QEMU's machine, its processor and its console. The largest
# processor for ARM signs pointers, which takes most of the time.
MACHINES = {"amd64": ("x86_64", "pc", "max", "ttyS0"), "arm64": ("aarch64", "virt", "cortex-a72", "ttyAMA0")}
# Longest time of a machine in seconds; one takes 210 to 240 on two cores.
PATIENCE = 600
RESULT = re.compile(r"^RESULT\t([^\t]+)\t(ok|refused|fails|needs [0-9.]+)\t(.*)$")
WAN = """ip link add wan type bridge; ip link set wan up
for tap in tap0 tap1; do ip tuntap add $tap mode tap vnet_hdr; ip link set $tap master wan up; done"""


def this_architecture():
    return {"aarch64": "arm64"}.get(os.uname().machine, "amd64")


def strip_of(architecture):
    return MACHINES[architecture][0] + "-linux-gnu-strip"


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
        unpack([f"{name}:{architecture}"], folder)
    return folder


def headers_of(kernel, architecture, cache):
    """Returns the folder in which modules for a kernel are built, with its packages of headers; none if there are none."""
    (version,) = (kernel / "lib/modules").iterdir()
    name = f"linux-headers-{version.name}"
    folder = cache / f"{kernel.name}-headers"
    if not folder.exists():
        found = subprocess.run(["apt-cache", "depends", name], capture_output=True, text=True).stdout
        packages = re.findall(r"Depends: (linux-(?:headers-\S+-common|kbuild-\S+))", found)
        if not packages or not fetched([name, *packages], folder):
            return None
    build = folder / "usr/src" / name
    # Debian's file names the folder in which the package is to be.
    makefile = build / "Makefile"
    makefile.write_text(re.sub(r"(?m)^include \S*(/usr/src/)", rf"include {folder.resolve()}\1", makefile.read_text()))
    return build


def module_of(build, at):
    """Builds the controller that may move departures for a kernel; returns its file."""
    for part in ["arithmetic/c", "uml/linux/modules"]:
        shutil.copytree(HERE.parent / "crates" / part, at / part)
    modules = at / "uml/linux/modules"
    # Types for programs of BPF need a tool and the kernel itself, and nobody asks for those of this module.
    options = [f"M={modules}", "ONLY=headway_ls", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    made = subprocess.run(["make", "-C", build, *options, "modules"], capture_output=True, text=True)
    if made.returncode:
        print(made.stderr, file=sys.stderr)
    return modules / "headway_ls.ko"


def tools_of(architecture, cache):
    """Returns a folder with the tools and their libraries for another architecture."""
    folder = cache / f"tools-{architecture}"
    if not folder.exists():
        only = [f"--no-{kind}" for kind in "recommends suggests conflicts breaks replaces enhances".split()]
        roots = [f"{name}:{architecture}" for name in PACKAGES]
        found = run("apt-cache", "depends", "--recurse", *only, *roots, capture_output=True, text=True).stdout.split("\n")
        names = {line for line in found if line.endswith(f":{architecture}") and not line.startswith((" ", "<"))}
        unpack(sorted(name for name in names if not UNUSED.search(name)), folder)
    return folder


def unpack(packages, folder):
    """Fetches packages, and unpacks them into a new folder."""
    if not fetched(packages, folder):
        cannot(f"these packages cannot be fetched: {' '.join(packages)}")


def fetched(packages, folder):
    """Does that, and returns whether it could."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as at:
        if subprocess.run(["apt-get", "download", "-qq", *packages], cwd=at, stderr=subprocess.DEVNULL).returncode:
            return False
        for package in Path(at).glob("*.deb"):
            run("dpkg", "-x", package, Path(at, "all"))
        Path(at, "all").rename(folder)
    return True


def copy_program(program, root, architecture):
    """Copies a program without its symbols, and the libraries of this system that it is linked with."""
    target = root / "usr/bin" / Path(program).name
    run(strip_of(architecture), "-o", target, os.path.realpath(program))
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+)", linked):
        place = root / library[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy(os.path.realpath(library), place)


def make_image(kernel, programs, architecture, tools, module, at):
    """Makes the initial file system, with these tools or those of this system; returns its path."""
    root = at / "root"
    if tools:
        shutil.copytree(tools, root, symlinks=True, ignore=shutil.ignore_patterns("share", "locale"))
    for folder in "bin proc sys dev run tmp etc root var/lib usr/bin".split():
        (root / folder).mkdir(parents=True, exist_ok=True)
    if not tools:
        shutil.copy(shutil.which("busybox"), root / "bin")
    for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True).stdout.split():
        if name not in TOOLS and not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to("busybox")
    for program in programs if tools else [*map(shutil.which, TOOLS), *programs]:
        copy_program(program, root, architecture)
    (version,) = (kernel / "lib/modules").iterdir()
    modules = root / "lib/modules" / version.name
    for part in MODULES:
        shutil.copytree(version / "kernel" / part, modules / "kernel" / part)
    for listing in version.glob("modules.*"):
        shutil.copy(listing, modules)
    run("depmod", "-b", root, version.name, stderr=subprocess.DEVNULL)
    shutil.copy(HERE / "kernels.sh", root / "kernels.sh")
    if module and module.exists():
        shutil.copy(module, root)
    shutil.copytree(HERE.parent / "scenarios", root / "scenarios")
    shutil.copytree(HERE.parent / "packaging/openwrt", root / "openwrt")
    (root / "init").write_text("#!/bin/busybox sh\nexec /bin/busybox sh /kernels.sh init\n")
    (root / "init").chmod(0o755)
    image = at / "image"
    with image.open("wb") as file:
        run("sh", "-c", "find . | cpio -o -H newc --quiet | gzip -1", cwd=root, stdout=file)
    return image


def boot(kernel, image, architecture, only, show):
    """Boots the machine; yields its lines."""
    vmlinuz = next((kernel / "boot").glob("vmlinuz-*"))
    processor, kind, model, console = MACHINES[architecture]
    machine = "-accel tcg,thread=multi -smp 2 -m 2048 -nographic -no-reboot -nodefaults -serial stdio".split()
    for number in "01":
        machine += ["-netdev", f"tap,id=n{number},ifname=tap{number},script=no,downscript=no,vnet_hdr=on"]
        machine += ["-device", f"virtio-net-pci,netdev=n{number},romfile="]
    append = f"console={console} quiet panic=-1 mitigations=off no_timer_check only={only}"
    machine = [f"qemu-system-{processor}", "-machine", kind, "-cpu", model, *machine]
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
    """Returns what a kernel can do: a result and a sentence for each command."""
    kernel = kernel_of(version, arguments.architecture, arguments.cache)
    tools = None if arguments.architecture == this_architecture() else tools_of(arguments.architecture, arguments.cache)
    programs = [arguments.programs / name for name in PROGRAMS] + arguments.verifier
    began, results = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as at:
        build = None if tools else headers_of(kernel, arguments.architecture, arguments.cache)
        module = build and module_of(build, Path(at))
        if build and not module.exists():
            results["module headway_ls"] = ("fails", "it does not compile")
        image = make_image(kernel, programs, arguments.architecture, tools, module, Path(at))
        with contextlib.closing(boot(kernel, image, arguments.architecture, arguments.only, arguments.show)) as lines:
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
    """Returns the table of all kernels as lines of Markdown; commands with the same results share a row."""
    rows = {}
    for command in dict.fromkeys(command for kernel in results.values() for command in kernel):
        cells = tuple(kernel.get(command, ("not tried",))[0] for kernel in results.values())
        rows.setdefault(cells, []).append(command)
    yield "| | " + " | ".join(f"Linux {version}" for version in results) + " |"
    yield "|---" * (len(results) + 1) + "|"
    for cells, commands in rows.items():
        yield f"| {', '.join(commands)} | " + " | ".join(cells) + " |"


def write_table(table, page):
    """Replaces the table between the marks of a page."""
    begin, end = "<!-- table of make kernels -->\n", "<!-- its end -->"
    before, _, rest = page.read_text().partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"{page} has no marks for the table")
    page.write_text(before + begin + "\n".join(table) + "\n" + end + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL", help="such as 6.1")
    parser.add_argument("--architecture", choices=MACHINES, default=this_architecture(), help="of the programs and the machine")
    parser.add_argument("--programs", type=Path, required=True, help="folder with Headway's programs")
    parser.add_argument("--verifier", type=Path, action="append", default=[], help="test that loads all programs of BPF")
    parser.add_argument("--cache", type=Path, default=HERE.parent / "target/kernels", help="where packages stay")
    parser.add_argument("--only", default="", help="try only commands with one of these in their names: edge,lab")
    parser.add_argument("--page", type=Path, help="page whose table of kernels is to be this one")
    parser.add_argument("--show", action="store_true", help="show all that the machine prints")
    arguments = parser.parse_args()
    processor, *_ = MACHINES[arguments.architecture]
    needs = [*NEEDS, f"qemu-system-{processor}", strip_of(arguments.architecture)]
    needs += TOOLS if arguments.architecture == this_architecture() else []
    missing = [tool for tool in needs if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        cannot(f"it needs root and these commands: {' '.join(needs)}; missing: {' '.join(missing) or 'root'}")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    results = {version: results_of(version, arguments) for version in arguments.kernels}
    table = list(table_of(results))
    print("\n".join(table))
    if arguments.page:
        write_table(table, arguments.page)
    for version, kernel in results.items():
        for command, (result, sentence) in kernel.items():
            if result not in ("ok", "refused"):
                print(f"\nLinux {version}, {command}: {sentence}")
    return any(result == "fails" for kernel in results.values() for result, _ in kernel.values())


if __name__ == "__main__":
    sys.exit(main())
