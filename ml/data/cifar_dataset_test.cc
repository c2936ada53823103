#include "ml/data/cifar_dataset.h"

#include <errno.h>
#include <sys/syscall.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record whose planes are red, green and blue, 51, 102 and 153.
std::string Record(std::string labels) {
  for (const char value : {'\x33', '\x66', '\x99'}) labels.append(1024, value);
  return labels;
}

class CifarDatasetTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/cifar_",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(), "_", name);
    EXPECT_OK(WriteAtomically(*files_, path, bytes));
    return path;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  CifarDatasetOptions options_;
};

TEST_F(CifarDatasetTest, RecordsOfAllFilesAreExamples) {
  options_.paths = {Write("1", Record("\x03") + Record("\x09")), Write("2", Record("\x01"))};
  ASSERT_OK_AND_ASSIGN(const auto dataset, LoadCifarDataset(options_));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->num_classes(), 10);
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[3,32,32]");
  std::vector<float> planes(3 * 3072);
  int32_t labels[3];
  ASSERT_OK(dataset->FillBatch(0, {2, 0, 1}, {planes.data(), labels}));
  EXPECT_THAT(labels, ElementsAre(1, 3, 9));
  EXPECT_EQ(planes[1023], 0.2f);
  EXPECT_EQ(planes[1024], 0.4f);
  EXPECT_EQ(planes[3071], 0.6f);
  options_.max_examples = 2;
  EXPECT_EQ(LoadCifarDataset(options_).value()->size(), 2);
}

TEST_F(CifarDatasetTest, NamesAreThoseOfAWholeFile) {
  options_.paths = {Write("1", Record("\x03"))};
  options_.class_names_path = Write("meta", "a\nb\nc\nd\ne\nf\ng\nh\ni\r\nj\n\n");
  EXPECT_THAT(LoadCifarDataset(options_).value()->class_names(),
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"));
  options_.class_names_path = Write("meta", "a\nb\n");
  EXPECT_TRUE(LoadCifarDataset(options_).value()->class_names().empty());
}

TEST_F(CifarDatasetTest, NamesOfClassesThatCannotBeReadNowAreNotLeftOut) {
  options_.class_names_path = Write("meta", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  options_.paths.clear();  // Nothing else is read.
  RunWithFailingCall(SYS_openat, ESTALE, [this] {
    const absl::Status status = LoadCifarDataset(options_).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
}

TEST_F(CifarDatasetTest, Cifar100HasFineLabels) {
  options_.kind = CifarKind::kCifar100;
  options_.paths = {Write("1", Record("\x13\x63"))};
  ASSERT_OK_AND_ASSIGN(const auto dataset, LoadCifarDataset(options_));
  std::vector<float> planes(3072);
  int32_t label = 0;
  ASSERT_OK(dataset->FillBatch(0, {0}, {planes.data(), &label}));
  EXPECT_EQ(label, 99);
  EXPECT_EQ(planes[0], 0.2f);
}

TEST_F(CifarDatasetTest, DamageIsNamed) {
  options_.paths = {Write("short", Record("\x03") + Record("\x09").substr(0, 3000))};
  EXPECT_THAT(LoadCifarDataset(options_), StatusIs(absl::StatusCode::kDataLoss,
                                                   HasSubstr("_short: truncated or another kind")));
  options_.paths = {Write("empty", "")};
  EXPECT_THAT(LoadCifarDataset(options_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("_empty: truncated")));
  options_.paths = {Write("label", Record("\x03") + Record("\x0a"))};
  EXPECT_THAT(LoadCifarDataset(options_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("_label: label of record 1 is 10:")));
  options_.paths = {"/nowhere/data_batch_1.bin"};
  EXPECT_THAT(LoadCifarDataset(options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/data_batch_1.bin")));
}

}  // namespace
}  // namespace shoal
