#!/bin/bash
# Tries Headway's commands in the machine that kernels.py boots, and prints a line for each:
# `RESULT<tab>command<tab>ok, refused, fails or needs VERSION<tab>sentence`. Three network namespaces c - r - s: c has 10.0.0.2 and fd00::2,
# the router r forwards, s has 10.0.1.2 and fd01::2 behind 40 ms, and a link between b's two ports joins 10.0.2.0/24.
# Between r and s are two network cards, with their offloads on; the veth have none.
set -u

if [ "${1-}" = init ]; then
    export PATH=/usr/bin:/usr/sbin:/sbin:/bin HOME=/root
    mount -t proc p /proc
    mount -t sysfs s /sys
    mount -t devtmpfs d /dev
    mount -t tmpfs t /run
    mount -t tmpfs t /tmp
    mkdir -p /dev/shm
    mount -t bpf b /sys/fs/bpf
    mount -t cgroup2 c /sys/fs/cgroup
    printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n' >/etc/passwd
    printf 'root:x:0:\nnogroup:x:65534:\n' >/etc/group
    for module in virtio_pci virtio_net veth tcp_diag inet_diag sch_fq_codel sch_tbf sch_htb sch_netem sch_fq sch_ingress \
        cls_bpf; do
        modprobe $module 2>/dev/null
    done
    bash /kernels.sh run 2>&1
    echo END
    poweroff -f
fi

# Prefixes and not functions, so that the number of a job is that of its program.
in_c='ip netns exec c'
in_r='ip netns exec r'
in_s='ip netns exec s'

make_network() {
    ip link set lo up
    for node in c r s b; do
        ip netns add $node
        ip -n $node link set lo up
        ip netns exec $node sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 net.ipv4.tcp_ecn=1
    done
    ip link set eth0 name r1 netns r
    ip link set eth1 name s0 netns s
    ip link add c0 netns c type veth peer name r0 netns r
    ip link add c1 netns c type veth peer name b0 netns b
    ip link add s1 netns s type veth peer name b1 netns b
    for port in c:c0:10.0.0.2:fd00::2 r:r0:10.0.0.1:fd00::1 r:r1:10.0.1.1:fd01::1 s:s0:10.0.1.2:fd01::2 \
        c:c1:10.0.2.1:fd02::1 s:s1:10.0.2.2:fd02::2 b:b0 b:b1; do
        IFS=: read -r node name address rest <<<"$port"
        [ -n "$address" ] && ip -n $node addr add "$address/24" dev $name && ip -n $node addr add "$rest/64" dev $name
        ip -n $node link set $name up
        # So that checksums are complete, and what the edge makes of them is found out at s.
        [ $name != c0 ] || ip netns exec c ethtool -K c0 tx off >/dev/null
        case $name in s0 | r1) ;; *) ip netns exec $node ethtool -K $name tso off gso off gro off >/dev/null 2>&1 ;; esac
    done
    $in_r sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    ip -n c route add default via 10.0.0.1
    ip -n c -6 route add default via fd00::1
    ip -n s route add default via 10.0.1.1
    ip -n s -6 route add default via fd01::1
    $in_s tc qdisc add dev s0 root netem delay 40ms limit 10000
    $in_s iperf3 -s -D
}

# Waits until a command succeeds: for as many seconds, or while a job lives.
until_true() {
    local seconds=$1 job=$2
    shift 2
    for ((i = 0; i < seconds * 5; i++)); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.2
    done
    return 1
}

