// Images in memory, and functions that convert their channels and resize them to planes of floats.
// The functions are pure and give the same bytes on every machine.
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

// An image of 8 bits per channel in the order [height, width, channels], rows from top to bottom.
struct Image {
  ImageSize size;
  std::vector<uint8_t> pixels;
};

// Converts the image to `channels` (1 or 3). Grey is repeated in all three channels; RGB becomes
// its luma (ITU-R BT.601), with the same integer arithmetic as Pillow.
void ConvertChannels(int64_t channels, Image* image);

// Memory that a thread reuses while it resizes one image after the other.
struct ResizeScratch {
  // One output pixel is the sum over i < count of weights[first + i] * input pixel (begin + i).
  struct Taps {
    int64_t begin = 0;
    int64_t count = 0;
    size_t first = 0;
  };
  std::vector<Taps> taps;
  std::vector<float> weights;
  std::vector<float> rows;
};

// Writes the image to `planes` as floats in [0, 1], [channels, height, width]. Resizing is bilinear
// with half-pixel centers. When it shrinks an image, the filter is widened so that every input
// pixel contributes, as in Pillow and torchvision. An image that already has this size is only
// divided by 255.
void ResizeToPlanes(const Image& image, int64_t height, int64_t width, ResizeScratch* scratch,
                    float* planes);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IMAGE_H_
