#!/bin/sh
# Checks which commands the init script for OpenWrt starts: `test.sh [PROGRAM]`. It runs in BusyBox where there is one, with stand-ins for
# procd and UCI. PROGRAM is a headway-router whose help must have the options.
# shellcheck disable=SC2034,SC2153,SC3043
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1-}" != inside ]; then
    shell='busybox sh'
    busybox true 2> /dev/null || shell='sh'
    # shellcheck disable=SC2086
    exec $shell "$0" inside "${1-}"
fi
program=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# shellcheck source=/dev/null
. "$here/stand-ins.sh"
procd_open_instance() { printf '%s:' "$1"; }
procd_set_param() { case $1 in command) procd_append_param "$@" ;; esac; }
procd_append_param() { shift; for word; do printf ' [%s]' "$word"; done; }
procd_close_instance() { echo; }
procd_add_reload_trigger() { echo "file: $1"; }
procd_add_reload_interface_trigger() { echo "network: $1"; }
# shellcheck source=/dev/null
. "$here/files/headway.init"

# Arguments: what is tried, a line for sed that changes the configuration, whether the link is up, and what is expected.
try() {
    sed "$2" "$here/files/headway.config" > "$root/headway"
    up=$3
    said=$(start_service; service_triggers)
    expected="$4
file: headway
network: lan
network: ${5-wan}"
    [ "$said" = "$(echo "$expected" | sed '/^$/d')" ] || fail "$1: expected
$expected
but it said
$said"
}
on="s/enabled '0'/enabled '1'/"
edge="edge: [$PROGRAM] [edge] [--lan] [br-lan] [--wan]"
select="select: [$PROGRAM] [select] [/etc/headway/select.toml]"
try 'as installed' '' 1 ''
try 'without rates' "$on" 1 "$edge [pppoe-wan]
$select"
try 'all keys' "$on; s/#option/option/; s/#list/list/" 1 "$edge [pppoe-wan] [--rate] [50Mb/s] [--up] [10Mb/s] [--policy] [/etc/headway/edge.toml] [--dry-run]
$select [--dry-run]"
try 'an option with a space' "$on; s/#list option .*/list option '--policy=a b'/" 1 "$edge [pppoe-wan] [--policy=a b]
$select [--policy=a b]"
try 'a link that is down' "$on" 0 "log: the edge waits for the network wan
$select"
try 'a device' "$on; s/'wan'/'eth1'/" 0 "$edge [eth1]
$select" eth1

[ -d "$root/var/lib/headway" ] || fail 'there is no folder for histories'

version=$(sed -n 's/^PKG_VERSION:=//p' "$here/Makefile")
grep -q "^version = \"$version\"$" "$here/../../Cargo.toml" || fail "the recipe has version $version, and the program another one"
if [ -n "$program" ]; then
    for option in lan wan rate up policy; do
        "$program" edge --help | grep -q -- "--$option " || fail "headway edge has no option --$option"
    done
fi
echo 'The init script for OpenWrt starts what its configuration says.'
