#!/bin/bash
# Checks the CUDA backend on a machine with a GPU, which need not be the one that builds.
#   tools/gpu_check.sh pack [--borrow_nvidia] DIR
#         builds with --config=cuda and fills DIR: programs, the libraries that they need (not the
#         driver's), and this script as DIR/gpu_check. With --borrow_nvidia it leaves out cuBLAS,
#         cuDNN, NCCL and NVRTC (1.6 GB): the other machine then has them in /usr/local/cuda or in
#         Python's nvidia packages, which PyTorch brings.
#   DIR/gpu_check [PHASE...]    runs these phases, or all, in this order:
#         kernels     conformance, executor and graphs, gradients of the zoo against PyTorch's
#         training    on one and on all GPUs; the final loss must be that of as many clones on CPUs
#         programs    a program in PyTorch on the GPU: the same bytes for any number of ps and
#                     workers and with a killed program; where python3 has PyTorch with CUDA
#         times       times of steps
#         sanitizers  our kernels under compute-sanitizer, where that is installed
# DIR may be carried to a machine with other system libraries. Exit codes of the check: 0 all passed,
# 1 something failed, 3 no GPU.
set -uo pipefail

readonly TARGETS=(
  //deploy:shoal
  //ml/graph:device_memory_test
  //ml/kernels:conformance_test
  //ml/nn:golden_gradients_test
  //tests/benchmark:step_benchmark
  //tools/list_gpus
)
readonly TOOLKIT=/usr/local/cuda
# The libraries that pack --borrow_nvidia leaves out, as regular expression.
readonly BORROWED='^lib(cublas|cublasLt|cudnn[a-z_]*|nccl|nvrtc[a-z-]*)\.so'
# No step takes longer than this, in seconds.
readonly STEP_LIMIT=300
# The largest relative difference between the final losses on GPUs and on CPUs. Another order of additions
# makes a difference of 4e-7 after these 50 steps; leaving out the last step makes one of 2e-2.
# With bfloat16 another order makes up to 5e-5, where it decides which way a factor is rounded; factors that
# are not rounded at all make 1e-3.
readonly LOSS_TOLERANCE=1e-4
readonly LOSS_TOLERANCE_BFLOAT16=3e-4

