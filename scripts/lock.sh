#!/usr/bin/env bash
# Resolves requirements.in into requirements.lock: one file for Python 3.10 to 3.13, with environment markers where versions differ.
# `scripts/lock.sh --upgrade` takes the newest versions; without it, pins that still fit are kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

resolver=.setup/resolver
if [[ ! -x $resolver/bin/uv ]]; then
  .venv/bin/python -m venv "$resolver"
  "$resolver/bin/python" -m pip install --quiet uv
fi
# openpi-client asks for numpy<2, and works with 2.
"$resolver/bin/uv" pip compile --override <(echo numpy) --universal --python-version 3.10 --no-annotate --no-header --quiet \
  --no-emit-index-url --no-emit-find-links "$@" requirements.in --output-file requirements.lock
sed -i '1i # Made by `make lock` from requirements.in; do not edit.' requirements.lock
