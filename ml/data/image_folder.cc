#include "ml/data/image_folder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/data/records/unreadable_data.h"

namespace shoal {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 28;
// The number of files whose contents are part of the fingerprint; of the other files it has only
// names and sizes.
constexpr size_t kSampledFiles = 64;

struct ImageFile {
  std::string path;
  uint64_t bytes = 0;
  int32_t label = 0;
};

absl::StatusOr<std::vector<std::string>> ClassesIn(const FileSystem& files,
                                                   const std::string& directory) {
  absl::StatusOr<std::vector<std::string>> names = files.List(directory);
  if (!names.ok()) return UnreadableData(names.status());
  std::vector<std::string> classes;
  for (const std::string& name : *names) {
    if (name[0] == '.') continue;
    ASSIGN_OR_RETURN(const bool is_class, IsDirectory(files, JoinPath(directory, name)));
    if (is_class) classes.push_back(name);
  }
  if (classes.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        directory, ": has no class folders; put the images into one folder per class"));
  }
  return classes;
}

enum class FileKind { kReadable, kOtherImage, kNoImage };

FileKind KindOf(absl::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == absl::string_view::npos || name[0] == '.') return FileKind::kNoImage;
  const std::string extension = absl::AsciiStrToLower(name.substr(dot + 1));
  for (const char* known : {"png", "jpg", "jpeg"}) {
    if (extension == known) return FileKind::kReadable;
  }
  for (const char* other : {"bmp", "gif", "webp", "tif", "tiff", "heic", "ppm", "pgm"}) {
    if (extension == other) return FileKind::kOtherImage;
  }
  return FileKind::kNoImage;
}

// Adds the images in `directory` itself; there may be none.
absl::Status AddImagesIn(const FileSystem& files, const std::string& directory, int32_t label,
                         std::vector<ImageFile>* images) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory, name);
    const FileKind kind = KindOf(name);
    if (kind == FileKind::kNoImage) continue;
    if (kind == FileKind::kOtherImage) {
      return absl::DataLossError(
          absl::StrCat(path, ": neither PNG nor JPEG; convert or remove the file"));
    }
    ASSIGN_OR_RETURN(const FileInfo file, files.GetInfo(path));
    if (!file.is_directory) images->push_back({path, file.size, label});
  }
  return absl::OkStatus();
}

absl::Status AddFolder(const FileSystem& files, const std::string& directory, int32_t label,
                       std::vector<ImageFile>* images) {
  const size_t before = images->size();
  RETURN_IF_ERROR(AddImagesIn(files, directory, label, images));
  if (images->size() > before) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      directory, ": folder without images; add PNG or JPEG files or remove the folder"));
}

// Adds the images of the folders in `directory`, which has none itself: the folders of classes.
absl::Status AddImagesBelow(const FileSystem& files, const std::string& directory,
                            std::vector<ImageFile>* images) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(directory));
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory, name);
    if (name[0] == '.') continue;
    ASSIGN_OR_RETURN(const bool is_folder, IsDirectory(files, path));
    if (is_folder) RETURN_IF_ERROR(AddImagesIn(files, path, /*label=*/0, images));
  }
  if (!images->empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(directory,
                   ": has no PNG or JPEG images, nor do the folders in it; name one "
                   "that has"));
}

// Returns the files of all classes, sorted by class and name.
absl::StatusOr<std::vector<ImageFile>> ListImages(const FileSystem& files,
                                                  const ImageFolderOptions& options,
                                                  const std::vector<std::string>& classes) {
  std::vector<std::string> present = classes;
  if (!options.class_directory.empty() && options.class_directory != options.directory) {
    ASSIGN_OR_RETURN(present, ClassesIn(files, options.directory));
  }
  std::vector<ImageFile> images;
  for (const std::string& name : present) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    const std::string directory = JoinPath(options.directory, name);
    if (known == classes.end() || *known != name) {
      return absl::FailedPreconditionError(absl::StrCat(directory, ": ", options.class_directory,
                                                        " has no class \"", name,
                                                        "\"; add it there or remove the folder"));
    }
    const int32_t label = static_cast<int32_t>(known - classes.begin());
    RETURN_IF_ERROR(AddFolder(files, directory, label, &images));
  }
  return images;
}

std::vector<ImageFile> Spread(std::vector<ImageFile> images, int64_t most) {
  const int64_t size = static_cast<int64_t>(images.size());
  if (most == 0 || most >= size) return images;
  std::vector<ImageFile> chosen;
  for (int64_t i = 0; i < most; ++i) {
    chosen.push_back(std::move(images[static_cast<size_t>(i * size / most)]));
  }
  return chosen;
}

