#ifndef SHOAL_ML_DATA_IMAGE_TARGET_H_
#define SHOAL_ML_DATA_IMAGE_TARGET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/data/image.h"

namespace shoal {

struct ImageTargetOptions {
  int64_t height = 0;    // 0: that of the first image, which all must have
  int64_t width = 0;     // likewise
  int64_t channels = 0;  // likewise
};

// The size that every encoded image is brought to, and by which means. A value.
class ImageTarget {
 public:
  // Memory of a thread that reads one image after the other.
  struct Scratch {
    Image image;
    ResizeScratch resize;
  };

  // `first` is the file that decides what the options leave open.
  static absl::StatusOr<ImageTarget> Create(const ImageTargetOptions& options,
                                            absl::string_view first);

  const ImageSize& size() const { return size_; }

  // Decodes a PNG or JPEG and writes planes [channels, height, width] in [0, 1]. DataLoss says what
  // is wrong and what to do about it, without the file's name.
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
