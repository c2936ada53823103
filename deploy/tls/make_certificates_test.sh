#!/bin/bash
# Tests which files deploy/tls/make_certificates leaves on the disk.
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

# refused CODE TEXT ARGUMENT...: one line with the text, that exit code, and nothing is made.
refused() {
  local want=$1 text=$2 code=0
  shift 2
  "$MAKE" "$@" >/dev/null 2>"$scratch/said" || code=$?
  if [[ "$code" != "$want" || "$(wc -l <"$scratch/said")" != 1 || -e "$scratch/bad" ]] || ! grep -qF -- "$text" "$scratch/said"; then
    echo "make_certificates $*: $code, wanted is $want and $text" >&2
    cat "$scratch/said" >&2
    exit 1
  fi
}

for days in 0 3651 -3651 99999999999999999999 1.5 "" -; do
  refused 64 "--days: is \"$days\", wanted is a whole number from 1 to 3650" "$scratch/bad" "--days=$days"
done
refused 64 '--scope: is "shoal"' "$scratch/bad" --scope=shoal
refused 64 "--authority: is empty" "$scratch/bad" --authority=
refused 64 "--authority: /nowhere/ca.crt" "$scratch/bad" --authority=/nowhere
refused 64 "DIR: is missing" --days=3
refused 78 "DIR: /proc/x cannot be made or written" /proc/x
refused 78 "DIR: $MAKE cannot be made or written" "$MAKE"

# A scope that is longer than what X.509 allows a name to be.
scope=spiffe://$(printf 'a%.0s' {1..200})
"$MAKE" "$scratch/long" "--scope=$scope" --days=3650 >/dev/null
openssl x509 -in "$scratch/long/ps.crt" -noout -ext subjectAltName | grep -qF "URI:$scope/ps"
openssl verify -CAfile "$scratch/long/ca.crt" "$scratch/long/ps.crt" >/dev/null

# A scope of several parts, the documented example; the authority is named after it.
blue="$scratch/blue \$HOME #1"
"$MAKE" "$blue" --scope=spiffe://shoal/blue >/dev/null
openssl x509 -in "$blue/ps.crt" -noout -ext subjectAltName | grep -qF "URI:spiffe://shoal/blue/ps"
openssl x509 -in "$blue/ca.crt" -noout -subject | grep -qF "authority of shoal/blue"
openssl verify -CAfile "$blue/ca.crt" "$blue/ps.crt" >/dev/null

# Certificates that hold and that have expired, of the same authority: each says when it ends, to the day.
now=$(date +%s)
for days in 1 3650 -1 -2 -3650; do
  "$MAKE" "$scratch/days$days" "--authority=$blue" --scope=spiffe://shoal/blue "--days=$days" >/dev/null
  worker=$scratch/days$days/worker.crt
  end=$(date -d "$(openssl x509 -in "$worker" -noout -enddate | cut -d = -f 2)" +%s)
  begin=$(date -d "$(openssl x509 -in "$worker" -noout -startdate | cut -d = -f 2)" +%s)
  late=$((end - now - days * 86400))
  if ((late < 0 || late > 3600 || begin >= end || begin > now + 3600)); then
    echo "--days=$days: holds from $begin to $end, now is $now" >&2
    exit 1
  fi
  if ((days < 0)); then
    if openssl verify -CAfile "$blue/ca.crt" "$worker" >"$scratch/said" 2>&1; then
      echo "--days=$days: still holds" >&2
      exit 1
    fi
    grep -qF "certificate has expired" "$scratch/said"
  fi
  openssl verify -no_check_time -CAfile "$blue/ca.crt" "$worker" >/dev/null
done

# A failure inside openssl is not a wrong flag.
mkdir "$scratch/broken"
cp "$blue/ca.crt" "$scratch/broken"
echo "no key" >"$scratch/broken/ca.key"
refused 1 "openssl ca: " "$scratch/bad" "--authority=$scratch/broken"
