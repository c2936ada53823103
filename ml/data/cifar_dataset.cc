#include "ml/data/cifar_dataset.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/byte_images.h"
#include "ml/data/records/unreadable_data.h"

namespace shoal {
namespace {

constexpr int64_t kSide = 32;
constexpr size_t kImageBytes = 3 * kSide * kSide;

absl::Status AppendFile(const CifarDatasetOptions& options, const std::string& path,
                        const std::string& bytes, ByteImages* images) {
  const size_t label_bytes = options.kind == CifarKind::kCifar10 ? 1 : 2;
  const size_t record_bytes = label_bytes + kImageBytes;
  if (bytes.empty() || bytes.size() % record_bytes != 0) {
    return absl::DataLossError(absl::StrCat(
        path, ": truncated or another kind of file: ", bytes.size(),
        " bytes are not a whole number of records of ", record_bytes, "; fetch the file again"));
  }
  for (size_t at = 0; at < bytes.size(); at += record_bytes) {
    const int32_t label = static_cast<uint8_t>(bytes[at + label_bytes - 1]);
    if (label >= images->num_classes) {
      return absl::DataLossError(absl::StrCat(path, ": label of record ", at / record_bytes, " is ",
                                              label, ": it must be below the number of classes, ",
                                              images->num_classes, "; fetch the file again"));
    }
    images->labels.push_back(label);
    const auto pixels = bytes.begin() + static_cast<std::ptrdiff_t>(at + label_bytes);
    images->planes.insert(images->planes.end(), pixels, pixels + kImageBytes);
  }
  return absl::OkStatus();
}

// Returns the names of the classes, or an empty list if the file is absent or does not name all of
// them.
absl::StatusOr<std::vector<std::string>> ReadClassNames(FileSystem& files, const std::string& path,
                                                        int64_t num_classes) {
  const absl::StatusOr<std::string> text = ReadFile(files, path);
  if (absl::IsUnavailable(text.status())) return text.status();
  std::vector<std::string> names;
  if (!text.ok()) return names;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) names.emplace_back(line);
  }
  if (static_cast<int64_t>(names.size()) != num_classes) names.clear();
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadCifarDataset(const CifarDatasetOptions& options) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ByteImages images;
  images.size = {kSide, kSide, 3};
  images.num_classes = options.kind == CifarKind::kCifar10 ? 10 : 100;
  ASSIGN_OR_RETURN(images.class_names,
                   ReadClassNames(*files, options.class_names_path, images.num_classes));
  for (const std::string& path : options.paths) {
    const absl::StatusOr<std::string> bytes = ReadFile(*files, path);
    if (!bytes.ok()) return UnreadableData(bytes.status());
    RETURN_IF_ERROR(AppendFile(options, path, *bytes, &images));
  }
  const size_t most = static_cast<size_t>(options.max_examples);
  if (most > 0 && most < images.labels.size()) {
    images.labels.resize(most);
    images.planes.resize(most * kImageBytes);
  }
  return NewByteImageDataset(std::move(images), options.image);
}

}  // namespace shoal
