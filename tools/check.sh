#!/bin/bash
# The lint step of tests/run: layout, scripts, lengths, forbidden words, include cycles, undefined functions, sizes of
# classes, comments, layers, public targets.
#   tools/check.sh                    all of these
#   tools/check.sh allocator linked   do the programs just built link tcmalloc? (or: absent)
#   tools/check.sh headers            does every header compile alone? (after a build)
#   tools/check.sh tidy [FILE...]     clang-tidy over what differs from main, or over the files; after a
#                                     build, which generates headers
# Prints one line per failed check and exits with their number.
# shellcheck disable=SC2317  # checks are called by their names
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

readonly MAX_LINES=600
# The length of a BUILD file follows from the number of targets in its folder.
readonly MAX_BUILD_LINES=700
# Sources that are not tests have at most this, except those that are still longer. The list only becomes shorter.
readonly MAX_PRODUCT_LINES=450
readonly LONG_SOURCES=" ml/kernels/cpu/simd/simd_kernels.cc ml/kernels/cuda/reduction_loops.inc worker/sync_step_logic.cc "
failures=0

fail() {
  echo "check: $*"
  failures=$((failures + 1))
}

# Tracked files of these patterns that are still there.
tracked() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [[ -f "$file" ]] && echo "$file"
  done
}

check_format() {
  tracked '*.h' '*.cc' '*.cu' | xargs -r -n 50 clang-format --dry-run --Werror ||
    fail "layout: run clang-format -i on the files above"
}

check_scripts() {
  local file scripts=()
  while read -r file; do
    head -n 1 "$file" | grep -q '^#!.*\(bash\|/sh\)' && scripts+=("$file")
  done < <(tracked)
  shellcheck "${scripts[@]}" || fail "shellcheck"
}

check_lengths() {
  local file lines most
  while read -r file; do
    lines=$(wc -l <"$file")
    most=$MAX_LINES
    [[ "${file##*/}" == BUILD ]] && most=$MAX_BUILD_LINES
    [[ "$file" =~ \.(h|cc|cu|inc)$ && ! "$file" =~ ^tests/|_test|_testing && "$LONG_SOURCES" != *[[:space:]]"$file"[[:space:]]* ]] &&
      most=$MAX_PRODUCT_LINES
    ((lines <= most)) || fail "$file has $lines lines; at most $most: split it"
  done < <(tracked '*.h' '*.cc' '*.cu' '*.inc' '*.py' '*.sh' '*.bzl' '*BUILD')
}

# Prints what matches PATTERN in tracked sources but not the exempt file, and fails with REASON.
check_absent() {
  local pattern=$1 reason=$2 exempt=${3:-}
  if tracked '*.h' '*.cc' '*.cu' '*.proto' '*.py' | grep -vx "${exempt:-none}" |
    xargs -r grep -nE "$pattern"; then
    fail "$reason"
  fi
}

check_words() {
  check_absent 'absl::Mutex|absl/synchronization/' "use base/mutex.h, which the thread sanitizer sees" 'base/mutex\.h'
  check_absent 'std::(mutex|condition_variable)\b' "use base/mutex.h" 'base/mutex\.h'
  check_absent '\b(TODO|FIXME|XXX)\b' "write an issue instead"
  check_absent '^using namespace' "name what is used"
  check_absent '\b(GTEST_SKIP|DISABLED_)' "a test that does not run promises nothing"
  # Not in a test's EXPECT_TRUE(...).
  check_absent '(if \(|return |= |&& |\|\| )!?[A-Za-z_]+(->|\.)GetInfo\(.*\)\.ok\(\)' \
    "use FindFile (base/find_file.h): a file that cannot be seen now may exist" 'base/file_system\.cc'
}

# Roles never depend on each other, nor what tasks show on what starts them: bazel query prints a path
# or nothing.
check_roles() {
  local from to path
  while read -r from to; do
    [[ -d "$from" && -d "$to" ]] || continue
    path=$(bazel query --noshow_progress "somepath(//$from/..., //$to/...)" </dev/null 2>/tmp/check_roles.$$) ||
      fail "bazel query //$from/...: $(tail -n 1 /tmp/check_roles.$$)"
    [[ -z "$path" ]] || fail "$from depends on $to:" "$path"
  done <<'END'
ps worker
ps chief
worker ps
worker chief
chief ps
chief worker
runtime/observability runtime/process
END
  rm -f "/tmp/check_roles.$$"
}

# Folders do not include each other in a cycle, headers declare only what is defined, no class has too many methods, and
# comments have a subject.
check_house() {
  tools/include_cycles.py || fail "folders include each other in a cycle: see above"
  tools/undefined_functions.py || fail "headers declare functions that no source defines: see above"
  tools/class_sizes.py || fail "classes have too many methods: see above"
  tools/check_prose.py >/tmp/check_prose.$$ || {
    cat "/tmp/check_prose.$$"
    fail "comments without a subject, or phrases to reword: see above"
  }
  rm -f "/tmp/check_prose.$$"
}

