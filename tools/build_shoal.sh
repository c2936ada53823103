#!/bin/bash
# Builds the shoal binary and shows how far the build is: "[ 120 / 398 ] Compiling ps/parameter_shard.cc".
# A terminal shows one line that is rewritten; a log file gets a line every 10 seconds. Bazel's own messages
# appear only when the build fails. The build uses CUDA where this machine has a GPU, a toolkit, cuDNN and NCCL.
#   tools/build_shoal.sh               builds bazel-bin/deploy/shoal
#   tools/build_shoal.sh --config=cuda further arguments are Bazel's
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=//deploy:shoal

# The compiler finds the headers of cuDNN and NCCL in the toolkit (@local_cuda) or where Debian packages put them.
readonly INCLUDES=(/usr/local/cuda/include /usr/include /usr/include/x86_64-linux-gnu)

has_gpu() { [[ -x /usr/local/cuda/bin/nvcc ]] && nvidia-smi -L >/dev/null 2>&1; }

# Prints the headers that the build for CUDA needs and that are in no folder of INCLUDES.
missing_headers() {
  local header folder
  for header in cudnn.h nccl.h; do
    for folder in "${INCLUDES[@]}"; do
      [[ -e "$folder/$header" ]] && continue 2
    done
    echo "$header"
  done
}

# Returns whether to build for CUDA. Says why not where there is a GPU.
uses_cuda() {
  local missing
  has_gpu || return 1
  missing=$(missing_headers)
  [[ -n "$missing" ]] || return 0
  echo "build: there is a GPU, but no ${missing//$'\n'/ and no }; building for CPUs (README.md, With GPUs)" >&2
  return 1
}

# Prints the number of compilations that a build from nothing takes; 0 if Bazel cannot say.
count_actions() {
  bazel aquery --noshow_progress "$@" "mnemonic('^(CppCompile|Genrule)\$', deps($TARGET))" 2>/dev/null |
    grep -c '^action' || true
}

# Copies what Bazel prints to the file LOG and shows its progress. Arguments: the number of actions, LOG, 1 for a terminal.
show_progress() {
  local total=$1 log=$2 terminal=$3 line finished next_line=0
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ "$line" =~ ^\[([0-9,]+)\ /\ [0-9,]+\]\ ([^\;]*) ]] || continue
    finished=${BASH_REMATCH[1]//,/}
    if ((finished > total)); then total=$finished; fi
    line=$(printf '[ %d / %d ] %s' "$finished" "$total" "${BASH_REMATCH[2]}")
    if ((terminal)); then
      printf '\r\033[K%s' "${line:0:78}"
    elif ((SECONDS >= next_line)); then
      printf '%s\n' "$line"
      next_line=$((SECONDS + 10))
    fi
  done
  if ((terminal)); then printf '\r\033[K'; fi
}

main() {
  local flags=("$@") total log terminal=0 code=0 started=$SECONDS
  if uses_cuda; then flags+=(--config=cuda); fi
  [[ -t 2 ]] && terminal=1
  log=$(mktemp)
  echo "build: analyzing $TARGET" >&2
  total=$(count_actions ${flags[@]+"${flags[@]}"})
  bazel build --curses=no --color=no --show_progress --show_progress_rate_limit=0.5 -c opt \
    ${flags[@]+"${flags[@]}"} "$TARGET" 2>&1 | show_progress "$total" "$log" "$terminal" >&2 || code=${PIPESTATUS[0]}
  if ((code != 0)); then
    grep -vE '^(\[[0-9,]+ / [0-9,]+\]|Loading:|Analyzing:)' "$log" >&2 || true
    echo "build: failed after $((SECONDS - started)) s" >&2
  else
    echo "build: done in $((SECONDS - started)) s" >&2
  fi
  rm -f "$log"
  return "$code"
}

main "$@"
