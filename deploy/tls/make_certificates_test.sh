#!/bin/bash
# What deploy/tls/make_certificates leaves on the disk.
set -euo pipefail

readonly MAKE=$1
scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/certificates.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# expect WANT PATH: the octal mode.
expect() {
  local mode
  mode=$(stat -c %a "$2")
  [[ "$mode" == "$1" ]] || {
    echo "$2 has mode $mode, wanted is $1" >&2
    exit 1
  }
}

"$MAKE" "$scratch/new" >/dev/null
expect 755 "$scratch/new"
expect 600 "$scratch/new/ca.key"
expect 600 "$scratch/new/ps.key"
expect 644 "$scratch/new/ps.crt"

# A directory that others use too keeps the mode that it has.
for mode in 1777 700; do
  mkdir "$scratch/there$mode"
  chmod "$mode" "$scratch/there$mode"
  "$MAKE" "$scratch/there$mode" >/dev/null
  expect "$mode" "$scratch/there$mode"
done

# Nothing is overwritten.
before=$(sha256sum "$scratch"/new/*)
if "$MAKE" "$scratch/new" >/dev/null 2>&1; then
  echo "wrote over certificates" >&2
  exit 1
fi
[[ "$(sha256sum "$scratch"/new/*)" == "$before" ]]
