#!/usr/bin/env bash
# Installs, once, what the test beds start: WordPress, PHP, MariaDB and nginx from Debian's own packages.
# Nothing is left running: the test beds start private instances of their own on loopback.
# Idempotent. Needs root; anybody else is told the one line to run.
set -euo pipefail

PACKAGES=(
  wordpress php8.2-cli php8.2-fpm php8.2-mysql php8.2-xml php8.2-mbstring php8.2-curl
  mariadb-server nginx-light curl
)

missing() {
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s\n' "$package"
  done
}

command -v dpkg-query >/dev/null || { echo "services: only Debian and its relatives are supported" >&2; exit 1; }
mapfile -t need < <(missing)
if ((${#need[@]} == 0)); then
  echo "services: all present"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "services: run once as root:  sudo make services" >&2
  exit 1
fi

# An init system must not start what is installed here; dpkg asks this script first (exit 101 = do not start).
POLICY=/usr/sbin/policy-rc.d
if [ ! -e "$POLICY" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$POLICY"
  chmod 755 "$POLICY"
  trap 'rm -f "$POLICY"' EXIT
fi

LOG=$(mktemp "${TMPDIR:-/tmp}/remit-services.XXXXXX.log")
export DEBIAN_FRONTEND=noninteractive
echo "services: installing ${need[*]} (log: $LOG)"
{ apt-get update -q && apt-get install -y -q --no-install-recommends "${need[@]}"; } >"$LOG" 2>&1 || { tail -n 30 "$LOG" >&2; exit 1; }
rm -f "$LOG"
echo "services: installed"
