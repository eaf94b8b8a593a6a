#!/bin/sh
# Tries static programs where nothing else is: `static.sh FOLDER`, as root. They run in an empty folder as their root, without network but
# for a loopback interface of their own; those for another machine run in QEMU, which does not have the kernel's timestamps.
set -eu

if [ "${2-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo 'static.sh: only root can change the root folder' >&2; exit 1; }
    exec unshare --net --mount --propagation private "$0" "$(realpath "$1")" inside
fi
programs=$1

say() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }

root=$(mktemp -d)
mount -t tmpfs tmpfs "$root"
ip link set lo up
cp "$programs"/headway* "$root"
emulator=
if ! chroot "$root" /headway --version > /dev/null 2>&1; then
    cp "$(command -v qemu-aarch64-static)" "$root/emulator"
    emulator=/emulator
fi
# shellcheck disable=SC2086
in_root() { chroot "$root" $emulator "$@"; }

say 'sizes'
for row in 'headway 8' 'headway-router 12'; do
    bytes=$(stat --format %s "$programs/${row% *}")
    echo "${row% *} has $bytes bytes"
    [ "$bytes" -le $((${row##* } * 1000000)) ] || fail "${row% *} has more than ${row##* } MB"
done

say 'each alone'
for program in headway headway-router headway-lab; do in_root "/$program" --version; done
in_root /headway-router cc list | grep -q '^ls-reno' || fail 'there is no list of controllers'

say 'names of hosts'
mkdir "$root/etc"
echo '127.0.0.1 far.example' > "$root/etc/hosts"
# A source of names in a library, which may be for another C library; a program that looks for it goes no further.
echo 'hosts: other [UNAVAIL=return] files dns' > "$root/etc/nsswitch.conf"
said=$(in_root /headway measure far.example 2>&1) && fail 'there is no server yet'
echo "$said" | grep -q '127.0.0.1' || fail "it does not know the host of /etc/hosts: $said"

if [ -z "$emulator" ]; then
    say 'measure over loopback'
    chroot "$root" /headway serve > "$root/served" 2>&1 &
    server=$!
    for _ in $(seq 50); do ! grep -q listening "$root/served" || break; sleep 0.1; done
    in_root /headway measure far.example --budget 4MB --json > "$root/answer" 2> "$root/why" || true
    kill -INT "$server"
    wait "$server" || fail "the server did not end well: $(cat "$root/served")"
    grep -q 'session ended' "$root/served" || fail "there was no measurement: $(cat "$root/why")"
fi
say 'they need nothing else'
