#include "ml/data/image_target.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/data/image_decoder.h"

namespace shoal {
namespace {

absl::Status Unreadable(const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("unreadable image (", why.message(),
                                               "); replace or remove the file"));
}

std::string Describe(int64_t channels) {
  return absl::StrCat(channels, channels == 1 ? " channel" : " channels");
}

}  // namespace

absl::StatusOr<ImageTarget> ImageTarget::Create(const ImageTargetOptions& options,
                                                absl::string_view first) {
  ImageSize size = {options.height, options.width, options.channels};
  if (options.height == 0 || options.channels == 0) {
    Image image;
    const absl::Status status = DecodeImage(first, DecodeLimits(), &image);
    if (!status.ok()) return Unreadable(status);
    if (options.height == 0) {
      size.height = image.size.height;
      size.width = image.size.width;
    }
    if (options.channels == 0) size.channels = image.size.channels;
  }
  return ImageTarget(options, size);
}

absl::Status ImageTarget::CheckSize(const ImageSize& size) const {
  if (!may_convert_ && size.channels != size_.channels) {
    return absl::DataLossError(absl::StrCat("has ", Describe(size.channels),
                                            ", the first image has ", Describe(size_.channels),
                                            "; set data.image.channels to convert all"));
  }
  if (!may_resize_ && (size.height != size_.height || size.width != size_.width)) {
    return absl::DataLossError(absl::StrCat(
        "is ", size.width, " x ", size.height, " pixels, the first image is ", size_.width, " x ",
        size_.height, "; set data.image.height and data.image.width to resize all"));
  }
  return absl::OkStatus();
}

absl::Status ImageTarget::Read(absl::string_view encoded, Scratch* scratch, float* planes) const {
  DecodeLimits limits;
  if (may_resize_) {
    limits.min_height = size_.height;
    limits.min_width = size_.width;
  }
  const absl::Status status = DecodeImage(encoded, limits, &scratch->image);
  if (!status.ok()) return Unreadable(status);
  RETURN_IF_ERROR(CheckSize(scratch->image.size));
  ConvertChannels(size_.channels, &scratch->image);
  ResizeToPlanes(scratch->image, size_.height, size_.width, &scratch->resize, planes);
  return absl::OkStatus();
}

}  // namespace shoal
