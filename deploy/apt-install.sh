# apt-install.sh: installs Debian packages for their programs only; sourced, not run (bash, root).
# shellcheck shell=bash

# apt_install_stopped PACKAGE...: installs the packages without starting their services.
apt_install_stopped() {
    command -v apt-get >/dev/null || {
        echo "Missing: $*; there is no apt-get to install them with" >&2
        return 1
    }
    echo "installing: $*"
    # invoke-rc.d asks this program before it starts a service (101 = no). An existing one stays.
    local policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 0755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    # The package lists of a fresh machine are empty, those of an old one point to files that are gone.
    apt-get install -y -q --no-install-recommends "$@" >/dev/null 2>&1 || {
        apt-get update -q
        apt-get install -y -q --no-install-recommends "$@"
    }
    # Not to be started at the next boot either: a package's service has the package's name,
    # except nginx-light's.
    command -v systemctl >/dev/null || return 0
    local package
    for package in "$@"; do
        case $package in
        nginx-light) systemctl -q disable nginx || true ;;
        postgresql | *-server) systemctl -q disable "$package" || true ;;
        esac
    done
}
