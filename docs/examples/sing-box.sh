#!/bin/sh
# A hook of headway select for sing-box: its selector takes the outbound with the name of the chosen path.
#
# sing-box has an outbound of type "selector" with the tag "select", or that in $1, and its API at 127.0.0.1:9090, or the address in $2
# (experimental.clash_api.external_controller). Names of paths have no quotation marks or backslashes.
set -eu
exec curl -fsS -X PUT -H 'Content-Type: application/json' --data "{\"name\":\"$HEADWAY_NEW\"}" \
    "http://${2:-127.0.0.1:9090}/proxies/${1:-select}"
