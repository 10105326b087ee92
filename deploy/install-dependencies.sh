#!/bin/bash
# install-dependencies.sh: what building, running and testing needs, on Debian 12 (or a derivative).
#
# Nothing missing: says nothing, changes nothing. Root: installs what is missing by apt, without
# starting the services of the packages, and makes the system user queen. Not root: says what is
# missing and how to install it, exit 1.
set -euo pipefail

packages=(
    gcc make libc6-dev pkg-config libfcgi-dev libpq-dev libzstd-dev libxxhash-dev # build
    spawn-fcgi multiwatch postgresql nginx-light curl util-linux procps           # run
    libcmocka-dev libtap-parser-sourcehandler-pgtap-perl nodejs                   # test
)

# Something that does the package's job, wherever it came from.
present() {
    case $1 in
    nginx-light) PATH=$PATH:/usr/sbin command -v nginx ;;
    nodejs) command -v node && [ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] ;;
    postgresql) newest_postgres ;;
    curl | make | multiwatch | spawn-fcgi) command -v "$1" ;;
    *) dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed ;;
    esac >/dev/null 2>&1
}

# The newest installed server of version 14 or later.
newest_postgres() {
    local version
    for version in $(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null | sort -rn); do
        if [[ $version =~ ^[0-9]+$ && $version -ge 14 && -x /usr/lib/postgresql/$version/bin/postgres ]]; then
            echo "$version"
            return 0
        fi
    done
    return 1
}

missing=()
find_missing() {
    local package
    missing=()
    for package in "${packages[@]}"; do
        present "$package" || missing+=("$package")
    done
    # pgTAP comes for each server version; the default of the distribution is taken when there is none.
    if [ "$(newest_postgres || true)" != '' ]; then
        package=postgresql-$(newest_postgres)-pgtap
    else
        package=postgresql-15-pgtap
    fi
    present "$package" || missing+=("$package")
}

find_missing
if [ "$(id -u)" -ne 0 ]; then
    if [ ${#missing[@]} -gt 0 ]; then
        echo "Missing packages: ${missing[*]}" >&2
        echo "Install them with: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    exit 0
fi

if [ ${#missing[@]} -gt 0 ]; then
    # shellcheck source=deploy/apt-install.sh
    . "$(dirname "$0")/apt-install.sh"
    apt_install_stopped "${missing[@]}"
    find_missing
    if [ ${#missing[@]} -gt 0 ]; then
        echo "still missing after the installation: ${missing[*]}" >&2
        exit 1
    fi
fi

if ! id queen >/dev/null 2>&1; then
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin queen
fi
