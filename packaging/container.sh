#!/bin/sh
# Builds an image from programs: `container.sh FOLDER TAG`. It has their libraries, so no other image is needed.
set -eu

programs=$1
tag=$2
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/root/etc" "$stage/root/run"
mkdir -m 1777 "$stage/root/tmp"
printf 'root:x:0:0::/:/\nnobody:x:65534:65534::/:/\n' > "$stage/root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' > "$stage/root/etc/group"
for name in headway headway-router; do
    install -D -s -t "$stage/root/usr/bin" "$programs/$name"
    for library in $(ldd "$programs/$name" | grep -o '/[^ ]*'); do install -D "$library" "$stage/root$library"; done
done
podman build --quiet --tag "$tag" --file "$(dirname "$0")/Containerfile" "$stage"
