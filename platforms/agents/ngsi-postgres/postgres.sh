# A PostgreSQL with fresh data at a port of loopback: bash postgres.sh PORT. It does not run as root, and its folder, which is
# removed at the end, must belong to who runs it.
set -eu
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
data=$(mktemp -d /tmp/plimsoll-context-XXXXXX)
as=()
if [ "$(id -u)" -eq 0 ]; then
    chown postgres "$data"
    as=(setpriv --reuid=postgres --regid=postgres --clear-groups)
fi
cd /
"${as[@]}" "$bin/initdb" -A trust -U context -D "$data" --no-sync >/dev/null
"${as[@]}" "$bin/postgres" -D "$data" -p "$1" -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off &
server=$!
trap 'kill -INT $server; wait $server; rm -rf "$data"; exit 0' TERM INT
wait $server
