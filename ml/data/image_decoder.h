#ifndef SHOAL_ML_DATA_IMAGE_DECODER_H_
#define SHOAL_ML_DATA_IMAGE_DECODER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "ml/data/image.h"

namespace shoal {

// Limits on the size that a file declares. They are checked before memory is allocated, so a small
// file cannot exhaust it.
struct DecodeLimits {
  int64_t max_pixels = int64_t{1} << 26;
  // A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size as long as it stays at least this large
  // (in pixels), which is faster if the caller shrinks it afterwards. 0: always at its full size.
  int64_t min_height = 0;
  int64_t min_width = 0;
};

// Decodes a PNG or JPEG, recognized by its first bytes, to 8 bits per channel. Grey images keep 1
// channel; all others become RGB. Palettes are looked up and 16 bits are cut to 8; alpha, gamma and
// the EXIF orientation are ignored. Reuses the memory of `image`. DataLoss describes what is wrong
// with the bytes but does not name the file, which only the caller knows. Thread-safe. No input
// makes it crash.
absl::Status DecodeImage(absl::string_view bytes, const DecodeLimits& limits, Image* image);

// Recognize and decode one of the two formats.
bool IsPng(absl::string_view bytes);
bool IsJpeg(absl::string_view bytes);
absl::Status DecodePng(absl::string_view bytes, const DecodeLimits& limits, Image* image);
absl::Status DecodeJpeg(absl::string_view bytes, const DecodeLimits& limits, Image* image);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_DECODER_H_
