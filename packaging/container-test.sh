#!/bin/sh
# Runs the commands of an image in containers with no more capabilities than they need, over a path of 40 Mb/s between two network
# namespaces, and compares what they say with that: `container-test.sh TAG`, as root.
set -eu

image=$1
rate=40
[ "$(id -u)" = 0 ] || { echo 'container-test.sh: only root can make network namespaces' >&2; exit 1; }
fail() { echo "FAILED: $*" >&2; cat "$work"/* >&2; exit 1; }
say() { echo "== $*"; }

work=$(mktemp -d)
client=hw-client-$$ router=hw-router-$$ server=hw-server-$$
started=
clean() {
    # shellcheck disable=SC2086
    [ -z "$started" ] || podman rm --force --time 2 $started > /dev/null 2>&1 || true
    # shellcheck disable=SC2086
    [ -z "$user" ] || $as_user podman rm --force --time 2 --all > /dev/null 2>&1 || true
    for name in $client $router $server; do ip netns del "$name" 2> /dev/null || true; done
    rm -rf "$work" "$home"
}
# A user who runs containers; empty while root does.
user='' home=$(mktemp -d)
trap clean EXIT
trap 'exit 1' INT TERM

# Some hosts forbid the usual limits, or have both versions of cgroups, with which crun does not start.
limits='--ulimit nofile=1024:1024 --ulimit nproc=1024:1024'
options=
for options in '' "--runtime runc" "$limits" "--runtime runc $limits" none; do
    [ "$options" != none ] || { echo "SKIPPED: podman runs no container here: $(cat "$work/try")"; exit 0; }
    # shellcheck disable=SC2086
    ! podman run --rm $options --network none --cap-drop all "$image" --version > "$work/try" 2>&1 || break
done
cat "$work/try"
# Runs a command of the image in a network namespace, as root or as the user: `run NAMESPACE OPTIONS -- COMMAND`.
run() {
    place=$1
    shift
    more=
    while [ "$1" != -- ]; do more="$more $1"; shift; done
    shift
    bounds='--cap-drop all --security-opt no-new-privileges --read-only'
    # shellcheck disable=SC2086
    if [ -z "$user" ]; then podman run $options --network "ns:/run/netns/$place" $bounds $more "$@"
    else ip netns exec "$place" $as_user podman run $options --network host $bounds $more "$@"; fi
}

for name in $client $router $server; do ip netns add "$name"; ip -n "$name" link set lo up; done
ip link add wan netns "$client" type veth peer name lan netns "$router"
ip link add eth0 netns "$server" type veth peer name wan netns "$router"
ip -n "$client" address add 10.88.1.2/24 dev wan
ip -n "$router" address add 10.88.1.1/24 dev lan
ip -n "$router" address add 10.88.2.1/24 dev wan
ip -n "$server" address add 10.88.2.2/24 dev eth0
for row in "$client wan" "$router lan" "$router wan" "$server eth0"; do ip -n "${row% *}" link set "${row#* }" up; done
ip -n "$client" route add default via 10.88.1.1
ip -n "$server" route add default via 10.88.2.1
ip netns exec "$router" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
# The rate counts Ethernet frames; on the wire each has 24 bytes more.
ip netns exec "$router" tc qdisc add dev wan root tbf rate ${rate}mbit burst 1600 limit 100000

# Measures from the client, and compares the answer with the path.
measure() {
    begun=$(date +%s%N)
    until run "$client" --rm -- "$image" measure 10.88.2.2 --json > "$work/answer" 2> "$work/error"; do
        [ $(($(date +%s%N) - begun)) -lt 20000000000 ] || fail 'no answer within 20 s'
    done
    echo "first answer after $((($(date +%s%N) - begun) / 1000000)) ms"
    python3 - "$work/answer" "$rate" <<'END' || fail 'the answer is wrong'
import json, sys
answer, rate = json.loads(open(sys.argv[1]).readline()), float(sys.argv[2]) * 1538 / 1514
low, free, high = (answer[f"available_{end}bps"] / 1e6 for end in ("low_", "", "high_"))
print(f"{free:.1f} Mb/s ({low:.1f} to {high:.1f}) of {rate:.1f} Mb/s")
assert abs(free - rate) < 0.1 * rate
END
}

say 'serve and measure, without any capability'
started="$(run "$server" --detach -- "$image" serve)"
measure
podman rm --force --time 2 "$started" > /dev/null
started=

say 'the same without root'
user=$(sed -n '1s/:.*//p' /etc/subuid 2> /dev/null)
if [ -n "$user" ] && command -v newuidmap > /dev/null; then
    chown "$user" "$home"
    as_user="setpriv --reuid $user --regid $user --clear-groups env --chdir=$home HOME=$home XDG_RUNTIME_DIR=$home"
    # shellcheck disable=SC2086
    podman save --quiet "$image" | $as_user podman load --quiet > /dev/null
    run "$server" --detach -- "$image" serve > /dev/null
    measure
    $as_user podman rm --force --time 2 --all > /dev/null
else echo "SKIPPED: no user in /etc/subuid, or no newuidmap"; fi
user=

say 'doctor'
run "$client" --rm -- "$image" doctor measure serve flows || fail 'a command does not work in a container'

say 'passive, with CAP_NET_RAW'
cat > "$work/transfer.py" <<'END'
import socket, sys
if sys.argv[1] == "receive":
    listener = socket.create_server(("", 9000))
    connection, _ = listener.accept()
    while connection.recv(65536): pass
else:
    socket.create_connection(("10.88.2.2", 9000)).sendall(bytes(15_000_000))
END
ip netns exec "$server" python3 "$work/transfer.py" receive &
receiver=$!
until ip netns exec "$server" grep -q ':2328 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $receiver 2> /dev/null || fail 'no receiver'; done
(run "$client" --rm --user 0 --cap-add NET_RAW -- "$image" passive --interface wan --duration 6s --json \
    > "$work/passive" 2> "$work/error") &
listening=$!
while [ "$(ip netns exec "$client" cat /proc/net/packet | wc -l)" -lt 2 ]; do kill -0 $listening 2> /dev/null || fail 'passive has ended'; done
ip netns exec "$client" python3 "$work/transfer.py" send
wait $listening || fail 'passive does not work'
wait $receiver
python3 - "$work/passive" "$rate" <<'END' || fail 'passive does not see the transfer'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
free = [path["free_bps"] / 1e6 for line in lines for path in line["paths"] if path.get("free_bps")]
print("free, while a transfer used it:", ", ".join(f"{rate:.1f}" for rate in free), "Mb/s")
assert any(abs(rate - float(sys.argv[2]) * 1538 / 1514) < 4 for rate in free)
END

say 'edge, with the capabilities of its unit'
run "$router" --rm --name $router --user 0 --cap-add BPF --cap-add PERFMON --cap-add NET_ADMIN --cap-add NET_RAW --cap-add SETUID \
    --cap-add SETGID --security-opt seccomp=unconfined --tmpfs /run --entrypoint /usr/bin/headway-router -- "$image" edge --lan lan --wan wan --rate ${rate}Mb/s \
    > "$work/edge" 2>&1 &
edge=$!
started="$started $router"
until grep -q 'Ctrl-C ends' "$work/edge"; do kill -0 $edge 2> /dev/null || fail 'edge has ended'; done
ip netns exec "$server" python3 "$work/transfer.py" receive &
receiver=$!
until ip netns exec "$server" grep -q ':2328 ' /proc/net/tcp /proc/net/tcp6; do kill -0 $receiver 2> /dev/null || fail 'no receiver'; done
ip netns exec "$client" python3 "$work/transfer.py" send
wait $receiver
podman kill --signal INT $router > /dev/null
wait $edge || fail 'edge did not end well'
cat "$work/edge"
grep -q '1 connection' "$work/edge" || fail 'edge saw no connection'
echo 'PASSED'
