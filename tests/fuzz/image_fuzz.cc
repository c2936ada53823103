// Decodes PNG and JPEG images, as the data sets of folders and records do.
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "ml/data/image.h"
#include "ml/data/image_decoder.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  shoal::DecodeLimits limits;
  limits.max_pixels = 1 << 16;
  if (shoal::TakeChoice(&input, 2) == 1) limits.min_height = limits.min_width = 8;
  shoal::Image image;
  const absl::Status decoded = shoal::DecodeImage(input, limits, &image);
  if (decoded.ok()) {
    const shoal::ImageSize& is = image.size;
    shoal::CheckFuzzed(is.height > 0 && is.width > 0 && (is.channels == 1 || is.channels == 3) &&
                       is.height * is.width <= limits.max_pixels &&
                       image.pixels.size() == static_cast<size_t>(is.num_elements()));
  } else {
    shoal::CheckFuzzed(!decoded.message().empty());
  }
  return 0;
}
