#!/bin/sh
# Installs the packages of a folder, each alone and all together, tries their contents, and removes them: `test.sh FOLDER`, as root.
# All of this happens in a mount namespace of its own, on overlays over this host's files that keep changes in memory. The host is not
# changed; the test uses its libraries and dpkg's list of installed packages.
set -eu

if [ "${2-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo 'test.sh: only root can install a package' >&2; exit 1; }
    exec unshare --mount --propagation private "$0" "$(realpath "$1")" inside
fi
packages=$1
programs='headway headway-router headway-lab'

stage=
say() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
in_root() { chroot "$stage/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"; }
# A host on which nothing is installed yet.
host() {
    stage=$(mktemp -d)
    mount -t tmpfs tmpfs "$stage"
    mkdir "$stage/changes" "$stage/work" "$stage/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/changes,workdir=$stage/work" "$stage/root"
    mkdir "$stage/root/packages"
    for place in proc sys dev; do mount --rbind "/$place" "$stage/root/$place"; done
    # The files that the demo writes must not count as left behind by the package.
    mount -t tmpfs tmpfs "$stage/root/tmp"
    mount -t tmpfs tmpfs "$stage/root/run"
    for program in $programs; do
        ! in_root sh -c "command -v $program" || fail "$program is already installed on this host"
    done
    cp "$packages"/headway*.deb "$stage/root/packages"
}
# Nothing of these packages may be left when they are removed.
remove() {
    in_root dpkg --purge "$@"
    left=$(find "$stage/changes" ! -type d ! -type c | sed "s|^$stage/changes||" | grep -Ev '^/packages/|^/var/(lib/dpkg|log|cache)/' || true)
    [ -z "$left" ] || fail "left behind: $left"
    folders=$(find "$stage/changes" -type d -iname '*headway*' | sed "s|^$stage/changes||")
    [ -z "$folders" ] || fail "folders left behind: $folders"
}
file_of() { echo "/packages/$(basename "$packages/$1"_*.deb)"; }

host
say 'what they depend on'
for row in 'headway libc6 iproute2' 'headway-router libc6 libelf1 zlib1g iproute2' 'headway-lab libc6 libelf1 zlib1g iproute2' \
    'headway-all headway headway-router headway-lab'; do
    # shellcheck disable=SC2086
    set -- $row
    name=$1
    shift
    depends=$(in_root dpkg-deb --field "$(file_of "$name")" Depends)
    echo "$name: $depends"
    for other; do echo "$depends" | grep -q "$other" || fail "$name does not depend on $other"; done
done

say 'each alone'
for row in 'headway 8 measure' 'headway-router 12 cc' 'headway-lab - lab'; do
    # shellcheck disable=SC2086
    set -- $row
    in_root dpkg --install "$(file_of "$1")"
    in_root dpkg --verify "$1"
    in_root "$1" --version
    in_root "$1" "$3" --help | grep "^Usage: $1 $3" || fail "the usage of $1 $3 has another name"
    ! in_root readelf --sections --wide "/usr/bin/$1" | grep -q '\.debug_info' || fail "$1 carries debug symbols"
    bytes=$(stat --format %s "$stage/root/usr/bin/$1")
    echo "$1 has $bytes bytes"
    [ "$2" = - ] || [ "$bytes" -le $(($2 * 1000000)) ] || fail "$1 has more than $2 MB"
    for file in "man/man1/headway-$3.1.gz" "man/man1/$1.1.gz" "bash-completion/completions/$1" "zsh/vendor-completions/_$1" \
        "fish/vendor_completions.d/$1.fish"; do
        in_root test -s "/usr/share/$file" || fail "$1 has no $file"
    done
    if [ "$1" = headway ]; then
        for row in 'edge headway-router' 'run headway-lab'; do
            code=0
            said=$(in_root headway "${row%% *}" --help 2>&1) || code=$?
            echo "$said"
            [ $code = 1 ] && echo "$said" | grep -q "install the Debian package ${row##* }$" || fail "it does not say where ${row%% *} is"
        done
        in_root headway --help | grep -q '^  edge ' || fail 'its help lacks the commands of other programs'
    fi
    remove "$1"
done

say 'instead of the former package of all programs'
former=$stage/root/packages/former
mkdir "$former"
for name in $programs; do dpkg-deb --extract "$(echo "$packages/${name}"_*.deb)" "$former"; done
mkdir "$former/DEBIAN"
printf 'Package: headway\nVersion: 0.1.0-1\nArchitecture: %s\nMaintainer: nobody\nDescription: all programs\n' "$(dpkg --print-architecture)" \
    > "$former/DEBIAN/control"
dpkg-deb --build "$former" "$stage/root/packages/former.deb" > /dev/null
rm -rf "$former"
in_root dpkg --install /packages/former.deb
! in_root dpkg --install "$(file_of headway-router)" 2> /dev/null || fail 'it may be beside the former package'
# What comes first overwrites files of the former package, and apt lets dpkg deconfigure that one.
in_root dpkg --auto-deconfigure --install "$(file_of headway-router)" "$(file_of headway-lab)" "$(file_of headway)"
for name in $programs; do in_root dpkg --verify "$name"; done
in_root dpkg --search /usr/bin/headway-router | grep '^headway-router:' || fail 'the program of routers is still in the former package'
# shellcheck disable=SC2086
remove $programs

say 'all together'
set --
for name in $programs headway-all; do set -- "$@" "$(file_of "$name")"; done
in_root dpkg --install "$@"
in_root dpkg --verify headway
in_root headway cc list
in_root headway edge --help | grep '^Usage: headway edge' || fail 'the usage of an edge has another name'
in_root headway help lab | grep '^Usage: headway lab' || fail 'the usage of a lab has another name'
for file in /usr/share/man/man1/headway-serve.1.gz /usr/share/man/man1/headway-lab-up.1.gz /etc/default/headway-serve; do
    in_root test -s "$file" || fail "there is no $file"
done

say 'what is in them'
for program in $programs; do
    python3 - "$stage/root/usr/share/doc/$program/$program.cdx.json" <<'END' || fail "the list of components of $program lacks some, or their licences"
import json, sys
bom = json.load(open(sys.argv[1]))
components = {component["name"]: component for component in bom["components"]}
for name in ("serde_json", "rustls", "libc", "headway-units"):
    component = components[name]
    print(name, component["version"], json.dumps(component["licenses"]))
assert bom["bomFormat"] == "CycloneDX" and not {"criterion", "windows-sys"} & components.keys()
END
done

say 'units'
if in_root sh -c 'command -v systemd-analyze' >/dev/null; then
    unit=/usr/lib/systemd/system/headway-serve.service
    in_root systemd-analyze verify --man=no $unit
    in_root systemd-analyze verify --man=no /usr/lib/systemd/system/headway-cc@.service /usr/lib/systemd/system/headway-edge.service /usr/lib/systemd/system/headway-select.service
    # systemd-analyze takes the exposure level as an integer, times ten.
    in_root systemd-analyze security --offline=yes --threshold=20 $unit > "$stage/exposure" || fail 'the server is exposed at 2.0 or more'
    tail -n 1 "$stage/exposure"
else
    echo 'SKIPPED: there is no systemd-analyze'
fi

say 'demo'
in_root headway demo --output /tmp/report > "$stage/demo" || fail 'the demo failed'
tail -n 5 "$stage/demo"
in_root test -s /tmp/report/report.html || fail 'the demo wrote no report'

say 'remove'
in_root ln -s /usr/lib/systemd/system/headway-serve.service /etc/systemd/system/multi-user.target.wants/headway-serve.service
in_root dpkg --remove headway-all headway
in_root test -s /etc/default/headway-serve || fail 'removing took the configuration'
# shellcheck disable=SC2086
remove $programs
say 'nothing is left behind'
