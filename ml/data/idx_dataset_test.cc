#include "ml/data/idx_dataset.h"

#include <errno.h>
#include <sys/syscall.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<uint8_t>;

void WriteGzip(const std::string& path, const Bytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

Bytes ReadRaw(const std::string& path) {
  FILE* file = std::fopen(path.c_str(), "rb");
  Bytes bytes(1 << 16);
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file));
  std::fclose(file);
  return bytes;
}

void WriteRaw(const std::string& path, const Bytes& bytes) {
  FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
}

// Two images of 1x3 pixels.
Bytes Images() {
  return {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 51, 255, 102, 153, 204};
}
Bytes Labels() { return {0, 0, 8, 1, 0, 0, 0, 2, 9, 4}; }

class IdxDatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    options_.images_path = ::testing::TempDir() + "/" + test + "-images.gz";
    options_.labels_path = ::testing::TempDir() + "/" + test + "-labels.gz";
    WriteGzip(options_.images_path, Images());
    WriteGzip(options_.labels_path, Labels());
  }

  std::string Error() const { return std::string(LoadIdxDataset(options_).status().message()); }

  IdxDatasetOptions options_;
};

TEST_F(IdxDatasetTest, ReadsImagesAsSharesOf255) {
  const auto dataset = LoadIdxDataset(options_).value();
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[1,1,3]");
  EXPECT_EQ(dataset->fields()[1].example.ToString(), "int32[]");
  float pixels[6];
  int32_t labels[2];
  ASSERT_TRUE(dataset->FillBatch(0, {1, 0}, {pixels, labels}).ok());
  EXPECT_THAT(pixels, ElementsAre(0.4f, 0.6f, 0.8f, 0.0f, 0.2f, 1.0f));
  EXPECT_THAT(labels, ElementsAre(4, 9));
}

TEST_F(IdxDatasetTest, PlainFilesWorkAsWell) {
  WriteRaw(options_.images_path, Images());
  WriteRaw(options_.labels_path, Labels());
  EXPECT_EQ(LoadIdxDataset(options_).value()->size(), 2);
}

TEST_F(IdxDatasetTest, KeepsTheFirstExamples) {
  options_.max_examples = 1;
  const auto dataset = LoadIdxDataset(options_).value();
  EXPECT_EQ(dataset->size(), 1);
  options_.max_examples = 100;
  EXPECT_EQ(LoadIdxDataset(options_).value()->size(), 2);
  EXPECT_NE(LoadIdxDataset(options_).value()->fingerprint(), dataset->fingerprint());
}

TEST_F(IdxDatasetTest, AMissingFileIsNamed) {
  options_.labels_path += ".missing";
  EXPECT_EQ(LoadIdxDataset(options_).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Error(), HasSubstr(options_.labels_path + ": No such file"));
}

TEST_F(IdxDatasetTest, AnErrorOfTheFileSystemIsNotDamage) {
  for (const long call : {SYS_openat, SYS_read}) {
    for (const int error : {EIO, ESTALE, EMFILE}) {
      RunWithFailingCall(call, error, [this] {
        const absl::Status status = LoadIdxDataset(options_).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_THAT(Error(), HasSubstr(options_.images_path));
      });
    }
    RunWithFailingCall(call, EACCES, [this] {
      EXPECT_EQ(LoadIdxDataset(options_).status().code(), absl::StatusCode::kPermissionDenied);
    });
  }
  options_.images_path = ::testing::TempDir();
  EXPECT_EQ(LoadIdxDataset(options_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(IdxDatasetTest, EveryTruncationOfTheContentIsAnError) {
  const Bytes whole = Images();
  for (size_t length = 0; length < whole.size(); ++length) {
    WriteRaw(options_.images_path, Bytes(whole.begin(), whole.begin() + static_cast<long>(length)));
    EXPECT_THAT(Error(), HasSubstr(options_.images_path)) << length;
  }
  WriteRaw(options_.images_path, Bytes(whole.begin(), whole.begin() + 20));
  EXPECT_THAT(Error(), HasSubstr("truncated in its data: 4 of 6 bytes"));
}

TEST_F(IdxDatasetTest, EveryTruncationOfTheGzipIsAnError) {
  const Bytes whole = ReadRaw(options_.images_path);
  for (size_t length = 0; length < whole.size(); ++length) {
    WriteRaw(options_.images_path, Bytes(whole.begin(), whole.begin() + static_cast<long>(length)));
    EXPECT_THAT(Error(), HasSubstr(options_.images_path)) << length;
  }
}

TEST_F(IdxDatasetTest, ADamagedGzipIsAnError) {
  Bytes damaged = ReadRaw(options_.images_path);
  damaged[damaged.size() - 6] ^= 1;  // the sum at the end
  WriteRaw(options_.images_path, damaged);
  EXPECT_THAT(Error(), HasSubstr("damaged"));
}

TEST_F(IdxDatasetTest, AnotherMagicIsAnError) {
  WriteGzip(options_.images_path, Labels());
  EXPECT_THAT(Error(), HasSubstr("magic number is 0x00000801, expected 0x00000803"));
}

TEST_F(IdxDatasetTest, DimensionsThatCannotBeAreRefusedBeforeMemoryIsTaken) {
  Bytes images = Images();
  images[4] = images[8] = images[12] = 0xff;
  WriteGzip(options_.images_path, images);
  EXPECT_THAT(Error(), HasSubstr("dimension 0"));
  images = Images();
  images[11] = 0;
  WriteGzip(options_.images_path, images);
  EXPECT_THAT(Error(), HasSubstr("dimension 1 is 0"));
}

TEST_F(IdxDatasetTest, ExtraBytesAreAnError) {
  Bytes labels = Labels();
  labels.push_back(1);
  WriteGzip(options_.labels_path, labels);
  EXPECT_THAT(Error(), HasSubstr("has more bytes than its header announces"));
}

TEST_F(IdxDatasetTest, CountsMustAgree) {
  WriteGzip(options_.labels_path, {0, 0, 8, 1, 0, 0, 0, 1, 9});
  EXPECT_THAT(Error(), HasSubstr("has 2 images"));
  EXPECT_THAT(Error(), HasSubstr("has 1 labels"));
}

TEST_F(IdxDatasetTest, LabelsMustBeBelowTheNumberOfClasses) {
  options_.num_classes = 9;
  EXPECT_THAT(Error(), HasSubstr(options_.labels_path + ": label 0 is 9: it must be at least"));
  options_.num_classes = 2;
  options_.rules.binary_loss = "hinge";
  EXPECT_THAT(Error(), HasSubstr(": label 0 is 9: it must be 0 or 1, because model.loss is hinge"));
}

TEST(FashionMnistTest, DebiansFilesAreRead) {
  IdxDatasetOptions options;
  const std::string directory = "/usr/share/datasets/fashion-mnist/";
  options.images_path = directory + "t10k-images-idx3-ubyte.gz";
  options.labels_path = directory + "t10k-labels-idx1-ubyte.gz";
  const auto dataset = LoadIdxDataset(options).value();
  EXPECT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->fields()[0].example.shape, Shape({1, 28, 28}));
  std::vector<float> pixels(2 * 784);
  int32_t labels[2];
  ASSERT_TRUE(dataset->FillBatch(0, {0, 9999}, {pixels.data(), labels}).ok());
  EXPECT_THAT(labels, ElementsAre(9, 5));
}

}  // namespace
}  // namespace shoal
