#!/usr/bin/env bash
# Installs, once, into a cache folder, what other people connect with: older MCP clients for Python, each in an
# environment of its own, the Inspector, the conformance suite and the Node.js that it needs. All pinned by their locks.
# Idempotent. Needs Python's venv, npm, and a package index; nothing of it is part of the product.
set -euo pipefail

here=$(cd "$(dirname "$0")/clients" && pwd)
if [ "$(id -u)" = 0 ]; then cache=/var/cache/remit; else cache=${XDG_CACHE_HOME:-$HOME/.cache}/remit; fi
cache=$cache/clients

# Where tests/testbeds/clients.py looks. `installed` is written last, so that a folder that has it is whole.
python_client() { # VERSION
  local lock=$here/mcp-$1.lock into=$cache/mcp-$1
  if cmp -s "$lock" "$into/installed"; then return; fi
  rm -rf "$into"
  "${PYTHON:-python3}" -m venv "$into"
  "$into/bin/python" -m pip --disable-pip-version-check --no-input --quiet install \
    --require-hashes --only-binary=:all: -r "$lock"
  cp "$lock" "$into/installed"
}

node_clients() {
  local into=$cache/node
  if cmp -s "$here/package-lock.json" "$into/installed"; then return; fi
  rm -rf "$into"
  mkdir -p "$into"
  cp "$here/package.json" "$here/package-lock.json" "$into"
  # Not `npm ci`: it refuses a lock without an optional package for another system that no index has.
  npm install --prefix "$into" --no-save --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2
  cp "$here/package-lock.json" "$into/installed"
}

for lock in "$here"/mcp-*.lock; do
  version=${lock##*/mcp-}
  python_client "${version%.lock}"
done
node_clients
echo "services: MCP clients present in $cache"
