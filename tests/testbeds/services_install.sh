#!/usr/bin/env bash
# Installs, once, what the test beds start: WordPress, PHP, MariaDB, nginx and (unless there is one) Node.js from Debian's
# own packages, and an emulator of GitHub's interface, pinned by its lock, into a cache folder.
# Nothing is left running: the test beds start private instances of their own on loopback.
# Idempotent. The packages need root; anybody else is told the one line to run.
set -euo pipefail

PACKAGES=(
  wordpress php8.2-cli php8.2-fpm php8.2-mysql php8.2-xml php8.2-mbstring php8.2-curl
  mariadb-server nginx-light curl
)

command -v node >/dev/null || PACKAGES+=(nodejs)
command -v npm >/dev/null || PACKAGES+=(npm)

missing() {
  local package
  for package in "${PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s\n' "$package"
  done
}

packages() {
  local need POLICY LOG
  mapfile -t need < <(missing)
  if ((${#need[@]} == 0)); then
    echo "services: all packages present"
    return
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
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi

  LOG=$(mktemp "${TMPDIR:-/tmp}/remit-services.XXXXXX.log")
  export DEBIAN_FRONTEND=noninteractive
  echo "services: installing ${need[*]} (log: $LOG)"
  { apt-get update -q && apt-get install -y -q --no-install-recommends "${need[@]}"; } >"$LOG" 2>&1 ||
    { tail -n 30 "$LOG" >&2; exit 1; }
  rm -f "$LOG"
  echo "services: packages installed"
}

# Where tests/testbeds/github/emulator.py looks: for everybody on this machine, or for this user.
emulator() {
  local here cache
  here=$(cd "$(dirname "$0")/github" && pwd)
  if [ "$(id -u)" = 0 ]; then cache=/var/cache/remit; else cache=${XDG_CACHE_HOME:-$HOME/.cache}/remit; fi
  cache=$cache/github-emulator
  if cmp -s "$here/package-lock.json" "$cache/installed.json"; then
    echo "services: GitHub emulator present"
    return
  fi
  rm -rf "$cache"
  mkdir -p "$cache"
  cp "$here/package.json" "$here/package-lock.json" "$cache"
  npm ci --prefix "$cache" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2
  cp "$here/package-lock.json" "$cache/installed.json"  # last, so that a folder that has it is whole
  echo "services: GitHub emulator installed in $cache"
}

command -v dpkg-query >/dev/null || { echo "services: only Debian and its relatives are supported" >&2; exit 1; }
packages
emulator
