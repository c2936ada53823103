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
  // The folder of the training split. The sorted names of its sub-folders are the classes. Empty:
  // `directory`.
  std::string class_directory;
  ImageTargetOptions image;
  int64_t max_examples = 0;  // the number of examples, evenly spread over the sorted files; 0: all
};

// Opens a data set of PNG and JPEG files that lie in one folder per class. Opening reads only names
// and sizes; each image is read when it is needed. Fields: "input" float32 [channels, height,
// width] in [0, 1]; "label" int32, the class. Names that begin with a dot and files that are not
// images are ignored; images of other formats are errors. Errors name the file or the class and the
// remedy: NotFound (a folder or file is missing or has vanished), FailedPrecondition (a class
// without images), DataLoss (an unreadable image).
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFolder(const ImageFolderOptions& options);

// Returns whether the name has the extension of an image, also of a format that cannot be read.
bool IsImageName(absl::string_view path);

// Opens a data set whose labels are all 0. Its examples are the PNG or JPEG file at this path, or
// all such files in the folder at this path, sorted by name; if it has none, those of the folders
// in it.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFiles(const std::string& path,
                                                        const ImageTargetOptions& image);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_FOLDER_H_
