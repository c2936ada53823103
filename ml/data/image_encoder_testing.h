#ifndef SHOAL_ML_DATA_IMAGE_ENCODER_TESTING_H_
#define SHOAL_ML_DATA_IMAGE_ENCODER_TESTING_H_

#include <string>

#include "ml/data/image.h"

namespace shoal {

// Return the bytes of a PNG or JPEG file of this image, for tests. The image must be valid;
// `quality` is that of libjpeg, from 1 to 100.
std::string EncodePng(const Image& image);
std::string EncodeJpeg(const Image& image, int quality, bool is_progressive = false);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_ENCODER_TESTING_H_
