#ifndef SHOAL_TOOLS_MAKE_IMAGE_FOLDER_IMAGE_FOLDER_WRITER_H_
#define SHOAL_TOOLS_MAKE_IMAGE_FOLDER_IMAGE_FOLDER_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

class FileSystem;

struct ImageFolderWriterOptions {
  std::string images_path;   // IDX: [examples, height, width] unsigned bytes
  std::string labels_path;   // IDX: [examples]
  std::string directory;     // gets <label>/<number>.png, labels of two digits
  bool is_jpeg = false;      // .jpg of quality 95 instead of .png
  int64_t max_examples = 0;  // 0: all; else only the first so many
};

// Returns how many images were written. Not durable: what is cut short is written again.
absl::StatusOr<int64_t> WriteImageFolder(FileSystem& files,
                                         const ImageFolderWriterOptions& options);

}  // namespace shoal

#endif  // SHOAL_TOOLS_MAKE_IMAGE_FOLDER_IMAGE_FOLDER_WRITER_H_
