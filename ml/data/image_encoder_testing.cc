#include "ml/data/image_encoder_testing.h"

// libjpeg needs the two before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <png.h>

#include <cstdlib>

#include "base/log.h"

namespace shoal {

std::string EncodePng(const Image& image) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.height = static_cast<png_uint_32>(image.size.height);
  png.width = static_cast<png_uint_32>(image.size.width);
  png.format = image.size.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, 0);
  const int written =
      png_image_write_to_memory(&png, &bytes[0], &size, 0, image.pixels.data(), 0, nullptr);
  CHECK(written != 0) << "an image that PNG cannot hold: " << png.message;
  bytes.resize(size);
  return bytes;
}

std::string EncodeJpeg(const Image& image, int quality, bool is_progressive) {
  jpeg_compress_struct state = {};
  jpeg_error_mgr errors;
  state.err = jpeg_std_error(&errors);  // which ends the program
  jpeg_create_compress(&state);
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&state, &memory, &size);
  state.image_height = static_cast<JDIMENSION>(image.size.height);
  state.image_width = static_cast<JDIMENSION>(image.size.width);
  state.input_components = static_cast<int>(image.size.channels);
  state.in_color_space = image.size.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_set_quality(&state, quality, TRUE);
  if (is_progressive) jpeg_simple_progression(&state);
  jpeg_start_compress(&state, TRUE);
  const int64_t row_bytes = image.size.width * image.size.channels;
  while (state.next_scanline < state.image_height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data() + state.next_scanline * row_bytes);
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  jpeg_destroy_compress(&state);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return bytes;
}

}  // namespace shoal
