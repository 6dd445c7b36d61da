#!/bin/sh
# Writes web/package-lock.json again: lock-web.sh VENV [ARGUMENTS OF NPM INSTALL…]. The addresses of the registry are left
# out: npm then asks the registry of its own settings. (npm's `omit-lockfile-registry-resolved` would also leave out the
# packages of other platforms.)
set -eu
venv=$1
shift
sh scripts/node.sh "$venv" npm install --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved=false "$@"
sed -i '/^ *"resolved": "https\?:/d' web/package-lock.json
touch web/node_modules/.ready
