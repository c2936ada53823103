#include "ml/data/image_decoder.h"

#include "absl/strings/match.h"

namespace shoal {

bool IsPng(absl::string_view bytes) { return absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n"); }

bool IsJpeg(absl::string_view bytes) { return absl::StartsWith(bytes, "\xff\xd8\xff"); }

absl::Status DecodeImage(absl::string_view bytes, const DecodeLimits& limits, Image* image) {
  if (IsPng(bytes)) return DecodePng(bytes, limits, image);
  if (IsJpeg(bytes)) return DecodeJpeg(bytes, limits, image);
  return absl::DataLossError(bytes.empty() ? "it is empty" : "it is neither PNG nor JPEG");
}

}  // namespace shoal
