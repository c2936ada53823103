#!/bin/bash
# Installs the Debian packages that Shoal is built and tested with. Does nothing when all are there;
# otherwise wants root or sudo. Safe to run again. CUDA is not installed: a toolkit in
# /usr/local/cuda is used where there is one.
#   tools/install_dependencies.sh          what is listed here
#   tools/install_dependencies.sh LIST     what is listed in the text LIST: lines of "package reason"
set -euo pipefail

# A package, and why.
readonly PACKAGES='
bazel-bootstrap          builds and tests
g++                      the default compiler
clang                    sanitizers, layering and lock annotations
libclang-rt-14-dev       the run-time libraries of the sanitizers
clang-format             layout of the sources
clang-tidy               tools/check.sh tidy
shellcheck               checks the scripts
git                      lists the tracked files for the checks
python3                  tools that draw and compare
python3-yaml             renders manifests
python3-venv             holds what validates them
libabsl-dev              status, strings, time, containers
libre2-dev                regular expressions of run files
libgrpc++-dev            control and bulk calls between tasks
libssl-dev               reads certificates
openssl                  makes the certificates of the tests
libprotobuf-dev          messages, run files
protobuf-compiler        generates the messages
protobuf-compiler-grpc   generates the services
libdnnl-dev              CPU kernels
ocl-icd-opencl-dev       the loader that Debian'"'"'s oneDNN links to
libgomp1                 the threads of oneDNN
nlohmann-json3-dev       reads and writes JSON: metrics, summaries, safetensors, TF_CONFIG
libisal-dev              CRC-32C at memory speed
libgoogle-perftools-dev  tcmalloc, the allocator of every program
libgtest-dev             tests
libgmock-dev             matchers of the tests
libbenchmark-dev         measurements
libjpeg62-turbo-dev      decodes JPEG images
libpng-dev               decodes PNG images
prometheus-cpp-dev       the text format of /metrics
libcpp-httplib-dev       the HTTP server behind it
zlib1g-dev               compressed data sets
libzstd-dev              compressed data sets
libxxhash-dev            makes keys of texts
dataset-fashion-mnist    the default training data
'

# Those of the list "$1".
missing_packages() {
  local package status
  while read -r package _; do
    [[ -n "$package" ]] || continue
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [[ "$status" == installed ]] || echo "$package"
  done <<<"$1"
}

main() {
  local missing log as_root=()
  if ! command -v dpkg-query >/dev/null; then
    echo "install_dependencies: this needs Debian 12 (no dpkg here); the packages are:
${1-$PACKAGES}" >&2
    return 1
  fi
  mapfile -t missing < <(missing_packages "${1-$PACKAGES}")
  if ((${#missing[@]} == 0)); then
    echo "install_dependencies: nothing is missing"
    return 0
  fi
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "install_dependencies: run as root, or install sudo; missing: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  log=$(mktemp)
  echo "install_dependencies: installing ${#missing[@]} packages: ${missing[*]}"
  if ! {
    "${as_root[@]}" apt-get update --quiet=2 &&
      "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "install_dependencies: apt-get failed; its whole output is in $log" >&2
    return 1
  fi
  rm -f "$log"
  echo "install_dependencies: installed in $SECONDS s"
}

main "$@"
