#!/bin/bash
# Tests what `gpu_check pack` puts in a folder and what it misses there, wherever the folder is. Small programs
# stand in for those that need CUDA.
set -uo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
repository=$folder/repository
mkdir -p "$repository/tools" "$repository/deploy/runs" "$repository/ml/nn/golden" "$folder/commands"
# The copy has no toolkit: its libraries are large, and nothing here needs them.
sed 's#^readonly TOOLKIT=.*#readonly TOOLKIT=/none#' "$(dirname "$0")/gpu_check.sh" \
  >"$repository/tools/gpu_check.sh"
chmod +x "$repository/tools/gpu_check.sh"
mkdir -p "$repository/python/shoal"
touch "$repository/deploy/runs/seed_mlp.textproto" "$repository/tools/gpu_check_program.py"

# Programs that need one library, which lies in no folder of the system's.
echo 'int One() { return 1; }' | gcc -shared -fPIC -Wl,-soname,libone.so -x c - -o "$folder/libone.so" || exit 1
# shellcheck disable=SC2016
echo 'int One(); int main() { return One() - 1; }' |
  gcc -x c - -x none "$folder/libone.so" -o "$folder/program" -Wl,--disable-new-dtags \
    '-Wl,-rpath,$ORIGIN/../lib' "-Wl,-rpath,$folder" || exit 1
for program in deploy/shoal ml/graph/device_memory_test ml/kernels/conformance_test \
  ml/nn/golden_gradients_test tests/benchmark/step_benchmark tools/list_gpus/list_gpus; do
  mkdir -p "$repository/bazel-bin/${program%/*}"
  cp "$folder/program" "$repository/bazel-bin/$program"
done
ln -s /bin/true "$folder/commands/bazel"

# packed CODE DIR
packed() {
  local code=$1 got
  PATH=$folder/commands:/usr/bin:/bin "$repository/tools/gpu_check.sh" pack "$2" >"$folder/said" 2>&1
  got=$?
  [[ $got == "$code" ]] || { echo "pack $2: exit code $got, not $code:"; cat "$folder/said"; exit 1; }
}

mkdir "$folder/real"
ln -s real "$folder/link"
for to in "$folder/plain" "$folder/with a space" "$folder/link/inside"; do
  packed 0 "$to"
  cmp "$folder/libone.so" "$to/lib/libone.so" || exit 1
  packed 0 "$to"  # and once more into the same
done

# The program starts where the library is in the folder only.
mv "$folder/libone.so" "$folder/moved"
"$folder/with a space/bin/list_gpus" || { echo "a packed program does not start"; exit 1; }
mv "$folder/moved" "$folder/libone.so"

# A library that the programs find elsewhere.
# shellcheck disable=SC2016
sed -i 's#\*) cp -fL "$library" "$to/lib/" ;;#*) ;;#' "$repository/tools/gpu_check.sh"
packed 1 "$folder/without a library"
grep -q 'shoal needs libone.so' "$folder/said" || { cat "$folder/said"; exit 1; }
echo "passed"
