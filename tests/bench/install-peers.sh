#!/bin/bash
# install-peers.sh: the brokers that tests/bench/peers.mjs compares with, from Debian's packages,
# without starting their services. Root. For measuring only: nothing of the product needs them.
set -euo pipefail

# shellcheck source=deploy/apt-install.sh
. "$(dirname "$0")/../../deploy/apt-install.sh"

[ "$(id -u)" -eq 0 ] || {
    echo "install-peers.sh: run it as root" >&2
    exit 1
}
apt_install_stopped redis-server nats-server rabbitmq-server
