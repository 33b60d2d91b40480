#!/usr/bin/env bash
# Write docker/requirements/*.txt anew: every package of an image with its version and the hashes of its files, from
# pyproject.toml and constraints.txt. No file names a host, so that each network takes the packages from where it has them.
#
#     make lock
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-uv}
lock() { "$uv" pip compile --quiet --generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
  --python-version 3.11 "$@"; }

requirements=docker/requirements
lock --universal -o $requirements/tools.txt $requirements/tools.in
lock --universal -c constraints.txt --extra otel -o $requirements/gateway.txt pyproject.toml
lock --universal -c constraints.txt --extra otel --extra mcp -o $requirements/gateway-mcp.txt pyproject.toml
x86_64=(--python-platform x86_64-manylinux_2_28 -c constraints.txt --extra models --extra otel pyproject.toml)
# The CPU build comes from where PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL say.
cpu=(--constraint "$(mktemp)")
trap 'rm -f "${cpu[1]}"' EXIT
sed -n 's/^torch==.*/&+cpu/p' constraints.txt >"${cpu[1]}"
[[ -z ${PIP_FIND_LINKS:-} ]] || cpu+=(--find-links "$PIP_FIND_LINKS")
[[ -z ${PIP_EXTRA_INDEX_URL:-} ]] || cpu+=(--extra-index-url "$PIP_EXTRA_INDEX_URL" --index-strategy unsafe-best-match)
lock "${x86_64[@]}" "${cpu[@]}" -o $requirements/worker-cpu.txt
lock "${x86_64[@]}" -o $requirements/worker-cuda.txt
