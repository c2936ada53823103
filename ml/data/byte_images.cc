#include "ml/data/byte_images.h"

#include <array>
#include <utility>

#include "base/hash.h"

namespace shoal {
namespace {

absl::string_view BytesOf(const std::vector<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

absl::string_view BytesOf(const std::vector<int32_t>& labels) {
  return {reinterpret_cast<const char*>(labels.data()), labels.size() * sizeof(int32_t)};
}

ImageSize TargetOf(const ImageSize& size, const ImageTargetOptions& options) {
  ImageSize target = size;
  if (options.height > 0) {
    target.height = options.height;
    target.width = options.width;
  }
  if (options.channels > 0) target.channels = options.channels;
  return target;
}

class ByteImageDataset final : public Dataset {
 public:
  ByteImageDataset(ByteImages images, const ImageSize& target)
      : images_(std::move(images)),
        target_(target),
        fields_(
            {{kInputField, {DataType::kFloat32, {target.channels, target.height, target.width}}},
             {kLabelField, {DataType::kInt32, {}}}}),
        fingerprint_(
            CombineFingerprints(CombineFingerprints(Fingerprint64(BytesOf(images_.planes)),
                                                    Fingerprint64(BytesOf(images_.labels))),
                                Fingerprint64(fields_[0].example.ToString()))) {
    for (size_t byte = 0; byte < values_.size(); ++byte) {
      values_[byte] = static_cast<float>(byte) / 255.0f;
    }
  }

  int64_t size() const override { return static_cast<int64_t>(images_.labels.size()); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t num_classes() const override { return images_.num_classes; }
  std::vector<std::string> class_names() const override { return images_.class_names; }
  bool is_costly() const override { return !IsCopied(); }

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* planes = static_cast<float*>(outputs[0]);
    int32_t* labels = static_cast<int32_t*>(outputs[1]);
    ImageTarget::Scratch scratch;
    for (const int64_t index : indices) {
      const size_t image_bytes = static_cast<size_t>(images_.size.num_elements());
      const uint8_t* image = &images_.planes[static_cast<size_t>(index) * image_bytes];
      if (IsCopied()) {
        for (size_t i = 0; i < image_bytes; ++i) planes[i] = values_[image[i]];
      } else {
        Resize(image, &scratch, planes);
      }
      planes += target_.num_elements();
      *labels++ = images_.labels[static_cast<size_t>(index)];
    }
    return absl::OkStatus();
  }

 private:
  bool IsCopied() const { return target_ == images_.size; }

  void Resize(const uint8_t* image, ImageTarget::Scratch* scratch, float* planes) const {
    const size_t channels = static_cast<size_t>(images_.size.channels);
    const size_t plane = static_cast<size_t>(images_.size.height * images_.size.width);
    scratch->image.size = images_.size;
    scratch->image.pixels.resize(channels * plane);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = 0; i < plane; ++i) scratch->image.pixels[i * channels + c] = *image++;
    }
    ConvertChannels(target_.channels, &scratch->image);
    ResizeToPlanes(scratch->image, target_.height, target_.width, &scratch->resize, planes);
  }

  const ByteImages images_;
  const ImageSize target_;
  const std::vector<FieldSpec> fields_;
  const uint64_t fingerprint_;
  std::array<float, 256> values_;  // of a byte
};

}  // namespace

std::unique_ptr<Dataset> NewByteImageDataset(ByteImages images, const ImageTargetOptions& target) {
  const ImageSize size = TargetOf(images.size, target);
  return std::make_unique<ByteImageDataset>(std::move(images), size);
}

}  // namespace shoal
