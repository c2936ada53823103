#include "tools/make_image_folder/image_folder_writer.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/idx_file.h"
#include "ml/data/image.h"
#include "ml/data/image_encoder.h"

namespace shoal {

absl::StatusOr<int64_t> WriteImageFolder(FileSystem& files,
                                         const ImageFolderWriterOptions& options) {
  ASSIGN_OR_RETURN(const IdxFile images, ReadIdxFile(options.images_path, 3));
  ASSIGN_OR_RETURN(const IdxFile labels, ReadIdxFile(options.labels_path, 1));
  if (images.dims[0] != labels.dims[0]) {
    return absl::DataLossError(absl::StrCat(options.images_path, " and ", options.labels_path,
                                            " have different numbers of examples"));
  }
  const int64_t count =
      options.max_examples > 0 ? std::min(options.max_examples, images.dims[0]) : images.dims[0];
  const int64_t bytes = images.dims[1] * images.dims[2];
  std::set<uint8_t> classes;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t label = labels.bytes[static_cast<size_t>(i)];
    const std::string folder = JoinPath(options.directory, absl::StrFormat("%02d", label));
    if (classes.insert(label).second) RETURN_IF_ERROR(files.MakeDirectory(folder));
    const auto first = images.bytes.begin() + i * bytes;
    const Image image = {{images.dims[1], images.dims[2], 1}, {first, first + bytes}};
    const std::string name = absl::StrFormat("%05d.%s", i, options.is_jpeg ? "jpg" : "png");
    ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                     files.Create(JoinPath(folder, name)));
    RETURN_IF_ERROR(file->Append(options.is_jpeg ? EncodeJpeg(image, 95) : EncodePng(image)));
    RETURN_IF_ERROR(file->Close());
  }
  return count;
}

}  // namespace shoal
