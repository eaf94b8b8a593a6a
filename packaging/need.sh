#!/bin/sh
# Checks for the programs and headers that a make target needs, grouped by purpose: `need.sh rust ip`. As root it
# installs missing Debian packages; otherwise it names them and fails.
set -eu

packages=
# Arguments: a command or header, and the package that contains it; for a library, its compiler before them.
command_of() { command -v "$1" >/dev/null || packages="$packages $2"; }
header_of() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 || packages="$packages $2"; }
library_of() { # compilers print only the name of a file that they do not find
    case $("$1" -print-file-name="$2" 2>/dev/null) in /*) ;; *) packages="$packages $3" ;; esac
}

for purpose; do
    case $purpose in
    rust) # with the linker that rustc calls
        command -v "${CARGO:-cargo}" >/dev/null || {
            echo 'Rust is missing: install it from https://rustup.rs and run make again.' >&2
            exit 1
        }
        command -v cc >/dev/null || packages="$packages gcc libc6-dev" ;;
    ip) # emulated paths
        command_of ip iproute2 ;;
    bpf) # controllers for the running kernel
        for tool in clang make pkg-config; do command_of $tool $tool; done
        header_of gelf.h libelf-dev
        header_of zlib.h zlib1g-dev ;;
    kernel) # the kernel in virtual time
        for tool in make flex bison bc patch; do command_of $tool $tool; done
        command_of xz xz-utils ;;
    kernels | kernels-amd64 | kernels-arm64) # other kernels in an emulated machine
        case $purpose in
        *-arm64) command_of qemu-system-aarch64 qemu-system-arm ;;
        *) command_of qemu-system-x86_64 qemu-system-x86 ;;
        esac
        command_of busybox busybox-static
        command_of cpio cpio
        command_of depmod kmod
        command_of strip binutils
        for tool in iperf3 ethtool curl; do command_of $tool $tool; done
        command_of ping iputils-ping
        command_of ip iproute2 ;;
    hostile)
        for tool in ethtool openssl; do command_of $tool $tool; done ;;
    fuzz) # a compiler that can instrument, and what runs the targets
        "${CARGO:-cargo}" +nightly --version >/dev/null 2>&1 || {
            echo 'A nightly Rust is missing. Install it with: rustup toolchain install nightly' >&2
            exit 1
        }
        "${CARGO:-cargo}" fuzz --version >/dev/null 2>&1 || {
            echo 'cargo-fuzz is missing. Install it with: cargo install cargo-fuzz --locked' >&2
            exit 1
        }
        command_of c++ g++ ;;
    python) # with what makes environments
        python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || packages="$packages python3 python3-venv" ;;
    deb) # the package and its debug symbols
        command_of dpkg-shlibdeps dpkg-dev
        command_of objcopy binutils ;;
    container) # builds images, and runs them on hosts with both versions of cgroups
        command_of podman podman
        command_of runc runc
        command_of strip binutils ;;
    container-test)
        command_of tc iproute2
        command_of python3 python3 ;;
    deb-test)
        command_of python3 python3 ;;
    static) # libraries that become a part of programs
        library_of cc libc.a libc6-dev
        library_of cc libelf.a libelf-dev
        library_of cc libz.a zlib1g-dev ;;
    static-test)
        command_of qemu-aarch64-static qemu-user-static
        command_of ip iproute2 ;;
    for-amd64 | for-arm64) # a compiler for such a machine, and libraries
        machine=${purpose#for-}
        [ "$machine" = arm64 ] && processor=aarch64 || processor=x86_64
        command_of "$processor-linux-gnu-gcc" "gcc-$(echo "$processor" | tr _ -)-linux-gnu libc6-dev-$machine-cross"
        library_of "$processor-linux-gnu-gcc" libelf.a "libelf-dev:$machine"
        library_of "$processor-linux-gnu-gcc" libz.a "zlib1g-dev:$machine"
        target=$processor-unknown-linux-gnu
        [ -d "$(rustc --print target-libdir --target "$target")" ] || {
            echo "Rust cannot compile for this machine yet. Install its library with: rustup target add $target" >&2
            exit 1
        } ;;
    *)
        echo "need.sh: unknown purpose \`$purpose\`" >&2
        exit 2 ;;
    esac
done

if [ -z "$packages" ]; then
    exit 0
elif [ "$(id -u)" = 0 ]; then
    for machine in $(echo "$packages" | grep -o ':[^ ]*' | tr -d : | sort -u); do dpkg --add-architecture "$machine"; done
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $packages
else
    echo "These system packages are missing:$packages. Install them with: sudo apt-get install$packages" >&2
    exit 1
fi
