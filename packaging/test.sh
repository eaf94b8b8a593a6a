#!/bin/sh
# Installs a package, tries its contents, and removes it: `test.sh PACKAGE.deb`, as root. All of this happens in a mount
# namespace of its own, on an overlay over this host's files that keeps changes in memory. The host is not changed; the
# test uses its libraries and dpkg's list of installed packages.
set -eu

if [ "${2-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo 'test.sh: only root can install a package' >&2; exit 1; }
    exec unshare --mount --propagation private "$0" "$(realpath "$1")" inside
fi
package=$1

stage=$(mktemp -d)
mount -t tmpfs tmpfs "$stage"
mkdir "$stage/changes" "$stage/work" "$stage/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/changes,workdir=$stage/work" "$stage/root"
cp "$package" "$stage/root/headway.deb"
for place in proc sys dev; do mount --rbind "/$place" "$stage/root/$place"; done
# The files that the demo writes must not count as left behind by the package.
mount -t tmpfs tmpfs "$stage/root/tmp"
mount -t tmpfs tmpfs "$stage/root/run"
in_root() { chroot "$stage/root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"; }

say() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
! in_root sh -c 'command -v headway' || fail 'headway is already installed on this host'

say 'what it depends on'
dpkg-deb --field "$package" Depends | tee "$stage/depends"
for library in libc6 libelf1 zlib1g iproute2; do grep -q "$library" "$stage/depends" || fail "it does not depend on $library"; done

say 'install'
in_root dpkg --install /headway.deb
in_root dpkg --verify headway
in_root headway --version
in_root headway cc list
for file in /usr/share/man/man1/headway-serve.1.gz /usr/share/bash-completion/completions/headway \
    /usr/share/zsh/vendor-completions/_headway /usr/share/fish/vendor_completions.d/headway.fish /etc/default/headway-serve; do
    in_root test -s "$file" || fail "there is no $file"
done
! in_root readelf --sections --wide /usr/bin/headway | grep -q '\.debug_info' || fail 'the program carries debug symbols'

say 'what is in it'
python3 - "$stage/root/usr/share/doc/headway/headway.cdx.json" <<'END' || fail 'the list of components lacks some, or their licences'
import json, sys
bom = json.load(open(sys.argv[1]))
components = {component["name"]: component for component in bom["components"]}
for name in ("serde_json", "rustls", "libc", "headway-units"):
    component = components[name]
    print(name, component["version"], json.dumps(component["licenses"]))
assert bom["bomFormat"] == "CycloneDX" and not {"criterion", "windows-sys"} & components.keys()
END

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
in_root dpkg --remove headway
in_root test -s /etc/default/headway-serve || fail 'removing took the configuration'
in_root dpkg --purge headway
left=$(find "$stage/changes" ! -type d ! -type c | sed "s|^$stage/changes||" | grep -Ev '^/headway\.deb$|^/var/(lib/dpkg|log|cache)/' || true)
[ -z "$left" ] || fail "left behind: $left"
folders=$(find "$stage/changes" -type d -iname '*headway*' | sed "s|^$stage/changes||")
[ -z "$folders" ] || fail "folders left behind: $folders"
say 'nothing is left behind'