# Ends a job and waits for it. With SIGTERM: jobs of a script ignore SIGINT.
end() {
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# Runs a transfer from s to c for some seconds and prints its rate in kb/s.
transfer() {
    $in_c timeout 60 iperf3 -c "$1" -R -t "$2" -f k -V "${@:3}" >/tmp/iperf 2>&1 || return 1
    awk '/receiver/ { for (i = 2; i <= NF; i++) if ($i == "Kbits/sec") print int($(i - 1)) }' /tmp/iperf
}

# Tries a command: the function of this name, with `-` as `_`.
try() {
    local name=$1 function=${1//[^a-zA-Z0-9]/_}
    grep -qE "${only//,/|}" <<<"$name" || return
    : >/tmp/log
    echo "trying $name"
    if sentence=$(eval "try_$function" 2>&1); then result=ok; else result=fails; fi
    # What cannot work is to be refused.
    [[ $result != ok || $name != *' without '* ]] || result=refused
    echo "$sentence"
    [ -n "$sentence" ] || sentence=$(grep -av '^ *$' /tmp/log | tail -1)
    needed=$(sed -n 's/.*needs\{0,1\} Linux \([0-9.]*\) or later.*/needs \1/p' <<<"$sentence" | tail -1)
    [ $result != fails ] || result=${needed:-fails}
    printf 'RESULT\t%s\t%s\t%s\n' "$name" "$result" "$(tail -1 <<<"$sentence" | tr '\t' ' ' | cut -c1-300)"
}

try_programs_in_the_kernel() {
    verifier=$(echo /usr/bin/verifier*)
    [ -x "$verifier" ] || { echo 'the test is not in the machine' && return 1; }
    "$verifier" --nocapture >/tmp/log 2>&1 || { grep -a 'panicked' -A1 /tmp/log | tail -1 && return 1; }
    grep -a INSTRUCTIONS /tmp/log
    most=$(sed -n 's/^INSTRUCTIONS.* //p' /tmp/log | sort -n | tail -1)
    echo "$(grep -ac INSTRUCTIONS /tmp/log) programs; the largest has the verifier read $most instructions"
}

try_serve() {
    $in_s headway serve >/tmp/serve 2>&1 &
    server=$!
    until_true 20 $server grep -q -i listening /tmp/serve || { cat /tmp/serve && return 1; }
    head -1 /tmp/serve
    disown $server
}

# Whether the answer is that this machine disturbs gaps, which is right: its processors are emulated.
disturbed() {
    grep -q 'pace packets\|closer together' /tmp/log && echo 'it says that gaps are disturbed here'
}

try_measure() { $in_c timeout 120 headway measure 10.0.1.2 >/tmp/log 2>&1 || disturbed; }

# The cards would hand on several packets at once.
try_path() {
    $in_s ethtool -K s0 gro off gso off tso off
    $in_c timeout 120 headway path 10.0.1.2 >/tmp/log 2>&1 || disturbed
    local result=$?
    $in_s ethtool -K s0 gro on gso on tso on
    return $result
}

# All commands work there, or the report says why not.
try_doctor() {
    $in_r headway doctor --interface r1 >/tmp/log 2>&1 || grep -q 'does not' /tmp/log || return 1
    echo "$(grep -ac ' works' /tmp/log) commands work, $(grep -ac 'does not' /tmp/log) do not"
}

try_flows() {
    transfer 10.0.1.2 6 >/dev/null &
    $in_s timeout 30 headway flows --json --duration 3s >/tmp/log 2>&1
    wait
    grep -q 5201 /tmp/log && echo 'the transfer is listed'
}

try_passive() {
    transfer 10.0.1.2 8 >/dev/null &
    $in_r timeout 40 headway passive --interface r0 --duration 4s --json >/tmp/log 2>&1
    wait
    grep -q '"connections":[1-9]' /tmp/log && echo 'the transfer is listed'
}

try_proxy() {
    $in_r headway-router proxy 10.0.0.1:8080 10.0.1.2:5201 >/tmp/log 2>&1 &
    local proxy=$!
    until_true 15 $proxy $in_c curl -s -o /dev/null --max-time 1 telnet://10.0.0.1:8080 </dev/null
    rate=$(transfer 10.0.0.1 3 -p 8080)
    end $proxy
    [ "${rate:-0}" -gt 0 ] && echo "$rate kb/s"
}

# A controller at the server: loaded, chosen by a transfer, and gone again.
controller() {
    local name=$1
    $in_s headway-router cc "$name" "${@:2}" >/tmp/log 2>&1 &
    local controller=$!
    until_true 60 $controller grep -qw "${name//-/_}" /proc/sys/net/ipv4/tcp_available_congestion_control ||
        { end $controller && return 1; }
    rate=$(transfer 10.0.1.2 3 -C "${name//-/_}")
    end $controller
    grep -qw "${name//-/_}" /proc/sys/net/ipv4/tcp_available_congestion_control && echo 'it is still there' && return 1
    grep -q "snd_tcp_congestion ${name//-/_}" /tmp/iperf || { grep -a snd_tcp_congestion /tmp/iperf && return 1; }
    [ "${rate:-0}" -gt 0 ] && echo "$rate kb/s"
}

try_cc_ls_dctcp() { controller ls-dctcp; }
try_cc_ls_reno() { controller ls-reno; }
try_cc_hw_dctcp() { controller hw-dctcp; }
try_cc_hw_reno() { controller hw-reno; }

# Before Linux 6.7 the kernel gives sockets too little memory by itself.
try_cc_rapid() {
    sysctl -qw net.core.optmem_max=131072
    controller rapid --line 100Mb/s
}

# One that only answers at the client.
receiver() {
    $in_c headway-router cc "$@" >/tmp/answers 2>&1 &
    answers=$!
    until_true 60 $answers grep -q . /tmp/answers
    kill -0 $answers 2>/dev/null || { cat /tmp/answers && return 1; }
}

explicit() {
    receiver "$1" --receive --interface c0 --name answers || return 1
    controller "$1" --interface s0
    local result=$?
    end $answers
    return $result
}

try_cc_xcp() { explicit xcp; }
try_cc_rcp() { explicit rcp; }

# The sender says whether the receiver's option reached it.
try_cc_rapid_receiver() {
    receiver rapid-receiver || return 1
    try_cc_rapid
    local result=$?
    end $answers
    [ $result = 0 ] && grep -o '[1-9][0-9]* connections told by the receiver' /tmp/log
}

edge() { edge_of headway-router edge --lan r0 --wan r1 "$@"; }

# By the command that starts it.
edge_of() {
    $in_r "$@" >/tmp/log 2>&1 &
    edge=$!
    until_true 90 $edge grep -q held /tmp/log
}

# What an edge changes: programs in the kernel, filters, queues and rules.
changes() {
    grep -o 'bpf_prog_[0-9a-f]*_edge_[a-z]*' /proc/kallsyms | sort
    $in_r tc qdisc show dev r0
    $in_r tc filter show dev r0 ingress
    $in_r ip rule
}

same() { [ "$before" = "$(changes)" ]; }

# Over 40 ms, so that a window decides; the goodput of 10 Mb/s on the wire is 9.4 Mb/s. Where the host is busy, the
# emulated one delays packets: up to a third and twice of that still tell it from a link that nobody holds, which carries
# more than 100 Mb/s.
holds() {
    local before=$(changes) rates=
    edge_of "$@" || return 1
    ! same || { echo 'its programs are not seen' && return 1; }
    $in_c ping -c 20 -i 0.4 -q 10.0.1.2 >/tmp/ping &
    for address in 10.0.1.2 fd01::2; do
        rate=$(transfer $address 8 -C cubic)
        ((rate > 3000 && rate < 20000)) || { echo "$rate kb/s to $address, and some 9400 are wanted" && return 1; }
        rates="$rates $rate"
    done
    wait $!
    end $edge
    until_true 20 $$ same || { echo "left: $(changes)" && return 1; }
    sum=$($in_s cat /proc/net/snmp | awk '/^Tcp: [0-9]/ { print $(NF) }')
    [ "$sum" = 0 ] || { echo "$sum segments with a wrong checksum" && return 1; }
    echo "kb/s over IPv4 and IPv6:$rates; RTT $(awk -F/ '/^rtt/ { print $5 }' /tmp/ping) ms; nothing is left"
}

try_edge() { holds headway-router edge --lan r0 --wan r1 --rate 10Mb/s; }

# As OpenWrt's shell reads it.
try_OpenWrt_s_init_script() { holds busybox sh /openwrt/run.sh r0 r1 10Mb/s; }

# The process, or all of them.
try_edge_killed() {
    local before=$(changes)
    edge --rate 10Mb/s || return 1
    kill -9 $edge
    wait $edge 2>/dev/null
    until_true 20 $$ same || { echo "left: $(changes)" && return 1; }
    edge --rate 10Mb/s || return 1
    kill -9 $(pidof headway-router)
    wait $edge 2>/dev/null
    left=$(until_true 5 $$ same && echo nothing || echo programs)
    edge --rate 10Mb/s || return 1
    end $edge
    until_true 20 $$ same || { echo "left by the next one: $(changes)" && return 1; }
    echo "nothing is left, if all are killed $left until the next start"
}

try_edge___page() {
    edge --rate 10Mb/s --page 127.0.0.1:8080 || return 1
    until_true 20 $edge $in_r curl -sf -o /tmp/page --max-time 5 http://127.0.0.1:8080/
    local result=$?
    end $edge
    [ $result = 0 ] && echo "$(wc -c </tmp/page) bytes"
}

try_router() {
    printf '[forward]\nrate = "10 Mb/s"\nqueue = { kind = "rcp" }\n' >/tmp/link.toml
    ip netns exec b headway-router router b0 b1 /tmp/link.toml >/tmp/log 2>&1 &
    local router=$!
    until_true 30 $router $in_c ping -c 1 -W 1 10.0.2.2
    local result=$?
    end $router
    [ $result = 0 ] && echo 'it forwards'
}

try_lab() {
    headway-lab lab up /scenarios/access-100.toml >/tmp/log 2>&1 || return 1
    headway-lab lab exec client -- ping -c 2 -q 10.77.0.2 >/tmp/log 2>&1
    local result=$?
    headway-lab lab down access-100 >>/tmp/log 2>&1 || return 1
    [ $result = 0 ] && echo 'up, a ping, and down'
}

try_run() {
    timeout 100 headway-lab --json run --on sim /scenarios/access-100.toml --set 'duration="1 s"' >/tmp/log 2>&1 &&
        echo 'it ran'
}

# Flows of a controller in experiment 4A of LS-AIMD, two hundred times slower (3 Mb/s, 50 ms, and marks from 18750 bytes
# of queue on), and 32 of them, so that each has less than a segment. Prints the rate in kb/s and the mean queue in bytes.
flows() {
    transfer 10.0.1.2 16 -P 32 -C "$1" >/tmp/flows &
    local transfer=$! sum=0 times=0
    sleep 8
    while kill -0 $transfer 2>/dev/null && ((times < 30)); do
        sum=$((sum + $($in_r tc -s qdisc show dev r0 | sed -n 's/.*backlog \([0-9]*\)b.*/\1/p' | tail -1)))
        times=$((times + 1))
        sleep 0.3
    done
    wait $transfer || return 1
    echo "$(tail -1 /tmp/flows) $((sum / times))"
}

# The controller as a module, which unlike a program of BPF moves a departure that is set when the pace changes.
try_module_headway_ls() {
    modprobe sch_red
    modprobe tcp_dctcp
    insmod /headway_ls.ko || return 1
    $in_s tc qdisc replace dev s0 root netem delay 50ms limit 10000
    ip -n c route change default via 10.0.0.1 quickack 1
    $in_r tc qdisc replace dev r0 root handle 1: tbf rate 3mbit burst 3200 limit 150000
    $in_r tc qdisc add dev r0 parent 1:1 red limit 150000 min 18750 max 37500 avpkt 1000 burst 19 probability 1 bandwidth 3mbit ecn
    read -r rate queue <<<"$(flows ls_dctcp)"
    moved=$(cat /sys/module/headway_ls/parameters/moved)
    read -r other standing <<<"$(flows dctcp)"
    $in_r tc qdisc del dev r0 root
    $in_s tc qdisc replace dev s0 root netem delay 40ms limit 10000
    ip -n c route change default via 10.0.0.1
    until_true 20 $$ rmmod headway_ls || { echo 'it cannot be removed' && return 1; }
    grep -qw ls_dctcp /proc/sys/net/ipv4/tcp_available_congestion_control && echo 'it is still there' && return 1
    echo "$rate kb/s and $queue bytes of queue, DCTCP $other and $standing; departures moved earlier, later: $moved"
    # DCTCP has two segments of each flow in flight: 78 kB of queue. Rates say what the host has time for.
    ((rate > other / 2 && queue < standing * 4 / 5 && ${moved%,*} > 0 && ${moved#*,} > 0))
}

# Runs a command that cannot work: it is to say so in one sentence, which begins with the program's name.
refused() {
    timeout 30 "$@" >/tmp/log 2>&1
    local result=$?
    [ $result = 1 ] || { echo "exit code $result: $(tail -1 /tmp/log)" && return 1; }
    sed -n '/^headway[a-z-]*: /s///p' /tmp/log | tail -1 | grep .
}

try_cc_without_BTF() {
    refused $in_s sh -c 'mount -t tmpfs t /sys/kernel/btf; exec headway-router cc ls-reno'
}

# The kernel looks for modules by this program.
try_flows_without_tcp_diag() {
    modprobe -r tcp_diag
    echo /bin/false >/proc/sys/kernel/modprobe
    refused $in_s headway flows --duration 1s
    local result=$?
    echo /bin/modprobe >/proc/sys/kernel/modprobe
    return $result
}

# Programs of users without privileges, as Debian has it, which is none of ours.
try_edge_with_unprivileged_bpf_disabled() {
    sysctl -qw kernel.unprivileged_bpf_disabled=2
    try_edge___page
}

try_edge_without_privileges() { refused $in_r setpriv --reuid 65534 --clear-groups headway-router edge --lan r0 --wan r1 --rate 10Mb/s; }

# Last, because it cannot be taken back.
try_edge_under_lockdown() {
    mount -t securityfs s /sys/kernel/security
    echo confidentiality >/sys/kernel/security/lockdown || { echo 'this kernel has no lockdown' && return 1; }
    try_edge___page
}

try_cc_under_lockdown() { controller ls-reno; }

only=$(sed -n 's/.*only=\([^ ]*\).*/\1/p' /proc/cmdline)
make_network
try 'programs in the kernel'
try serve
commands=(doctor measure path flows passive proxy edge "OpenWrt's init script" 'edge killed' 'edge --page' 'cc ls-dctcp' 'cc ls-reno' 'cc hw-dctcp'
    'cc hw-reno' 'cc rapid' 'cc rapid-receiver' 'cc xcp' 'cc rcp' router lab run 'cc without BTF' 'flows without tcp_diag'
    'edge with unprivileged_bpf_disabled' 'edge without privileges' 'edge under lockdown' 'cc under lockdown')
[ ! -e /headway_ls.ko ] || commands=("module headway_ls" "${commands[@]}")
for command in "${commands[@]}"; do
    try "$command"
done
