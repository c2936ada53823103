// The main program of a target in all configs except fuzz. It runs the target on each file of its
// corpus, and on variants that a fuzzer would try first: the file truncated, and with single bytes
// changed.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace {

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Returns variants of the file, which depend only on its contents.
void RunNeighbours(const std::string& input) {
  constexpr size_t kNeighbours = 40;
  for (size_t i = 0; i < kNeighbours && !input.empty(); ++i) {
    Run(input.substr(0, input.size() * i / kNeighbours));
    std::string changed = input;
    char& byte = changed[(i * 7919) % input.size()];
    byte = static_cast<char>(byte ^ (i % 2 == 0 ? 0xff : 1 << i % 8));
    Run(changed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", argv[i]);
      return 1;
    }
    const std::string input{std::istreambuf_iterator<char>(file), {}};
    Run(input);
    RunNeighbours(input);
  }
  std::printf("%d inputs and their neighbours\n", argc - 1);
  return argc > 1 ? 0 : 1;
}