# Rules for C++ come from tools/bazel/cc.bzl, with its precompiled headers.
check_rules() {
  local file
  while read -r file; do
    [[ "$file" == third_party/* || "$file" == tests/examples/outside/* ]] && continue
    if grep -qE '^\[?cc_(binary|library|test)\(' "$file" && ! grep -q '^load("//tools/bazel:cc.bzl"' "$file"; then
      fail "$file: load cc_library, cc_binary and cc_test from //tools/bazel:cc.bzl"
    fi
  done < <(tracked '*BUILD')
}

# docs/library.md lists the targets that workspaces outside may depend on: exactly the public ones.
check_public() {
  local listed public
  # shellcheck disable=SC2016  # the backquote of Markdown
  listed=$(grep -oE '^\| `//[^`]+' docs/library.md | cut -d'`' -f2 | sort)
  public=$(bazel query --noshow_progress 'kind("cc_library rule", attr(visibility, "//visibility:public", //... - //third_party/...))' \
    2>/dev/null </dev/null | sed -E 's|/([^/:]*):\1$|/\1|' | sort)
  [[ "$listed" == "$public" ]] ||
    fail "docs/library.md and the public targets differ:" "$(diff <(echo "$listed") <(echo "$public"))"
}

# Checks whether the programs just built in bazel-bin link the fast allocator ("linked") or not ("absent").
check_allocator() {
  local expected=$1 label file found seen=0
  for label in $(bazel query --noshow_progress 'kind("cc_(binary|test) rule", //...)' 2>/dev/null); do
    file=bazel-bin/${label#//}
    file=${file/://}
    [[ -x "$file" && "$file" != *.so ]] || continue  # a library takes its program's
    seen=$((seen + 1))
    found=absent
    readelf -d "$file" | grep -q 'NEEDED.*libtcmalloc' && found=linked
    [[ "$found" == "$expected" ]] || fail "$file: tcmalloc is $found, should be $expected"
  done
  ((seen)) || fail "no program in bazel-bin: build first"
}

# Headers that a tracked source includes before anything else: the build has compiled them alone.
# shellcheck disable=SC2016  # awk's own $2
first_includes() {
  tracked '*.cc' | xargs -r awk '
    FNR == 1 { looking = 1 }
    looking && /^#(define|if)/ { looking = 0 }
    looking && /^#include/ { if ($2 ~ /^"/) print substr($2, 2, length($2) - 2); looking = 0 }'
}

# The other headers. Those of the CUDA backend wait for the cuda config; those under simd/ are parts
# of the files that are compiled once per instruction set.
check_headers() {
  tracked '*.h' | grep -v '/simd/' | grep -vxFf <(first_includes) | xargs grep -LE '^#include <(cu|nccl)' |
    xargs -r -P "$(nproc)" -n 1 clang++ -std=c++17 -fsyntax-only -Wno-unused -I. -Ibazel-bin -x c++ ||
    fail "the headers above do not compile alone"
}

# Runs clang-tidy with the flags that its BUILD file has for the source.
tidy_one() {
  local file=$1 flags=(-std=c++17 -I. -Ibazel-bin)
  case $file in
    ml/kernels/cpu/simd/*_kernels.cc) flags+=(-DSHOAL_SIMD_NAMESPACE=avx2 -mavx2 -mfma) ;;
    ml/optim/update_loops.cc) flags+=(-DSHOAL_UPDATE_LOOPS=BaselineUpdateLoops) ;;
    ml/kernels/cuda/* | tests/toolchain/*) flags+=(-isystem /usr/local/cuda/include) ;;
  esac
  clang-tidy --quiet "$file" -- "${flags[@]}" 2> >(grep -v '^[0-9]* warnings\{0,1\} generated' >&2)
}
export -f tidy_one

check_tidy() {
  local files=("$@")
  ((${#files[@]})) || mapfile -t files < <(git diff --name-only --diff-filter=d main -- '*.cc')
  ((${#files[@]})) || return 0
  # shellcheck disable=SC2016  # the inner shell has the file
  printf '%s\n' "${files[@]}" |
    xargs -P "$(nproc)" -I{} bash -c 'tidy_one "$1"' _ {} || fail "clang-tidy"
}

# Runs the checks side by side, each argument in a process of its own, and prints what they print in the order of the
# arguments. The two that ask Bazel share a process, since Bazel answers one at a time.
side_by_side() {
  local i checks=("$@") outputs pids=()
  outputs=$(mktemp -d)
  for i in "${!checks[@]}"; do
    (for check in ${checks[i]}; do "$check"; done; exit "$failures") >"$outputs/$i" 2>&1 &
    pids+=($!)
  done
  for i in "${!checks[@]}"; do
    wait "${pids[i]}" || failures=$((failures + $?))
    cat "$outputs/$i"
  done
  rm -rf "$outputs"
}

case "${1:-}" in
  "") side_by_side check_format check_scripts check_lengths check_words check_house check_rules "check_roles check_public" ;;
  allocator) check_allocator "${2:?linked or absent}" ;;
  headers) check_headers ;;
  tidy) check_tidy "${@:2}" ;;
  *) echo "usage: tools/check.sh [allocator linked|absent | headers | tidy [FILE...]]" >&2; exit 2 ;;
esac
exit "$failures"
