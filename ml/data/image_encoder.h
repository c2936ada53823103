#ifndef SHOAL_ML_DATA_IMAGE_ENCODER_H_
#define SHOAL_ML_DATA_IMAGE_ENCODER_H_

#include <string>

#include "ml/data/image.h"

namespace shoal {

// The bytes of a PNG or JPEG file with this image, for tools and tests. The image must be valid.
std::string EncodePng(const Image& image);
std::string EncodeJpeg(const Image& image, int quality, bool is_progressive = false);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_ENCODER_H_
