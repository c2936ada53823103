// Helpers of all fuzz targets: libFuzzer's entry point, and files for targets that read their input
// from a file.
#ifndef SHOAL_TESTS_FUZZ_FUZZ_TARGET_H_
#define SHOAL_TESTS_FUZZ_FUZZ_TARGET_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace shoal {

// Ends the program, so that libFuzzer keeps the input.
inline void CheckFuzzed(bool holds) {
  if (!holds) std::abort();
}

// Removes the first byte of the input and returns it modulo `count`, to choose one of `count` ways
// to use the rest.
inline int TakeChoice(absl::string_view* input, int count) {
  if (input->empty()) return 0;
  const int choice = static_cast<unsigned char>(input->front()) % count;
  input->remove_prefix(1);
  return choice;
}

// Returns a directory in memory, one for each process, for the files of WriteFuzzed.
inline std::string FuzzedDirectory() {
  static const std::string* const directory = [] {
    std::string name = "/dev/shm/shoal_fuzz_XXXXXX";
    CheckFuzzed(mkdtemp(name.data()) != nullptr);
    return new std::string(name);
  }();
  return *directory;
}

inline std::string WriteFuzzed(absl::string_view name, absl::string_view bytes) {
  const std::string path = absl::StrCat(FuzzedDirectory(), "/", name);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace shoal

#endif  // SHOAL_TESTS_FUZZ_FUZZ_TARGET_H_
