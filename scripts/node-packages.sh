#!/bin/sh
# Installs what tests run in Node, where npm is there: push services, and the transport of the JavaScript client of 2012; and
# Deno, Bun, workerd and Node 20 with `ws`, in which the JavaScript SDK is tested as well.
set -eu
cd "$(dirname "$0")/../tests"
for folder in push_services socket_io_client runtimes; do
    if [ -d $folder/node_modules ] && [ $folder/node_modules -nt $folder/package-lock.json ]; then continue; fi
    if ! command -v npm > /dev/null; then
        echo "setup: npm is missing: going on without the tests that need $folder" >&2
        exit 0
    fi
    (cd $folder && npm ci --ignore-scripts --no-audit --no-fund --loglevel error > /dev/null) || {
        echo "setup: npm failed: going on without the tests that need $folder" >&2
        continue
    }
    touch $folder/node_modules
done
