// Trains on a tiny image folder with augmentation, in this process. The model learns; the variables
// have the same bytes for any number of tasks and of decoding threads; and a damaged image ends the
// run with an error that names it.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/data/image_encoder_testing.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/summary.h"
#include "tests/cluster/trained_run.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr char kRun[] = R"pb(
  name: "image_folder"
  model {
    layer { flatten {} }
    layer { dense { units: 16 activation: ACTIVATION_KIND_RELU } }
    layer { dense { units: 3 } }
  }
  data {
    image { height: 12 width: 12 channels: 3 mean: 0.5 stddev: 0.25 }
    augment { flip: true pad: 1 }
  }
  optimizer {
    learning_rate: 0.01
    adam {}
  }
  sync { replicas_to_aggregate: 2 }
  batch_size: 8
  num_epochs: 6
)pb";

class ImageFolderTrainingTest : public ::testing::Test {
 protected:
  ImageFolderTrainingTest() {
    EXPECT_OK(RemoveTree(*files_, root_));
    for (int number = 0; number < 120; ++number) WriteImage(number);
  }

  // Classes differ in which third of the rows is bright; every fourth image is for the test.
  void WriteImage(int number) {
    Image image = {{9, 9, 1}, {}};
    const int label = number % 3;
    for (uint64_t i = 0; i < 81; ++i) {
      const bool is_bright = static_cast<int>(i / 27) == label;
      const uint64_t noise = RandomBelow(1, static_cast<uint64_t>(number) * 81 + i, 60);
      image.pixels.push_back(static_cast<uint8_t>((is_bright ? 180 : 60) + noise));
    }
    const std::string folder =
        absl::StrCat(root_, "/data/", number % 4 == 0 ? "test" : "train", "/class", label);
    const bool is_jpeg = number % 2 == 1;
    EXPECT_OK(files_->MakeDirectory(folder));
    EXPECT_OK(WriteAtomically(*files_, absl::StrCat(folder, "/", number, is_jpeg ? ".jpg" : ".png"),
                              is_jpeg ? EncodeJpeg(image, 90) : EncodePng(image)));
  }

  absl::Status Train(uint32_t num_ps, uint32_t num_workers, uint32_t decode_threads) {
    run_ = *ParseRunConfig(kRun, "test");
    run_.mutable_data()->set_directory(root_ + "/data");
    run_.mutable_data()->set_decode_threads(decode_threads);
    run_.set_out(absl::StrCat(root_, "/run_", ++runs_));
    ResolveDefaults(TaskCounts(), &run_);
    EXPECT_OK(files_->MakeDirectory(run_.out()));
    return TrainInProcess(run_, num_ps, num_workers, files_.get());
  }

  Values Trained(uint32_t num_ps, uint32_t num_workers, uint32_t decode_threads) {
    EXPECT_OK(Train(num_ps, num_workers, decode_threads));
    return NewestValues(files_.get(), run_);
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/image_folder_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  v1::RunConfig run_;
  int runs_ = 0;
};

TEST_F(ImageFolderTrainingTest, IsLearnedByTheSameBytesForAnyNumberOfTasksAndThreads) {
  const Values one = Trained(1, 1, /*decode_threads=*/1);
  EXPECT_EQ(one.size(), 4u);
  EXPECT_GT(ReadSummary(files_.get(), run_.out()).value().test_accuracy.value_or(0), 0.95);
  EXPECT_EQ(Trained(2, 3, /*decode_threads=*/3), one);
}

TEST_F(ImageFolderTrainingTest, AnUnreadableImageEndsTheRunByItsName) {
  const std::string path = root_ + "/data/train/class1/1.jpg";
  const std::string bytes = *ReadFile(*files_, path);
  ASSERT_OK(WriteAtomically(*files_, path, bytes.substr(0, bytes.size() / 2)));
  EXPECT_THAT(Train(1, 1, 2), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("class1/1.jpg: unreadable image (JPEG:")));
}

}  // namespace
}  // namespace shoal
