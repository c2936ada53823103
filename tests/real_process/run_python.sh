#!/bin/bash
# Runs a test in Python: the first argument is the file, the rest are its arguments.
set -eu
exec python3 "$@"
