#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

#include "ml/data/image_decoder.h"

namespace shoal {
namespace {

constexpr png_uint_32 kLongestSide = 1 << 20;
constexpr png_alloc_size_t kMostChunkBytes = 8 << 20;
// Deflate compresses at most 1032 bytes into one. A header that declares more is wrong.
constexpr int64_t kLargestRatio = 1032;

// The state of reading one file. libpng reports errors by longjmp, so functions that call it must
// not have local objects with destructors; this class has them instead.
class PngReader {
 public:
  PngReader(absl::string_view bytes, const DecodeLimits& limits, Image* image)
      : bytes_(bytes), limits_(limits), image_(image) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  absl::Status Decode() {
    if (info_ == nullptr) return absl::ResourceExhaustedError("no memory for libpng");
    if (!ReadHeader()) return Damaged();
    const int64_t pixels = image_->size.height * image_->size.width;
    if (pixels > limits_.max_pixels ||
        row_bytes_ / kLargestRatio * image_->size.height > static_cast<int64_t>(bytes_.size())) {
      return absl::DataLossError(
          absl::StrCat("its header promises ", image_->size.width, " x ", image_->size.height,
                       " pixels, more than is allowed or can be in ", bytes_.size(), " bytes"));
    }
    image_->pixels.resize(static_cast<size_t>(image_->size.num_elements()));
    if (!ReadPixels()) return Damaged();
    return absl::OkStatus();
  }

 private:
  static PngReader* Of(png_structp png) { return static_cast<PngReader*>(png_get_error_ptr(png)); }

  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    PngReader* reader = Of(png);
    const size_t length = std::min(std::strlen(message), sizeof(reader->message_) - 1);
    std::memcpy(reader->message_, message, length);
    reader->message_[length] = 0;
    png_longjmp(png, 1);
  }
  static void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

  static void OnRead(png_structp png, png_bytep out, size_t size) {
    PngReader* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader->bytes_.size() - reader->position_) png_error(png, "it is truncated");
    std::memcpy(out, reader->bytes_.data() + reader->position_, size);
    reader->position_ += size;
  }

  bool ReadHeader() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, OnRead);
    png_set_user_limits(png_, kLongestSide, kLongestSide);
    png_set_chunk_malloc_max(png_, kMostChunkBytes);
    png_set_chunk_cache_max(png_, 64);
    png_read_info(png_, info_);
    const png_byte color = png_get_color_type(png_, info_);
    png_set_expand(png_);  // palettes, fewer than 8 bits, transparency
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    image_->size.height = png_get_image_height(png_, info_);
    image_->size.width = png_get_image_width(png_, info_);
    image_->size.channels =
        color == PNG_COLOR_TYPE_GRAY || color == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3;
    row_bytes_ = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    if (row_bytes_ != image_->size.width * image_->size.channels) png_error(png_, "odd layout");
    return true;
  }

  bool ReadPixels() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    for (int pass = 0; pass < passes_; ++pass) {
      for (int64_t y = 0; y < image_->size.height; ++y) {
        png_read_row(png_, image_->pixels.data() + y * row_bytes_, nullptr);
      }
    }
    png_read_end(png_, nullptr);
    return true;
  }

  absl::Status Damaged() const { return absl::DataLossError(absl::StrCat("PNG: ", message_)); }

  const absl::string_view bytes_;
  const DecodeLimits& limits_;
  Image* const image_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  size_t position_ = 0;
  int passes_ = 1;
  int64_t row_bytes_ = 0;
  char message_[160] = "damaged";
};

}  // namespace

absl::Status DecodePng(absl::string_view bytes, const DecodeLimits& limits, Image* image) {
  return PngReader(bytes, limits, image).Decode();
}

}  // namespace shoal