# Checks that all libraries are in the folder: those that its programs find by themselves, but for the C
# library's, and with the folder's loader those of all files. Only the driver's library is the other machine's.
check_libraries() {
  local to missing borrowed=$2
  to=$(cd "$1" && pwd -P) || return 1  # the path that loaders print, which resolve links
  missing=$({
    find "$to/bin" -type f | while read -r file; do
      env -u LD_LIBRARY_PATH ldd "$file" |
        awk -v file="${file##*/}" '$1 !~ /^lib(c|m|dl|rt|pthread|resolv|util)\.so/ { print file, $0 }'
    done
    find "$to/bin" "$to/lib" "$to/glibc" -type f | while read -r file; do
      env -u LD_LIBRARY_PATH "$to/glibc/ld-linux-x86-64.so.2" \
        --library-path "$to/glibc:$to/lib" --list "$file" 2>&1 |
        awk -v file="${file##*/}" '{ print file, $0 }'
    done
  } | awk -v to="$to/" -v borrowed="$borrowed" '$3 == "=>" && $2 !~ /^libcuda\.so/ &&
      (borrowed == "" || $2 !~ borrowed) {
    path = substr($0, index($0, " => ") + 4)
    if (index(path, to) != 1) print $1 " needs " $2 }' | sort -u)
  [[ -z "$missing" ]] || { echo "not in $to: $missing" >&2; return 1; }
}

# Programs look for their libraries beside them. DT_RPATH, not RUNPATH: libraries find each other.
pack() {
  local borrowed="" to target path program library name
  if [[ "${1:-}" == --borrow_nvidia ]]; then borrowed=$BORROWED && shift; fi
  to=${1:?usage: tools/gpu_check.sh pack [--borrow_nvidia] DIR}
  cd "$(dirname "$0")/.." || exit 1
  # shellcheck disable=SC2016
  bazel build --config=cuda --linkopt=-Wl,--disable-new-dtags \
    '--linkopt=-Wl,-rpath,$ORIGIN/../lib' "${TARGETS[@]}" || exit 1
  mkdir -p "$to/bin" "$to/lib" "$to/glibc" || exit 1
  for target in "${TARGETS[@]}"; do
    path=${target#//}
    case "$path" in
      *:*) path=${path/://} ;;
      *) path=$path/${path##*/} ;;
    esac
    program=$to/bin/${path##*/}
    cp -f --dereference "bazel-bin/$path" "$program" || exit 1
    ldd "bazel-bin/$path" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
  done | sort -u | while read -r library; do
    name=${library##*/}
    [[ -n "$borrowed" && "$name" =~ $borrowed ]] && continue
    case "$name" in
      libcuda.so*) ;;
      libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | libresolv.so* | libutil.so*)
        cp -fL "$library" "$to/glibc/" ;;
      *) cp -fL "$library" "$to/lib/" ;;
    esac || exit 1
  done || exit 1
  cp -fL /lib64/ld-linux-x86-64.so.2 "$to/glibc/"
  # The toolkit's folder comes first in the programs' search path, where another machine may have
  # other versions: a string of the same length takes its place.
  # shellcheck disable=SC2016
  sed -i 's#/usr/local/cuda/lib64#$ORIGIN/../lib///////#g' "$to"/bin/* || exit 1
  # cuDNN opens its parts by itself.
  for library in "$TOOLKIT"/lib64/libcudnn_*.so.9 "$TOOLKIT"/lib64/libnvrtc*.so.*; do
    [[ -z "$borrowed" && -e "$library" ]] && cp -fL "$library" "$to/lib/"
  done
  check_libraries "$to" "$borrowed" || exit 1
  cp deploy/runs/seed_mlp.textproto "$to/run.textproto" || exit 1
  mkdir -p "$to/ml/nn" && cp -r ml/nn/golden "$to/ml/nn/" || exit 1
  mkdir -p "$to/python" && cp -r python/shoal "$to/python/" || exit 1
  cp tools/gpu_check_program.py "$to/" && cp tools/gpu_check.sh "$to/gpu_check" || exit 1
  echo "packed: $(du -sh "$to" | cut -f1) in $to; carry it to a GPU and start $to/gpu_check"
}

failed=0
loader=()

# A program of the folder, started by the folder's own loader where the machine's C library is older
# than the one it was linked with.
start() {
  local program=$1
  shift
  timeout "$STEP_LIMIT" "${loader[@]}" "$here/bin/$program" "$@"
}

# One line per step: its name, and whether it passed.
check() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then echo "$name: passed"; else echo "$name: FAILED"; failed=1; fi
}

# Trains on these devices and prints the final loss.
train() {
  local devices=$1 clones=$2 variables=${3:-cpu} out code
  out=$(mktemp -d)
  start shoal train "--run=$here/run.textproto" "--out=$out/run" --devices="$devices" \
    --num_clones="$clones" --variables="$variables" "${@:4}" \
    --noallow_soft_placement --num_ps_tasks=0 --max_steps=50 </dev/null >&2 &&
    cat "$out/run/summary.json" >&2 &&
    sed -n 's/.*"final_loss": \([^,}]*\).*/\1/p' "$out/run/summary.json"
  code=$?
  rm -rf "$out"
  return "$code"
}

declare -A cpu_losses  # indexed by number of clones and type

# Training on these devices, and whether it ends where as many clones on CPUs do with the same type.
train_as_on_cpus() {
  local clones=$2 dtype=float32 tolerance=$LOSS_TOLERANCE key loss expected
  if [[ " $* " == *" --compute_dtype=bfloat16 "* ]]; then
    dtype=bfloat16 tolerance=$LOSS_TOLERANCE_BFLOAT16
  fi
  key="$clones $dtype"
  if [[ -z "${cpu_losses[$key]:-}" ]]; then
    cpu_losses[$key]=$(train "$(seq -s, -f '/cpu:%g' 0 $((clones - 1)))" "$clones" cpu \
      --compute_dtype="$dtype") || return 1
  fi
  expected=${cpu_losses[$key]}
  loss=$(train "$@") || return 1
  echo "final loss $loss, on CPUs $expected"
  awk -v a="$loss" -v b="$expected" -v t="$tolerance" 'BEGIN {
    number = "^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"
    exit !(a ~ number && b ~ number && (a - b) ^ 2 <= (t * b) ^ 2)
  }'
}

