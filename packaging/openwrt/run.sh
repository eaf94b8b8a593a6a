#!/bin/sh
# Becomes the edge that the init script for OpenWrt starts, between two interfaces: `run.sh LAN WAN RATE`.
# shellcheck shell=ash disable=SC2034
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
up=1
# shellcheck source=/dev/null
. "$here/stand-ins.sh"
procd_open_instance() { instance=$1; }
procd_set_param() { case $1 in command) shift; parameters=$*; esac; }
procd_append_param() { shift; parameters="$parameters $*"; }
procd_close_instance() { exec $parameters; }
sed \
    "s/enabled '0'/enabled '1'/; s/'lan'$/'$1'/; s/'wan'$/'$2'/; s|#option rate '.*'|option rate '$3'|" \
    "$here/files/headway.config" > "$root/headway"
# shellcheck source=/dev/null
. "$here/files/headway.init"
start_service
