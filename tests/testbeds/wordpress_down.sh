#!/usr/bin/env bash
# Stops what wordpress_up.sh recorded in DIR/pids, newest first, and nothing else.
# Usage: wordpress_down.sh DIR
set -uo pipefail
DIR=$1
[ -f "$DIR/pids" ] || exit 0

ours() { # NAME PID: still the process that was recorded, not a later one with the same number
  tr '\0' ' ' 2>/dev/null <"/proc/$2/cmdline" | grep -q -- "$1"
}

tac "$DIR/pids" | while read -r name pid; do
  if ours "$name" "$pid"; then kill -TERM "$pid" 2>/dev/null; fi
done
tac "$DIR/pids" | while read -r name pid; do
  for _ in $(seq 100); do
    if ! ours "$name" "$pid"; then continue 2; fi
    sleep 0.1
  done
  kill -KILL -- "-$pid" 2>/dev/null # each leads a session of its own: its workers go with it
done
rm -f "$DIR/pids"
