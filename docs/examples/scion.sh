#!/bin/sh
# A hook of headway select for programs that choose SCION paths by the package pan of scion-apps: it writes which hops they should take.
#
# /etc/headway/scion.paths, or the file $1, has a line for each path: its name, and the hop predicates of its SCION path, such as
#   geneva 1-ff00:0:110#0 1-ff00:0:120#2,1 1-ff00:0:133#0
# Those of the chosen path are in /run/headway/scion.sequence, or the file $2, which is replaced in one step.
set -eu
paths=${1:-/etc/headway/scion.paths}
sequence=${2:-/run/headway/scion.sequence}
hops=$(awk '$1 == ENVIRON["HEADWAY_NEW"] { sub(/^[ \t]*[^ \t]+[ \t]*/, ""); print; exit }' "$paths")
if [ -z "$hops" ]; then
    echo "$paths has no hops of $HEADWAY_NEW" >&2
    exit 1
fi
# Whoever starts such programs may read it.
umask 022
printf '%s\n' "$hops" >"$sequence.new"
mv -f "$sequence.new" "$sequence"
