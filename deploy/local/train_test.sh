#!/bin/bash
# Tests how many workers deploy/local/train starts. Scripts stand in for the build and for shoal.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/deploy/local" "$folder/tools" "$folder/bazel-bin/deploy"
cp "$(dirname "$0")/train" "$folder/deploy/local/train"

# program NAME: from standard input.
program() {
  { echo '#!/bin/bash'; cat; } >"$folder/$1"
  chmod +x "$folder/$1"
}
program tools/install_dependencies.sh <<<'exit 0'
program tools/build_shoal.sh <<<'exit 0'
program bazel-bin/deploy/shoal <<'EOF'
case $1 in
  --version) printf 'shoal 1.0\n%s\ncommit: 1 x b\n' "$GPUS" ;;
  *) printf '%s\n' "$@" ;;
esac
EOF

# started GPUS WORKERS [FLAG...]: with the line GPUS of `shoal --version` and these flags shoal gets --num_replicas=1
# from the script, and one line says so, if WORKERS is 1.
started() {
  local gpus=$1 workers=$2 flags said
  shift 2
  flags=$(env "GPUS=GPUs: $gpus" "$folder/deploy/local/train" "$@" 2>"$folder/said") || exit 1
  said=$(<"$folder/said")
  if [[ $workers == 1 ]]; then
    [[ $flags == *$'\n--num_replicas=1'* && $said == "train: shoal sees one GPU here, so it starts one worker (--num_replicas=1)" ]] &&
      return
  elif [[ $flags != *$'\n--num_replicas=1'* && -z $said ]]; then
    return
  fi
  printf 'GPUs: %s, flags "%s": shoal got\n%s\nand the script said "%s"\n' "$gpus" "$*" "$flags" "$said"
  exit 1
}

one='1 x NVIDIA H100 80GB HBM3 sm_90, CUDA 13.0, cuBLASLt 130002, cuDNN 91300, NCCL 22707'
started "$one" 1
started '1 GPU, CUDA 13.0, cuBLASLt 130002' 1
started "$one" 1 --out=runs/mine --num_ps_tasks=1
started "$one" 1 --worker_binary=bazel-bin/two_scale
started "$one" 1 -- --num_replicas=2
started '2 x NVIDIA H100 sm_90, CUDA 13.0' 2
started '1 x NVIDIA H100 sm_90, 1 x NVIDIA L4 sm_89, CUDA 13.0' 2
started '2 GPUs, CUDA 13.0' 2
started 'none; this program was built without CUDA; build it with --config=cuda' 2
started 'none; this machine has no NVIDIA driver' 2
for given in --num_replicas=2 -num_replicas=2 --run=my.textproto --program=train.py --clone_on_cpu --devices=/gpu:0 \
  --set=deployment.num_replicas=2; do
  started "$one" 2 "$given"
done
started "$one" 2 --num_replicas 2
started "$one" 2 --set deployment.devices=/cpu:0
echo "passed"
