#!/bin/bash
# Tests when tools/build_shoal.sh builds for CUDA. Scripts stand in for bazel and nvidia-smi, folders for the toolkit's.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/tools" "$folder/bin" "$folder/cuda/bin" "$folder/cuda/include" "$folder/include/x86_64-linux-gnu"
sed "s#/usr/local/cuda#$folder/cuda#g; s#/usr/include#$folder/include#g" "$(dirname "$0")/build_shoal.sh" \
  >"$folder/tools/build_shoal.sh"
chmod +x "$folder/tools/build_shoal.sh"

# program NAME: from standard input.
program() {
  { echo '#!/bin/bash'; cat; } >"$folder/$1"
  chmod +x "$folder/$1"
}
# shellcheck disable=SC2016  # the variables are those of the program
program bin/bazel <<<'[[ $1 != build ]] || echo "$@" >"$FLAGS"'

# built CUDA TEXT: the build is for CUDA (1) or not (0), and the output has a line that is TEXT, or none with "GPU".
built() {
  local flags said
  said=$(env "PATH=$folder/bin:/usr/bin:/bin" "FLAGS=$folder/flags" "$folder/tools/build_shoal.sh" 2>&1) || exit 1
  flags=$(<"$folder/flags")
  if [[ $flags == *--config=cuda* && $1 == 0 || $flags != *--config=cuda* && $1 == 1 ]] ||
    [[ $(grep GPU <<<"$said") != "$2" ]]; then
    printf 'not "%s", or not CUDA=%s: bazel got "%s", and the output is\n%s\n' "$2" "$1" "$flags" "$said"
    exit 1
  fi
}
said() { echo "build: there is a GPU, but no $1; building for CPUs (README.md, With GPUs)"; }

program bin/nvidia-smi <<<'echo "No devices were found"; exit 6'
built 0 ''
program bin/nvidia-smi <<<'echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"'
built 0 '' # no toolkit
program cuda/bin/nvcc <<<'exit 0'
built 0 "$(said 'cudnn.h and no nccl.h')"
touch "$folder/cuda/include/nccl.h"
built 0 "$(said cudnn.h)"
touch "$folder/include/x86_64-linux-gnu/cudnn.h"
built 1 ''
rm "$folder/cuda/include/nccl.h"
built 0 "$(said nccl.h)"
touch "$folder/include/nccl.h"
built 1 ''
echo "passed"
