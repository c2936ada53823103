// libjpeg needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <setjmp.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/data/image_decoder.h"

namespace shoal {
namespace {

// The most scans to decode. A progressive file may repeat the whole image in any number of scans;
// ten are usual.
constexpr int kMostScans = 100;

// Returns whether the pixels are correct in spite of this warning of libjpeg.
bool IsHarmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
         code == JWRN_BOGUS_PROGRESSION;
}

// The state of reading one file. libjpeg reports errors through functions that must not return, so
// functions that call it must not have local objects with destructors; this class has them instead.
class JpegReader {
 public:
  JpegReader(absl::string_view bytes, const DecodeLimits& limits, Image* image)
      : bytes_(bytes), limits_(limits), image_(image) {
    state_.err = jpeg_std_error(&errors_);
    state_.client_data = this;
    errors_.error_exit = OnError;
    errors_.emit_message = OnMessage;
    progress_.progress_monitor = OnProgress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&state_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  absl::Status Decode() {
    if (!ReadHeader()) return Damaged();
    const int64_t height = state_.image_height, width = state_.image_width;
    if (height * width > limits_.max_pixels) {
      return absl::DataLossError(absl::StrCat("its header promises ", width, " x ", height,
                                              " pixels, more than the ", limits_.max_pixels,
                                              " allowed"));
    }
    if (!Start()) return Damaged();
    image_->size = {state_.output_height, state_.output_width,
                    state_.output_components == 1 ? 1 : 3};
    image_->pixels.resize(static_cast<size_t>(image_->size.num_elements()));
    const bool is_cmyk = state_.output_components == 4;
    if (is_cmyk) row_.resize(size_t{state_.output_width} * 4);
    if (!ReadPixels(is_cmyk)) return Damaged();
    return absl::OkStatus();
  }

 private:
  static JpegReader* Of(j_common_ptr state) { return static_cast<JpegReader*>(state->client_data); }

  [[noreturn]] static void OnError(j_common_ptr state) {
    JpegReader* reader = Of(state);
    state->err->format_message(state, reader->message_);
    longjmp(reader->jump_, 1);
  }
  static void OnMessage(j_common_ptr state, int level) {
    if (level < 0 && !IsHarmless(state->err->msg_code)) OnError(state);
  }
  static void OnProgress(j_common_ptr state) {
    if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number <= kMostScans) return;
    JpegReader* reader = Of(state);
    std::snprintf(reader->message_, sizeof(reader->message_), "more than %d scans", kMostScans);
    longjmp(reader->jump_, 1);
  }

  bool ReadHeader() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&state_);
    state_.progress = &progress_;
    jpeg_mem_src(&state_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_read_header(&state_, TRUE);
    return true;
  }

  bool Start() {
    if (setjmp(jump_) != 0) return false;
    state_.dct_method = JDCT_ISLOW;  // the same pixels from every instruction set
    if (state_.num_components == 1) {
      state_.out_color_space = JCS_GRAYSCALE;
    } else if (state_.num_components == 4) {
      state_.out_color_space = JCS_CMYK;
    } else {
      state_.out_color_space = JCS_RGB;
    }
    ChooseScale();
    jpeg_start_decompress(&state_);
    return true;
  }

  // The smallest size that is still at least as large as is asked for.
  void ChooseScale() {
    if (limits_.min_height <= 0 || limits_.min_width <= 0) return;
    state_.scale_num = 1;
    for (unsigned denominator = 8; denominator >= 1; denominator /= 2) {
      state_.scale_denom = denominator;
      const int64_t height = (state_.image_height + denominator - 1) / denominator;
      const int64_t width = (state_.image_width + denominator - 1) / denominator;
      if (height >= limits_.min_height && width >= limits_.min_width) return;
    }
    state_.scale_denom = 1;
  }

  bool ReadPixels(bool is_cmyk) {
    if (setjmp(jump_) != 0) return false;
    const int64_t row_bytes = image_->size.width * image_->size.channels;
    while (state_.output_scanline < state_.output_height) {
      uint8_t* out = image_->pixels.data() + state_.output_scanline * row_bytes;
      JSAMPROW row = is_cmyk ? row_.data() : out;
      jpeg_read_scanlines(&state_, &row, 1);
      if (is_cmyk) ToRgb(out);
    }
    jpeg_finish_decompress(&state_);
    return true;
  }

  // Adobe's files hold 255 minus the ink.
  void ToRgb(uint8_t* out) const {
    const bool inverted = state_.saw_Adobe_marker != FALSE;
    for (size_t i = 0; i < row_.size(); i += 4) {
      const unsigned black = inverted ? row_[i + 3] : 255u - row_[i + 3];
      for (size_t c = 0; c < 3; ++c) {
        const unsigned ink = inverted ? row_[i + c] : 255u - row_[i + c];
        *out++ = static_cast<uint8_t>((ink * black + 127) / 255);
      }
    }
  }

  absl::Status Damaged() const { return absl::DataLossError(absl::StrCat("JPEG: ", message_)); }

  const absl::string_view bytes_;
  const DecodeLimits& limits_;
  Image* const image_;
  jpeg_decompress_struct state_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  jmp_buf jump_;
  char message_[JMSG_LENGTH_MAX] = "damaged";
  std::vector<uint8_t> row_;  // of a CMYK image
};

}  // namespace

absl::Status DecodeJpeg(absl::string_view bytes, const DecodeLimits& limits, Image* image) {
  return JpegReader(bytes, limits, image).Decode();
}

}  // namespace shoal