# The files of the test are named from the folder.
golden_gradients() { (cd "$here" && start golden_gradients_test); }

time_steps() {
  local model=$1 batch=$2 times
  times=$(start step_benchmark "$model" "$batch" 4 /gpu:0 cpu "${@:3}" <<<100) || return 1
  echo "$model, batch $batch ${*:3}: median ms of a step, CPU ms, GF/s of a core:" \
    "$(tail -n 1 <<<"$times")"
}

# Adds the folders with NVIDIA's libraries of this machine to the search path, if the pack has none.
find_nvidia_libraries() {
  local packages folders
  [[ -e "$here/lib/libcublasLt.so.13" ]] && return
  packages=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
  # shellcheck disable=SC2086
  folders=$(find $packages "$TOOLKIT/lib64/" -name 'lib*.so*' -printf '%h\n' 2>/dev/null |
    sort -u | paste -sd:)
  export LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

check_kernels() {
  check conformance env SHOAL_CONFORMANCE_BACKENDS=gpu timeout "$STEP_LIMIT" \
    "${loader[@]}" "$here/bin/conformance_test"
  check executor start device_memory_test
  check "golden gradients" golden_gradients
}

# check_training DEVICES COUNT
check_training() {
  local devices=$1 count=$2 variables
  check "one GPU" train_as_on_cpus /gpu:0 1
  check "one GPU, replayed" train_as_on_cpus /gpu:0 1 cpu --cuda_graphs
  check "one GPU, bfloat16" train_as_on_cpus /gpu:0 1 cpu --compute_dtype=bfloat16
  check "one GPU, bfloat16, replayed" \
    train_as_on_cpus /gpu:0 1 cpu --compute_dtype=bfloat16 --cuda_graphs
  check "a clone on the CPU and one on a GPU" train_as_on_cpus /cpu:0,/gpu:0 2
  [[ "$devices" == *,* ]] || return
  for variables in cpu first_device mirrored; do
    check "all GPUs, variables $variables" train_as_on_cpus "$devices" "$count" "$variables"
  done
  check "all GPUs, mirrored, replayed" train_as_on_cpus "$devices" "$count" mirrored --cuda_graphs
}

# Trains the program with ps and workers, kills one of its processes after the first steps if there is a third argument,
# and prints the digest of the trained model.
train_program() {
  local ps=$1 workers=$2 victim=${3:-} out run process checkpoint code
  out=$(mktemp -d)
  # CUBLAS_WORKSPACE_CONFIG is what PyTorch asks for when algorithms are to be deterministic.
  CUBLAS_WORKSPACE_CONFIG=:4096:8 SHOAL=$here/bin/shoal PYTHONPATH=$here/python start shoal train \
    "--program=$here/gpu_check_program.py" "--python=$(command -v python3)" "--out=$out/run" \
    --num_ps_tasks="$ps" --num_replicas="$workers" --replicas_to_aggregate=2 -- "$out" \
    </dev/null >"$out/console" 2>&1 &
  run=$!
  while [[ -n "$victim" ]] && kill -0 "$run" 2>/dev/null; do
    sleep 0.1
    [[ $(wc -l 2>/dev/null <"$out/run/metrics.jsonl") -gt 5 ]] || continue
    process=$(pgrep -f "python3.*gpu_check_program.py $out" | head -n 1)
    [[ -z "$process" ]] || kill -9 "$process"
    victim=""
  done
  wait "$run"
  code=$?
  cat "$out/console" >&2
  if [[ -n "${3:-}" ]] && ! grep -q 'killed by SIGKILL' "$out/console"; then
    echo "no program was killed" >&2
    code=1
  fi
  checkpoint=$(find "$out/run/checkpoints" -name model.safetensors | sort | tail -n 1)
  ((code == 0)) && sha256sum <"$checkpoint"
  code=$?
  rm -rf "$out"
  return "$code"
}

# The digest must be that of the run with one worker and no ps.
check_program() {
  local digest
  digest=$(train_program "$@") || return 1
  [[ "$digest" == "${program_digest:=$digest}" ]] || { echo "other bytes: $digest"; return 1; }
}

check_programs() {
  local program_digest=""
  if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo "programs: not run, python3 has no PyTorch with CUDA"
    return
  fi
  check "program, 0 ps, 1 worker" check_program 0 1
  check "program, 1 ps, 1 worker" check_program 1 1
  check "program, 2 ps, 2 workers" check_program 2 2
  check "program, 2 ps, 2 workers, a program killed" check_program 2 2 kill
}

check_times() {
  local model batch
  for model in seed_mlp mobilenet_v2 resnet18; do
    batch=$([[ $model == seed_mlp ]] && echo 2000 || echo 32)
    check "times of $model" time_steps "$model" "$batch"
    check "times of $model, replayed" time_steps "$model" "$batch" cuda_graphs
    check "times of $model, bfloat16" time_steps "$model" "$batch" bfloat16
    check "times of $model, bfloat16, replayed" \
      time_steps "$model" "$batch" cuda_graphs bfloat16
  done
}

# The kernels of cuBLAS and cuDNN are left out: they are NVIDIA's, and would take most of the time.
check_sanitizers() {
  local tool
  for tool in memcheck racecheck; do
    if command -v compute-sanitizer >/dev/null; then
      check "$tool" env SHOAL_CONFORMANCE_BACKENDS=gpu timeout "$STEP_LIMIT" \
        compute-sanitizer --tool "$tool" --kernel-regex kns=shoal --error-exitcode 1 \
        "${loader[@]}" "$here/bin/conformance_test" \
        --gtest_filter='*AgreeWithTheReference:*UnusedOutputs*'
    else
      echo "$tool: not run, there is no compute-sanitizer"
    fi
  done
}

# run [PHASE...]
run() {
  local gpus devices said phase
  here=$(cd "$(dirname "$0")" && pwd)
  find_nvidia_libraries
  said=$("$here/bin/list_gpus" 2>&1 >/dev/null)
  if [[ "$said" == *GLIBC* ]]; then
    loader=("$here/glibc/ld-linux-x86-64.so.2" --library-path
      "$here/glibc:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
    echo "this machine's C library is older than the programs': using the folder's own"
  fi
  gpus=$(start list_gpus)
  case $? in
    0) echo "$gpus" ;;
    3) echo "gpu_check: this machine has no usable GPU; nothing was checked"; exit 3 ;;
    *) echo "gpu_check: the programs do not start here: $said"; exit 1 ;;
  esac
  devices=$(echo "$gpus" | cut -d' ' -f1 | paste -sd,)
  [[ $# -gt 0 ]] || set -- kernels training programs times sanitizers
  for phase in "$@"; do
    case "$phase" in
      kernels) check_kernels ;;
      training) check_training "$devices" "$(echo "$gpus" | wc -l)" ;;
      programs) check_programs ;;
      times) check_times ;;
      sanitizers) check_sanitizers ;;
      *) usage ;;
    esac
  done
  exit "$failed"
}

usage() {
  echo "usage: tools/gpu_check.sh pack [--borrow_nvidia] DIR, then" \
    "DIR/gpu_check [kernels] [training] [programs] [times] [sanitizers]" >&2
  exit 2
}

case "${1:-}" in
  pack) shift && pack "$@" ;;
  "" | kernels | training | programs | times | sanitizers)
    if [[ -d "$(dirname "$0")/bin" ]]; then run "$@"; else usage; fi ;;
  *) usage ;;
esac
