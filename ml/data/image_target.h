#ifndef SHOAL_ML_DATA_IMAGE_TARGET_H_
#define SHOAL_ML_DATA_IMAGE_TARGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/data/image.h"

namespace shoal {

struct ImageTargetOptions {
  int64_t height = 0;    // unit: pixels; 0: the first image's height, which all images must have
  int64_t width = 0;     // the same
  int64_t channels = 0;  // the same
};

// Reads encoded images and brings all of them to one size. Immutable and copyable.
class ImageTarget {
 public:
  // Memory that a thread reuses while it reads one image after the other.
  struct Scratch {
    Image image;
    ResizeScratch resize;
  };

  // `first` is the content of the first image file, whose size and channels replace the options
  // that are 0.
  static absl::StatusOr<ImageTarget> Create(const ImageTargetOptions& options,
                                            absl::string_view first);

  const ImageSize& size() const { return size_; }

  // Decodes a PNG or JPEG and writes it to `planes` as floats in [0, 1], [channels, height, width].
  // DataLoss describes the defect and the remedy but does not name the file.
  absl::Status Read(absl::string_view encoded, Scratch* scratch, float* planes) const;

 private:
  ImageTarget(const ImageTargetOptions& options, const ImageSize& size)
      : may_resize_(options.height > 0), may_convert_(options.channels > 0), size_(size) {}

  absl::Status CheckSize(const ImageSize& size) const;

  bool may_resize_;
  bool may_convert_;
  ImageSize size_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_TARGET_H_
