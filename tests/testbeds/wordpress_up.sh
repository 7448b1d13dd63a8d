#!/usr/bin/env bash
# A real WordPress (Debian's package) with a private MariaDB, behind nginx and php-fpm with real limits, on loopback:
#   H  seconds after which nginx drops a request that is not complete (client_header_timeout, client_body_timeout)
#   M  seconds after which php-fpm kills a request (request_terminate_timeout); nginx waits longer, so nothing runs on unseen
#   at most 8 requests wait for a worker; more are refused, never queued unseen
# so that the time after which an unanswered request can no longer land is known: H + M and a second of granularity.
#
# Usage: wordpress_up.sh DIR [H=3] [M=5]     DIR must be reachable by the users mysql and www-data (not mode 0700)
# Writes DIR/pids as it goes and DIR/env at the end. Stop: wordpress_down.sh DIR.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
DIR=$(cd "$1" && pwd)
H=${2:-3}
M=${3:-5}
PATH=$PATH:/usr/sbin:/sbin
SITE=$DIR/site
SOCK=$DIR/db/m.sock
FRONT=$DIR/front
: >"$DIR/pids"
chmod 755 "$DIR"

AS_MYSQL=()
DB_OWNER=$(id -un) # the database lets this account in by its socket
if [ "$(id -u)" = 0 ]; then
  AS_MYSQL=(--user=mysql)
  if ! runuser -u mysql -- test -x "$DIR"; then
    echo "$DIR: a parent folder is closed to the user mysql; choose another folder" >&2
    exit 1
  fi
fi

run() { # NAME COMMAND...: in a session of its own, recorded at once
  local name=$1
  shift
  setsid "$@" >"$DIR/$name.out" 2>&1 </dev/null &
  echo "$name $!" >>"$DIR/pids"
}

await() { # WHAT COMMAND...: at most 30 s
  local what=$1
  shift
  for _ in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "$what did not come up; see $DIR/*.out" >&2
  exit 1
}

start_database() { # socket only, no TCP
  mkdir -p "$DIR/db"
  if [ "$(id -u)" = 0 ]; then chown mysql:mysql "$DIR/db"; fi
  mariadb-install-db --no-defaults "${AS_MYSQL[@]}" --datadir="$DIR/db" --tmpdir="$DIR/db" --skip-test-db \
    --auth-root-authentication-method=socket --auth-root-socket-user="$DB_OWNER" >"$DIR/db-install.out" 2>&1
  run mariadbd mariadbd --no-defaults "${AS_MYSQL[@]}" --datadir="$DIR/db" --socket="$SOCK" --pid-file="$DIR/db/m.pid" \
    --tmpdir="$DIR/db" --skip-networking --innodb-buffer-pool-size=64M --character-set-server=utf8mb4
  await MariaDB mariadb-admin --no-defaults --user="$DB_OWNER" --socket="$SOCK" ping
  mariadb --no-defaults --user="$DB_OWNER" --socket="$SOCK" -e "CREATE DATABASE wp CHARACTER SET utf8mb4;
    CREATE USER wp@localhost IDENTIFIED BY 'wp'; GRANT ALL ON wp.* TO wp@localhost;"
}

copy_site() { # a private copy, Debian's symbolic links followed, with a configuration of its own
  mkdir -p "$SITE"
  cp -rL /usr/share/wordpress/. "$SITE/" 2>/dev/null || true # dangling links of optional packages
  test -f "$SITE/wp-load.php"
  rm -f "$SITE/.htaccess" "$SITE/wp-config.php"
  mkdir -p "$SITE/wp-content/uploads" "$SITE/wp-content/mu-plugins"
  cp "$HERE/mu-next-write.php" "$SITE/wp-content/mu-plugins/"
  python3 - "$SOCK" "$SITE/wp-config.php" <<'PY'
import secrets, sys
keys = [a + b for b in ("_KEY", "_SALT") for a in ("AUTH", "SECURE_AUTH", "LOGGED_IN", "NONCE")]
salts = "\n".join(f"define('{key}', '{secrets.token_hex(32)}');" for key in keys)
open(sys.argv[2], "w").write(f"""<?php
define('DB_NAME', 'wp'); define('DB_USER', 'wp'); define('DB_PASSWORD', 'wp');
define('DB_HOST', 'localhost:{sys.argv[1]}'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
{salts}
$table_prefix = 'wp_';
if (PHP_SAPI !== 'cli') {{ $u = 'http://' . ($_SERVER['HTTP_HOST'] ?? '127.0.0.1'); define('WP_HOME', $u); define('WP_SITEURL', $u); }}
define('WP_ENVIRONMENT_TYPE', 'local');  // application passwords over plain http need this
define('DISABLE_WP_CRON', true);         // no request that nobody sent
define('AUTOMATIC_UPDATER_DISABLED', true); define('WP_HTTP_BLOCK_EXTERNAL', true);
define('WP_DEBUG', false);
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
""")
PY
  if [ "$(id -u)" = 0 ]; then chown -R www-data "$SITE/wp-content/uploads" "$SITE/wp-content/mu-plugins"; fi
}

