#include "ml/data/image.h"

#include <algorithm>
#include <cmath>

namespace shoal {
namespace {

void RepeatGrey(Image* image) {
  const size_t count = image->pixels.size();
  image->pixels.resize(count * 3);
  for (size_t i = count; i-- > 0;) {
    const uint8_t grey = image->pixels[i];
    for (size_t c = 0; c < 3; ++c) image->pixels[i * 3 + c] = grey;
  }
}

void ReduceToLuma(Image* image) {
  const size_t count = image->pixels.size() / 3;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* rgb = &image->pixels[i * 3];
    const uint32_t luma = rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u;
    image->pixels[i] = static_cast<uint8_t>(luma >> 16);
  }
  image->pixels.resize(count);
}

// Computes for each of `out` output pixels of a line the input pixels (of `in`) that it depends on,
// and their weights, whose sum is 1.
void FillTaps(int64_t in, int64_t out, ResizeScratch* scratch) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(1.0, scale);
  scratch->taps.resize(static_cast<size_t>(out));
  scratch->weights.clear();
  for (int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin =
        std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - support + 0.5)));
    const int64_t end = std::min(in, static_cast<int64_t>(std::floor(centre + support + 0.5)));
    ResizeScratch::Taps& taps = scratch->taps[static_cast<size_t>(i)];
    taps = {begin, end - begin, scratch->weights.size()};
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) {
      const double distance = std::abs((static_cast<double>(k) + 0.5 - centre) / support);
      const double weight = std::max(0.0, 1 - distance);
      scratch->weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (size_t k = taps.first; k < scratch->weights.size(); ++k) {
      scratch->weights[k] = static_cast<float>(scratch->weights[k] / sum);
    }
  }
}

// Resizes the rows of an image, bytes [height, width, channels], and writes scratch->rows
// [channels, height, out_width].
void ResizeRows(const Image& image, int64_t out_width, ResizeScratch* scratch) {
  const auto [height, width, channels] = image.size;
  FillTaps(width, out_width, scratch);
  scratch->rows.resize(static_cast<size_t>(channels * height * out_width));
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      const uint8_t* in = &image.pixels[static_cast<size_t>(y * width * channels + c)];
      float* out = &scratch->rows[static_cast<size_t>((c * height + y) * out_width)];
      for (int64_t x = 0; x < out_width; ++x) {
        const ResizeScratch::Taps& taps = scratch->taps[static_cast<size_t>(x)];
        const float* weights = &scratch->weights[taps.first];
        float sum = 0;
        for (int64_t k = 0; k < taps.count; ++k) {
          sum += weights[k] * static_cast<float>(in[(taps.begin + k) * channels]);
        }
        out[x] = sum;
      }
    }
  }
}

void ToPlanes(const Image& image, float* planes) {
  const auto [height, width, channels] = image.size;
  const int64_t plane = height * width;
  for (int64_t c = 0; c < channels; ++c) {
    const uint8_t* in = image.pixels.data() + c;
    for (int64_t i = 0; i < plane; ++i) {
      planes[c * plane + i] = static_cast<float>(in[i * channels]) / 255.0f;
    }
  }
}

}  // namespace

void ConvertChannels(int64_t channels, Image* image) {
  if (image->size.channels == channels) return;
  if (channels == 3) {
    RepeatGrey(image);
  } else {
    ReduceToLuma(image);
  }
  image->size.channels = channels;
}

void ResizeToPlanes(const Image& image, int64_t height, int64_t width, ResizeScratch* scratch,
                    float* planes) {
  if (image.size.height == height && image.size.width == width) {
    ToPlanes(image, planes);
    return;
  }
  ResizeRows(image, width, scratch);
  FillTaps(image.size.height, height, scratch);
  for (int64_t c = 0; c < image.size.channels; ++c) {
    const float* in = &scratch->rows[static_cast<size_t>(c * image.size.height * width)];
    for (int64_t y = 0; y < height; ++y) {
      const ResizeScratch::Taps& taps = scratch->taps[static_cast<size_t>(y)];
      float* out = planes + (c * height + y) * width;
      std::fill(out, out + width, 0.0f);
      for (int64_t k = 0; k < taps.count; ++k) {
        const float weight = scratch->weights[taps.first + static_cast<size_t>(k)] / 255.0f;
        const float* line = in + (taps.begin + k) * width;
        for (int64_t x = 0; x < width; ++x) out[x] += weight * line[x];
      }
    }
  }
}

}  // namespace shoal
