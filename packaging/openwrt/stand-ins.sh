# What OpenWrt gives to init scripts, for those who run one elsewhere: a folder `root` with the file `headway` of UCI, and `up`, which is
# 1 while the link is. Sections become variables SECTION_KEY, lists with a word a line.
# shellcheck shell=ash
mkdir -p "$root/lib/functions"
: > "$root/lib/functions/network.sh"
export IPKG_INSTROOT="$root"
config_load() {
    local line section=
    while read -r line; do
        case $line in '' | '#'*) continue ;; esac
        eval "set -- $line"
        case $1 in
        config) section=$3 ;;
        option) eval "uci_${section}_$2=\$3" ;;
        list) eval "uci_${section}_$2=\"\${uci_${section}_$2-}\$3
\"" ;;
        esac
    done < "$root/$1"
}
config_get() { eval "$1=\${uci_$2_$3-\${4-}}"; }
config_get_bool() { config_get "$@"; }
config_list_foreach() {
    local values word
    config_get values "$1" "$2"
    [ -z "$values" ] || printf %s "$values" > "$root/words"
    [ -z "$values" ] || while read -r word; do "$3" "$word"; done < "$root/words"
}
network_get_device() {
    case $2 in
    lan) eval "$1=br-lan" ;;
    wan) [ "$up" = 1 ] && eval "$1=pppoe-wan" ;;
    *) return 1 ;;
    esac
}
uci() { [ "$3" = network.lan ] || [ "$3" = network.wan ]; }
logger() { echo "log: $3"; }
