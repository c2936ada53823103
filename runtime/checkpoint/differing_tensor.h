#ifndef SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_
#define SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_

#include <string>

namespace shoal {

class FileSystem;

// Returns the name of the first tensor, in the order of names, that is not the same in two
// safetensors files; empty if none differs, or if a file cannot be read.
std::string FindDifferingTensor(FileSystem& file_system, const std::string& path,
                                const std::string& other_path);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_DIFFERING_TENSOR_H_
