#include "ml/data/augmented_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// Purposes of random keys.
constexpr uint64_t kAugment = 0x4155474d454e5421;
// The random words that an example uses: flip, row, column.
constexpr uint64_t kWords = 3;

struct Window {
  int64_t top = 0, left = 0;  // place of the crop in the image; below 0: in the padding
  bool is_flipped = false;
};

class AugmentedDataset final : public Dataset {
 public:
  AugmentedDataset(std::unique_ptr<Dataset> images, const AugmentedDatasetOptions& options)
      : images_(std::move(images)), options_(options), fields_(images_->fields()) {
    const Shape& shape = fields_[0].example.shape;
    channels_ = shape.dim(0);
    in_height_ = shape.dim(1);
    in_width_ = shape.dim(2);
    height_ = options.crop > 0 ? options.crop : in_height_;
    width_ = options.crop > 0 ? options.crop : in_width_;
    fields_[0].example.shape = Shape({channels_, height_, width_});
    for (int64_t c = 0; c < channels_; ++c) {
      mean_.push_back(OfChannel(options.mean, c, 0));
      scale_.push_back(1.0f / OfChannel(options.stddev, c, 1));
    }
  }

  int64_t size() const override { return images_->size(); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return images_->fingerprint(); }
  int64_t num_classes() const override { return images_->num_classes(); }
  bool is_costly() const override { return images_->is_costly(); }
  std::vector<std::string> class_names() const override { return images_->class_names(); }
  std::string example_name(int64_t index) const override { return images_->example_name(index); }

  absl::Status FillBatch(uint32_t epoch, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    const uint64_t key = DeriveKey(DeriveKey(options_.seed, kAugment), epoch);
    std::vector<float> whole(static_cast<size_t>(channels_ * in_height_ * in_width_));
    std::vector<void*> rows(outputs.begin(), outputs.end());
    float* out = static_cast<float*>(outputs[0]);
    rows[0] = whole.data();
    for (const int64_t index : indices) {
      RETURN_IF_ERROR(images_->FillBatch(epoch, {index}, rows));
      Cut(whole.data(), WindowOf(key, index), out);
      out += channels_ * height_ * width_;
      for (size_t f = 1; f < rows.size(); ++f) {
        if (fields_[f].is_ragged()) continue;
        rows[f] = static_cast<char*>(rows[f]) + fields_[f].example.bytes();
      }
    }
    return absl::OkStatus();
  }

 private:
  static float OfChannel(const std::vector<float>& values, int64_t channel, float default_value) {
    if (values.empty()) return default_value;
    return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
  }

  Window WindowOf(uint64_t key, int64_t index) const {
    if (!options_.is_training) {
      return {(in_height_ - height_) / 2, (in_width_ - width_) / 2, false};
    }
    const uint64_t word = static_cast<uint64_t>(index) * kWords;
    const int64_t pad = options_.pad;
    const auto below = [&](uint64_t at, int64_t whole, int64_t part) {
      const uint64_t places = static_cast<uint64_t>(whole + 2 * pad - part + 1);
      return static_cast<int64_t>(RandomBelow(key, at, places)) - pad;
    };
    Window window;
    window.is_flipped = options_.flip && (RandomBits(key, word) & 1) != 0;
    window.top = below(word + 1, in_height_, height_);
    window.left = below(word + 2, in_width_, width_);
    return window;
  }

  void Cut(const float* in, const Window& window, float* out) const {
    const int64_t step = window.is_flipped ? -1 : 1;
    for (int64_t c = 0; c < channels_; ++c) {
      const float mean = mean_[static_cast<size_t>(c)], scale = scale_[static_cast<size_t>(c)];
      const float black = (0 - mean) * scale;
      for (int64_t y = 0; y < height_; ++y, out += width_) {
        const int64_t row = y + window.top;
        float* end = window.is_flipped ? out + width_ - 1 : out;
        if (row < 0 || row >= in_height_) {
          std::fill(out, out + width_, black);
          continue;
        }
        const float* line = in + (c * in_height_ + row) * in_width_;
        for (int64_t x = 0; x < width_; ++x) {
          const int64_t column = x + window.left;
          const bool inside = column >= 0 && column < in_width_;
          end[x * step] = inside ? (line[column] - mean) * scale : black;
        }
      }
    }
  }

  const std::unique_ptr<Dataset> images_;
  const AugmentedDatasetOptions options_;
  std::vector<FieldSpec> fields_;
  int64_t channels_, in_height_, in_width_, height_, width_;
  std::vector<float> mean_, scale_;
};

absl::Status CheckChannels(const char* field, const std::vector<float>& values, int64_t channels) {
  const int64_t count = static_cast<int64_t>(values.size());
  if (count <= 1 || count == channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": has ", count,
                                                 " numbers, but the images have ", channels,
                                                 " channels; give one number, or one per channel"));
}

}  // namespace

bool ChangesImages(const AugmentedDatasetOptions& options) {
  return (options.is_training && (options.flip || options.pad > 0)) || options.crop > 0 ||
         !options.mean.empty() || !options.stddev.empty();
}

absl::StatusOr<std::unique_ptr<Dataset>> AugmentImages(std::unique_ptr<Dataset> images,
                                                       const AugmentedDatasetOptions& options) {
  const TensorSpec& example = images->fields()[0].example;
  if (example.shape.rank() != 3 || example.dtype != DataType::kFloat32) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.augment and data.image: are for images, but inputs are ",
                     example.ToString(), "; drop them"));
  }
  const int64_t shorter = std::min(example.shape.dim(1), example.shape.dim(2));
  if (options.crop > shorter) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.image.crop: is ", options.crop, ", but the images are ", example.shape.dim(2), " x ",
        example.shape.dim(1), "; set data.image.height and data.image.width to at least the crop"));
  }
  RETURN_IF_ERROR(CheckChannels("data.image.mean", options.mean, example.shape.dim(0)));
  RETURN_IF_ERROR(CheckChannels("data.image.stddev", options.stddev, example.shape.dim(0)));
  return {std::make_unique<AugmentedDataset>(std::move(images), options)};
}

}  // namespace shoal
