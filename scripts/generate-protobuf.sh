#!/bin/sh
# Writes the Python code of spec/hubbub.proto again. Run it after a change of the .proto.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -m grpc_tools.protoc -I spec \
    --python_out=src/hubbub/protocols --pyi_out=src/hubbub/protocols spec/hubbub.proto
