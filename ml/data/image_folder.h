#ifndef SHOAL_ML_DATA_IMAGE_FOLDER_H_
#define SHOAL_ML_DATA_IMAGE_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/data/dataset.h"
#include "ml/data/image_target.h"

namespace shoal {

struct ImageFolderOptions {
  std::string directory;  // contains one folder per class
  // The folder whose sub-folders' sorted names are the classes: that of the training split. Empty:
  // `directory`.
  std::string class_directory;
  ImageTargetOptions image;
  int64_t max_examples = 0;  // 0: all; else so many, evenly spread over the sorted files
};

// PNG and JPEG files in folders named after their classes. Reads only the names and sizes at first,
// and each image when it is needed. Fields: "input" float32 [channels, height, width] in [0, 1];
// "label" int32, the class. Names that begin with a dot and files that are not images are ignored;
// other kinds of images are errors. Errors name the file or the class and the remedy: NotFound (a
// folder or file is missing or has vanished), FailedPrecondition (a class without images), DataLoss
// (an unreadable image).
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFolder(const ImageFolderOptions& options);

// Returns whether the name ends as that of an image does, readable or not.
bool IsImageName(absl::string_view path);

// Examples without labels (all are 0): the PNG or JPEG file of this path, or all that lie in the
// folder of this path, sorted by name.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFiles(const std::string& path,
                                                        const ImageTargetOptions& image);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_FOLDER_H_
