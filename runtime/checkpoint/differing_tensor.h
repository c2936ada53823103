#ifndef SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_
#define SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_

#include <cstdint>
#include <string>

namespace shoal {

class FileSystem;

// Returns the name of the first tensor, in the order of names, that is not the same in two
// safetensors files; empty if none differs among the first `most_bytes` of each, or if a file
// cannot be read.
std::string FindDifferingTensor(FileSystem& file_system, const std::string& path,
                                const std::string& other_path, uint64_t most_bytes);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_