start_front() { # PORT
  mkdir -p "$FRONT"
  cat >"$FRONT/fpm.conf" <<C
[global]
pid = $FRONT/fpm.pid
error_log = $FRONT/fpm.log
daemonize = no
[site]
$(if [ "$(id -u)" = 0 ]; then printf 'user = www-data\ngroup = www-data\nlisten.owner = www-data\n'; fi)
listen = $FRONT/fpm.sock
listen.mode = 0666
listen.backlog = 8
pm = static
pm.max_children = 4
request_terminate_timeout = ${M}s
catch_workers_output = yes
php_admin_value[memory_limit] = 256M
php_admin_value[error_log] = $FRONT/php.log
php_admin_flag[display_errors] = off
php_admin_flag[log_errors] = on
C
  cat >"$FRONT/nginx.conf" <<C
pid $FRONT/nginx.pid;
error_log $FRONT/nginx.err;
daemon off;
worker_processes 1;
$(if [ "$(id -u)" = 0 ]; then echo 'user www-data;'; fi)
events { worker_connections 256; }
http {
  include /etc/nginx/mime.types;
  access_log $FRONT/access.log;
  client_body_temp_path $FRONT/body; proxy_temp_path $FRONT/proxy; fastcgi_temp_path $FRONT/fcgi;
  uwsgi_temp_path $FRONT/uwsgi; scgi_temp_path $FRONT/scgi;
  client_header_timeout ${H}s; client_body_timeout ${H}s; send_timeout 30s; keepalive_timeout 65s; client_max_body_size 64m;
  fastcgi_request_buffering on; fastcgi_read_timeout $((M + 10))s; fastcgi_next_upstream off; reset_timedout_connection on;
  server {
    listen 127.0.0.1:$1; root $SITE; index index.php;
    location / { try_files \$uri \$uri/ /index.php?\$args; }
    location ~ \.php\$ {
      include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME \$document_root\$fastcgi_script_name;
      fastcgi_param HTTP_AUTHORIZATION \$http_authorization;
      fastcgi_param HTTP_HOST \$http_host; fastcgi_pass unix:$FRONT/fpm.sock; fastcgi_ignore_client_abort on;
    }
  }
}
C
  local root_flag=()
  if [ "$(id -u)" = 0 ]; then root_flag=(-R); fi
  run php-fpm php-fpm8.2 -y "$FRONT/fpm.conf" "${root_flag[@]}" -F
  run nginx nginx -e "$FRONT/nginx.err" -c "$FRONT/nginx.conf" -p "$FRONT"
}

start_database &
DATABASE=$!
copy_site
wait "$DATABASE"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
URL=http://127.0.0.1:$PORT
php8.2 "$HERE/wordpress_install.php" "$SITE" "$URL" >"$DIR/passwords"
start_front "$PORT"
await "WordPress at $URL" curl -fs -o /dev/null "$URL/wp-json/"
{
  echo "URL=$URL"
  echo "H_S=$H"
  echo "M_S=$M"
  echo "DB_SOCKET=$SOCK"
  cat "$DIR/passwords"
} >"$DIR/env.tmp"
mv "$DIR/env.tmp" "$DIR/env"
cat "$DIR/env"
