#ifndef SHOAL_ML_DATA_BYTE_IMAGES_H_
#define SHOAL_ML_DATA_BYTE_IMAGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ml/data/dataset.h"
#include "ml/data/image.h"
#include "ml/data/image_target.h"

namespace shoal {

// Holds images of one size as bytes in memory, together with their classes.
struct ByteImages {
  ImageSize size;
  std::vector<uint8_t> planes;  // [examples, channels, height, width]
  std::vector<int32_t> labels;  // [examples], each in [0, num_classes)
  int64_t num_classes = 0;
  std::vector<std::string> class_names;  // empty: the classes have no names
};

// Returns a data set with two fields: "input" float32 [channels, height, width], which is each byte
// divided by 255, resized and converted to the size and channels that `target` sets; and "label"
// int32.
std::unique_ptr<Dataset> NewByteImageDataset(ByteImages images, const ImageTargetOptions& target);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_BYTE_IMAGES_H_
