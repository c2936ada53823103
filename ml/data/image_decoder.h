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
  // A JPEG may be decoded to 1/2, 1/4 or 1/8 of its size as long as both sides stay at least this
  // long: quicker where it is shrunk afterwards. 0: its full size.
  int64_t min_height = 0;
  int64_t min_width = 0;
};

// Decodes a PNG or JPEG, told apart by its first bytes, into 8 bits per channel: grey stays grey
// (1 channel), all else becomes RGB; palettes are looked up, 16 bits cut to 8, alpha, gamma and
// EXIF orientation ignored. Reuses the image's memory. DataLoss says in a few words what is wrong
// with the bytes, not whose they are. Thread safe; never crashes, whatever the bytes are.
absl::Status DecodeImage(absl::string_view bytes, const DecodeLimits& limits, Image* image);

// The two formats.
bool IsPng(absl::string_view bytes);
bool IsJpeg(absl::string_view bytes);
absl::Status DecodePng(absl::string_view bytes, const DecodeLimits& limits, Image* image);
absl::Status DecodeJpeg(absl::string_view bytes, const DecodeLimits& limits, Image* image);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_DECODER_H_
