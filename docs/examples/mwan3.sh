#!/bin/sh
# A hook of headway select for mwan3 of OpenWrt: the connections of a rule take the chosen path first.
#
# /etc/config/mwan3 has a policy NAME_first for each path, with a member of metric 1 for it and members of higher metrics for the others,
# which take over while mwan3 finds it offline. NAME is that of the path, up to nine letters, digits and underscores.
# The rule is default_rule, or that in $1.
set -eu
rule=mwan3.${1:-default_rule}
policy=${HEADWAY_NEW}_first
if ! uci -q get "mwan3.$policy" >/dev/null || ! uci -q get "$rule" >/dev/null; then
    echo "/etc/config/mwan3 lacks the policy $policy, or the rule $rule" >&2
    exit 1
fi
# Not committed: flash memory is not written, and after a restart of the router the file holds.
uci set "$rule.use_policy=$policy"
# It has no command for a single rule. Connections that there are keep their path by their mark.
exec mwan3 restart
