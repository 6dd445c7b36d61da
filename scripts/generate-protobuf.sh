#!/bin/sh
# Writes the Python code of spec/hubbub.proto again. Run it after a change of the .proto.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m grpc_tools.protoc -I spec --plugin=protoc-gen-mypy=.venv/bin/protoc-gen-mypy \
    --python_out=src/hubbub/protocols --mypy_out=src/hubbub/protocols spec/hubbub.proto
