// Measures how many images per second are read, decoded and resized. Arguments of a benchmark: file
// kind (0 PNG, 1 JPEG), height and width of the files, side of the RGB images that come out,
// channels of the files; ReadAhead: threads.
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"

#include "base/file_system.h"
#include "base/log.h"
#include "ml/data/batch_plan.h"
#include "ml/data/image_encoder_testing.h"
#include "ml/data/image_folder.h"
#include "ml/data/prefetcher.h"

namespace shoal {
namespace {

constexpr int kFiles = 64;

// Makes an image of soft shapes with some detail, so that the size of its file is realistic.
Image Picture(int64_t height, int64_t width, int64_t channels, int number) {
  Image image = {{height, width, channels}, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave = std::sin(0.05 * static_cast<double>(x * (c + 1) + number)) +
                            std::cos(0.31 * static_cast<double>(y + 7 * c) + 0.02 * number);
        const int64_t grain = (x * 2654435761 + y * 40503 + c * 97) >> 7 & 15;
        image.pixels.push_back(static_cast<uint8_t>(120 + 50 * wave + static_cast<double>(grain)));
      }
    }
  }
  return image;
}

std::unique_ptr<Dataset> MakeFolder(const benchmark::State& state) {
  const bool is_jpeg = state.range(0) == 1;
  const int64_t height = state.range(1), width = state.range(2), channels = state.range(4);
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const char* scratch = std::getenv("TMPDIR");
  const std::string root =
      absl::StrCat(scratch == nullptr ? "/tmp" : scratch, "/image_folder_benchmark_", getpid());
  CHECK_OK(RemoveTree(*files, root));
  CHECK_OK(files->MakeDirectory(root + "/a"));
  for (int i = 0; i < kFiles; ++i) {
    const Image image = Picture(height, width, channels, i);
    CHECK_OK(WriteAtomically(*files, absl::StrCat(root, "/a/", i, is_jpeg ? ".jpg" : ".png"),
                             is_jpeg ? EncodeJpeg(image, 90) : EncodePng(image)));
  }
  ImageFolderOptions options;
  options.directory = root;
  options.image = {state.range(3), state.range(3), 3};
  return OpenImageFolder(options).value();
}

void ReadOnOneThread(benchmark::State& state) {
  const auto dataset = MakeFolder(state);
  std::vector<float> pixels(static_cast<size_t>(dataset->fields()[0].example.shape.num_elements()));
  int32_t label = 0;
  int64_t index = 0;
  for (auto _ : state) {
    CHECK_OK(dataset->FillBatch(0, {index++ % kFiles}, {pixels.data(), &label}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ReadOnOneThread)
    ->Args({0, 28, 28, 28, 1})
    ->Args({0, 28, 28, 96, 1})
    ->Args({0, 32, 32, 32, 3})
    ->Args({1, 375, 500, 224, 3})
    ->Args({1, 1080, 1920, 224, 3});

// Batches of 64 through the prefetcher, whose threads are the last argument.
void ReadAhead(benchmark::State& state) {
  const auto dataset = MakeFolder(state);
  BatchPlanOptions plan;
  plan.num_examples = kFiles;
  plan.batch_size = kFiles;
  PrefetcherOptions options;
  options.threads = static_cast<int>(state.range(5));
  Prefetcher prefetcher(*dataset, BatchPlan::Create(plan).value(), options);
  uint32_t epoch = 0;
  for (auto _ : state) {
    const LoadedBatch* batch = prefetcher.Take(epoch, 0).value();
    prefetcher.Schedule(++epoch, 0);
    prefetcher.Release(batch);
  }
  state.SetItemsProcessed(state.iterations() * kFiles);
}
BENCHMARK(ReadAhead)
    ->Args({0, 28, 28, 96, 1, 1})
    ->Args({0, 28, 28, 96, 1, 2})
    ->Args({1, 375, 500, 224, 3, 1})
    ->Args({1, 375, 500, 224, 3, 2})
    ->UseRealTime();

}  // namespace
}  // namespace shoal

BENCHMARK_MAIN();
