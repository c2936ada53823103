#!/bin/bash
# Tests what gpu_check reports about runs whose final loss on GPUs is, or is not, that on CPUs. Scripts stand in
# for the programs that need a GPU.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
cp "$(dirname "$0")/gpu_check.sh" "$folder/gpu_check"

# program NAME: from standard input.
program() {
  { echo '#!/bin/bash'; cat; } >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}
for name in conformance_test device_memory_test golden_gradients_test; do program "$name" <<<'exit 0'; done
program step_benchmark <<<'echo 1 1 1'
program list_gpus <<<'echo "/gpu:0 one"; echo "/gpu:1 another"'
program shoal <<'EOF'
on_gpu=0 loss=100 loss_on_gpus=$LOSS_ON_GPUS
for flag in "$@"; do
  case "$flag" in
    --out=*) out=${flag#--out=} ;;
    --devices=*gpu*) on_gpu=1 ;;
    --compute_dtype=bfloat16) loss=200 loss_on_gpus=${BFLOAT16_LOSS_ON_GPUS:-200} ;;
  esac
done
((on_gpu)) && loss=$loss_on_gpus
mkdir -p "$out"
echo "{\"status\": \"finished\", \"final_loss\": $loss, \"test_loss\": 7}" >"$out/summary.json"
exit "${CODE:-0}"
EOF

# said LOSS CODE COUNT TEXT [NAME=VALUE...]: the exit code, and how many lines have the text.
said() {
  local loss=$1 code=$2 count=$3 text=$4 output got
  shift 4
  output=$(env PATH=/usr/bin:/bin "LOSS_ON_GPUS=$loss" "$@" "$folder/gpu_check" 2>/dev/null)
  got=$?
  if [[ $got != "$code" ]] || [[ $(grep -c "$text" <<<"$output") != "$count" ]]; then
    echo "loss $loss: exit code $got, not $code, or not $count times '$text' in"
    echo "$output"
    exit 1
  fi
}

# Three on one GPU, four on both.
said 100.005 0 7 'final loss 100.005, on CPUs 100$'
said 100.005 0 0 'FAILED'
for wrong in 100.02 99.98 -100 null nan '""'; do said "$wrong" 1 7 ': FAILED$'; done
# Two in bfloat16.
said 100 0 2 'final loss 200.05, on CPUs 200$' BFLOAT16_LOSS_ON_GPUS=200.05
for wrong in 200.07 199.93 100 null; do
  said 100 1 2 'bfloat16.*: FAILED$' BFLOAT16_LOSS_ON_GPUS="$wrong"
done
said 100 1 9 ': FAILED$' CODE=1
program list_gpus <<<'exit 3'
said 100 3 1 'this machine has no usable GPU; nothing was checked'
echo "passed"
