#!/bin/bash
# The folder that becomes the image is complete, holds nothing else, and is the same each time.
# usage: build_test.sh BUILD SHOAL
# shellcheck disable=SC2317  # the functions are called through expect
set -euo pipefail

build=$1
shoal=$2
failures=0

expect() {
  local promise=$1
  shift
  if "$@" >"$TEST_TMPDIR/output" 2>&1; then
    echo "[ OK     ] $promise"
  else
    echo "[ FAILED ] $promise: $(tail -n 5 "$TEST_TMPDIR/output")"
    failures=$((failures + 1))
  fi
}

# Only the folder's own loader and libraries are used.
runs_with_its_own_libraries() {
  local image=$TEST_TMPDIR/image
  "$image/lib64/ld-linux-x86-64.so.2" --inhibit-cache \
    --library-path "$image/usr/lib/x86_64-linux-gnu" --list "$image/usr/bin/shoal" |
    grep -v -e vdso -e "=> $image/" -e "$image/lib64" && return 1
  "$image/lib64/ld-linux-x86-64.so.2" --inhibit-cache \
    --library-path "$image/usr/lib/x86_64-linux-gnu" "$image/usr/bin/shoal" --help | grep -q '^usage: shoal'
}

has_no_other_program() {
  local others
  others=$(find "$TEST_TMPDIR/image" -type f \( -path '*/bin/*' -o -path '*/sbin/*' \) ! -path '*/usr/bin/shoal')
  [[ -z "$others" ]] || { echo "$others"; return 1; }
}

names_the_packages_of_all_libraries() {
  local document=$TEST_TMPDIR/image/usr/share/doc package
  grep -q '^libgrpc++1.51 [0-9]' "$document/shoal/packages" &&
    while read -r package _; do [[ -s "$document/$package/copyright" ]] || return 1; done <"$document/shoal/packages"
}

# A program that needs a library named like cuDNN's gets the parts beside it too, but not those for sequences.
has_the_parts_of_cudnn() {
  local folder=$TEST_TMPDIR/cudnn image=$TEST_TMPDIR/with_cudnn name
  mkdir -p "$folder"
  for name in libcudnn.so.9 libcudnn_ops.so.9 libcudnn_adv.so.9 libnvrtc.so.13; do
    echo 'int Part() { return 0; }' | gcc -shared -fPIC "-Wl,-soname,$name" -x c - -o "$folder/$name"
  done
  echo 'int Part(); int main() { return Part(); }' |
    gcc -x c - -x none "$folder/libcudnn.so.9" -o "$folder/program" "-Wl,-rpath,$folder"
  "$build" --binary="$folder/program" --folder="$image" || return 1
  (cd "$image/usr/lib/x86_64-linux-gnu" && echo libcudnn* libnvrtc*) |
    grep -x 'libcudnn.so.9 libcudnn_ops.so.9 libnvrtc.so.13'
}

is_the_same_each_time() {
  "$build" --binary="$shoal" --folder="$TEST_TMPDIR/again"
  diff <(tar -C "$TEST_TMPDIR/image" --sort=name -c . | sha256sum) <(tar -C "$TEST_TMPDIR/again" --sort=name -c . | sha256sum)
}

refuses() {
  local code=$1 text=$2 got=0 output
  shift 2
  output=$("$build" "$@" 2>&1) || got=$?
  echo "$output ($got)"
  [[ $got == "$code" && "$output" == *"$text"* ]]
}

expect "makes a folder" "$build" --binary="$shoal" --folder="$TEST_TMPDIR/image"
expect "runs with its own libraries" runs_with_its_own_libraries
expect "has no other program, no shell" has_no_other_program
expect "names the packages and licences of all libraries" names_the_packages_of_all_libraries
expect "has the libraries that cuDNN opens by itself" has_the_parts_of_cudnn
expect "is the same each time" is_the_same_each_time
expect "refuses an unknown flag" refuses 64 "--with_date: is not a flag" --with_date
expect "refuses a name of no image before it builds anything" \
  refuses 64 "--name: \"Bad Name\" is not the name of an image" --name='Bad Name'
for name in team/Shoal shoal: /shoal shoal/ a..b 'a b/c' 'host:port/shoal'; do
  expect "refuses the name $name" refuses 64 "--name: \"$name\" is not the name" "--name=$name"
done
expect "refuses a tag of no image" refuses 64 "--tag: \"a/b\" is not a tag" --tag=a/b
# Allowed, these come as far as the program.
for name in shoal localhost/shoal registry.example:5000/team/shoal-x__y.z; do
  expect "takes the name $name" refuses 78 "--binary: /nowhere" \
    "--name=$name" --tag=v1.0_a-b --binary=/nowhere --folder=/tmp/x
done
expect "refuses a program that is not there" refuses 78 "--binary: /nowhere" --binary=/nowhere --folder=/tmp/x
exit "$failures"
