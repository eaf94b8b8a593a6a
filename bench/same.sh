#!/usr/bin/env bash
# Runs every scenario in the simulator with two programs, and says which results differ in a byte.
#
# usage: bench/same.sh OLD NEW [SCENARIO...]
set -euo pipefail
old=$1 new=$2
shift 2
[ $# -gt 0 ] || set -- "$(dirname "$0")"/../scenarios/*.toml
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
same=0 other=0
for file in "$@"; do
    "$old" run "$file" --on sim --json >"$folder/old" 2>/dev/null || continue
    "$new" run "$file" --on sim --json >"$folder/new" 2>/dev/null || true
    # How long a run took differs each time, and builds have names.
    other_each_time='s/"(wall|speed)[a-z_]*": *[^,}]*|"build": *"[^"]*"//g'
    if diff <(sed -E "$other_each_time" "$folder/old") <(sed -E "$other_each_time" "$folder/new") >"$folder/diff"; then
        same=$((same + 1))
    else
        other=$((other + 1))
        echo "differs: $file"
        head -c 400 "$folder/diff"
    fi
done
echo "$same results are the same, $other differ"
[ "$other" -eq 0 ]
