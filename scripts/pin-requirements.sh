#!/bin/sh
# Writes requirements/*.txt again: exact versions and the hashes of all published files of each, for every platform.
#   pin-requirements.sh [OPTIONS OF PIP-COMPILE…]
# Versions stay as they are unless an option says otherwise (--upgrade, --upgrade-package NAME). Mirrors in pip's own
# settings are left out, since a mirror may hold only some of the files; PIP_INDEX_URL names another complete index.
set -eu
cd "$(dirname "$0")/.."
export PIP_CONFIG_FILE=/dev/null PIP_EXTRA_INDEX_URL= PIP_FIND_LINKS=

pin() {
    source=$1 target=$2
    shift 2
    .venv/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
        --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
        --output-file "requirements/$target" "$@" "$source"
}

# In this order: later ones keep to the versions of earlier ones (-c in the .in files).
pin requirements/build.in build.txt "$@"
pin pyproject.toml run.txt --extra server "$@"
for name in dev docs bench pipeline web people tracing synapse; do
    pin "requirements/$name.in" "$name.txt" "$@"
done
# Of this one only the package itself: its files are read, nothing of it is run.
pin requirements/series.in series.txt "$@"
awk '/^[a-z]/ { wanted = /^pmdarima==/ } wanted' requirements/series.txt > requirements/series.new
mv requirements/series.new requirements/series.txt
