// Images in memory and the arithmetic on them: channels, resizing, planes of floats. Pure functions
// with the same bytes on every machine.
#ifndef SHOAL_ML_DATA_IMAGE_H_
#define SHOAL_ML_DATA_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;  // 1 grey, 3 RGB

  int64_t num_elements() const { return height * width * channels; }
  friend bool operator==(const ImageSize& a, const ImageSize& b) {
    return a.height == b.height && a.width == b.width && a.channels == b.channels;
  }
};

// Rows from top to bottom, the channels of a pixel side by side: [height, width, channels].
struct Image {
  ImageSize size;
  std::vector<uint8_t> pixels;
};

// Converts to 1 or 3 channels: grey is repeated; RGB becomes its luma after ITU-R BT.601, in
// Pillow's integers.
void ConvertChannels(int64_t channels, Image* image);

// Memory of a thread that resizes one image after the other.
struct ResizeScratch {
  struct Taps {  // The taps of one output pixel: weights [first, first + count) of input pixels
                 // from `begin`
    int64_t begin = 0;
    int64_t count = 0;
    size_t first = 0;
  };
  std::vector<Taps> taps;
  std::vector<float> weights;
  std::vector<float> rows;
};

// Writes the image as planes [channels, height, width] of floats in [0, 1]. Bilinear with pixel
// centres at halves; where it shrinks the triangle widens, so that every input pixel counts, as in
// Pillow and torchvision. An image of that size already is only divided by 255.
void ResizeToPlanes(const Image& image, int64_t height, int64_t width, ResizeScratch* scratch,
                    float* planes);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_H_
