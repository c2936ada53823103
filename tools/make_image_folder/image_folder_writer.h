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
  std::string directory;     // receives the files <label>/<number>.png; labels have two digits
  bool is_jpeg = false;      // writes .jpg of quality 95 instead of .png
  int64_t max_examples = 0;  // the number of images to write, from the first; 0: all
};

// Writes the images and returns their number. The files are not synced; after a crash, run it
// again.
absl::StatusOr<int64_t> WriteImageFolder(FileSystem& files,
                                         const ImageFolderWriterOptions& options);

}  // namespace shoal

#endif  // SHOAL_TOOLS_MAKE_IMAGE_FOLDER_IMAGE_FOLDER_WRITER_H_
