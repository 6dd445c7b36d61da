#!/bin/sh
# Installs a Matrix homeserver for the long tests into an environment of its own: synapse.sh PYTHON.
# It is under the AGPL and needs other versions of packages than the hub; nothing of it is part of the hub.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3} venv=.synapse
if [ -x "$venv/bin/synapse_homeserver" ] && [ "$venv/.ready" -nt requirements/synapse.txt ]; then exit 0; fi
echo "setup: installing matrix-synapse"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/synapse.txt ||
    { echo "setup: going on without matrix-synapse" >&2; exit 1; }
touch "$venv/.ready"