// Reads a whole file into `bytes`, whose memory is reused.
absl::Status ReadImageFile(FileSystem& files, const std::string& path, std::string* bytes) {
  absl::StatusOr<std::unique_ptr<ReadableFile>> file = files.OpenForRead(path);
  if (!file.ok()) {
    const char* remedy = absl::IsNotFound(file.status())
                             ? "; it was there at the start: put it back and resume"
                             : "; check its permissions";
    return absl::Status(file.status().code(), absl::StrCat(file.status().message(), remedy));
  }
  ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  if (size > kLargestFile) {
    return absl::DataLossError(absl::StrCat(path, ": has ", size, " bytes, at most ", kLargestFile,
                                            " are read; shrink the image"));
  }
  bytes->resize(size);
  ASSIGN_OR_RETURN(const size_t read,
                   (*file)->Read(0, absl::MakeSpan(&(*bytes)[0], bytes->size())));
  bytes->resize(read);
  return absl::OkStatus();
}

absl::Status Named(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

class ImageFolderDataset final : public Dataset {
 public:
  ImageFolderDataset(std::unique_ptr<FileSystem> files, std::vector<ImageFile> images,
                     const ImageTarget& target, std::vector<std::string> classes)
      : files_(std::move(files)),
        images_(std::move(images)),
        target_(target),
        classes_(std::move(classes)),
        fields_({{kInputField,
                  {DataType::kFloat32,
                   {target.size().channels, target.size().height, target.size().width}}},
                 {kLabelField, {DataType::kInt32, {}}}}) {}

  int64_t size() const override { return static_cast<int64_t>(images_.size()); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t num_classes() const override { return static_cast<int64_t>(classes_.size()); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::string example_name(int64_t index) const override {
    return images_[static_cast<size_t>(index)].path;
  }
  bool is_costly() const override { return true; }

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* planes = static_cast<float*>(outputs[0]);
    int32_t* labels = static_cast<int32_t*>(outputs[1]);
    std::string bytes;
    ImageTarget::Scratch scratch;
    for (const int64_t index : indices) {
      const ImageFile& file = images_[static_cast<size_t>(index)];
      RETURN_IF_ERROR(ReadImageFile(*files_, file.path, &bytes));
      const absl::Status status = target_.Read(bytes, &scratch, planes);
      if (!status.ok()) return Named(file.path, status);
      planes += target_.size().num_elements();
      *labels++ = file.label;
    }
    return absl::OkStatus();
  }

  // `root` is left out of the names, so that a copy elsewhere is the same data set.
  absl::Status ComputeFingerprint(const std::string& root) {
    uint64_t fingerprint = Fingerprint64(fields_[0].example.ToString());
    const size_t step = std::max<size_t>(1, images_.size() / kSampledFiles);
    std::string bytes;
    for (size_t i = 0; i < images_.size(); ++i) {
      const absl::string_view name = absl::string_view(images_[i].path).substr(root.size());
      fingerprint = CombineFingerprints(fingerprint, Fingerprint64(name, images_[i].bytes));
      if (i % step != 0) continue;
      RETURN_IF_ERROR(ReadImageFile(*files_, images_[i].path, &bytes));
      fingerprint = CombineFingerprints(fingerprint, Fingerprint64(bytes));
    }
    fingerprint_ = fingerprint;
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<FileSystem> files_;
  const std::vector<ImageFile> images_;
  const ImageTarget target_;
  const std::vector<std::string> classes_;
  const std::vector<FieldSpec> fields_;
  uint64_t fingerprint_ = 0;
};

absl::StatusOr<std::unique_ptr<Dataset>> OpenImages(std::unique_ptr<FileSystem> files,
                                                    std::vector<ImageFile> images,
                                                    const ImageTargetOptions& image,
                                                    std::vector<std::string> classes,
                                                    const std::string& root) {
  std::string first;
  RETURN_IF_ERROR(ReadImageFile(*files, images[0].path, &first));
  const absl::StatusOr<ImageTarget> target = ImageTarget::Create(image, first);
  if (!target.ok()) return Named(images[0].path, target.status());
  auto dataset = std::make_unique<ImageFolderDataset>(std::move(files), std::move(images), *target,
                                                      std::move(classes));
  RETURN_IF_ERROR(dataset->ComputeFingerprint(root));
  return {std::move(dataset)};
}

}  // namespace

bool IsImageName(absl::string_view path) {
  return KindOf(path.substr(path.rfind('/') + 1)) != FileKind::kNoImage;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFiles(const std::string& path,
                                                        const ImageTargetOptions& image) {
  std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const FileInfo file, files->GetInfo(path));
  std::vector<ImageFile> images;
  if (file.is_directory) {
    RETURN_IF_ERROR(AddImagesIn(*files, path, /*label=*/0, &images));
    if (images.empty()) RETURN_IF_ERROR(AddImagesBelow(*files, path, &images));
  } else {
    images.push_back({path, file.size, /*label=*/0});
  }
  return OpenImages(std::move(files), std::move(images), image, {},
                    file.is_directory ? path : ParentDirectory(path));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenImageFolder(const ImageFolderOptions& options) {
  std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::vector<std::string> classes,
                   ClassesIn(*files, options.class_directory.empty() ? options.directory
                                                                     : options.class_directory));
  ASSIGN_OR_RETURN(std::vector<ImageFile> images, ListImages(*files, options, classes));
  images = Spread(std::move(images), options.max_examples);
  return OpenImages(std::move(files), std::move(images), options.image, classes, options.directory);
}

}  // namespace shoal
