#!/bin/sh
# Builds the package headway-all, which is empty and depends on those of all programs: `all.sh FOLDER PROGRAM...`, with theirs in
# FOLDER.
set -eu
folder=$1
shift
first=$(echo "$folder/$1"_*.deb)
version=$(dpkg-deb --field "$first" Version)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/DEBIAN"
{
    echo "Package: headway-all"
    echo "Version: $version"
    echo "Architecture: $(dpkg-deb --field "$first" Architecture)"
    echo "Maintainer: $(dpkg-deb --field "$first" Maintainer)"
    echo "Section: net"
    echo "Priority: optional"
    echo "Depends: $(for program; do echo "$program (= $version)"; done | paste -sd, - | sed 's/,/, /g')"
    echo "Description: All programs of Headway"
    echo " Installs $(echo "$*" | sed 's/ /, /g')."
} > "$stage/DEBIAN/control"
dpkg-deb --root-owner-group --build "$stage" "$folder/headway-all_${version}_$(dpkg-deb --field "$first" Architecture).deb" > /dev/null
