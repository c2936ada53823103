#include "worker/prediction/input_columns.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

class InputColumnsTest : public ::testing::Test {
 protected:
  InputColumnsTest() {
    EXPECT_OK(RemoveTree(*files_, root_));
    EXPECT_OK(files_->MakeDirectory(root_));
    config_.set_directory(root_);
  }

  void WriteRun(const std::string& text) {
    ASSERT_OK(WriteAtomically(*files_, root_ + "/train.csv", text));
  }
  // Returns what is wrong with an input of these lines, without its name.
  std::string WrongWith(const std::string& text) {
    const std::string path = root_ + "/new.csv";
    EXPECT_OK(WriteAtomically(*files_, path, text));
    const absl::Status status = CheckInputColumns(config_, path);
    if (status.ok()) return "";
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    const std::string begin = absl::StrCat("--input: ", path, " ");
    EXPECT_EQ(status.message().substr(0, begin.size()), begin);
    return std::string(status.message().substr(begin.size()));
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/columns_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  v1::DataConfig config_;
};

TEST_F(InputColumnsTest, ColumnsAreComparedByName) {
  WriteRun("a,kind,b\n1,cat,2\n");
  config_.mutable_csv()->set_label("kind");
  const std::string train = root_ + "/train.csv";
  const struct {
    const char* text;
    std::string wrong;
  } kCases[] = {
      {"a,b\n1,2\n", ""},
      {"a,kind,b\n1,cat,2\n",
       "has the column \"kind\", which is the label that the model predicts; remove the column"},
      {"a,kind\n1,cat\n", "lacks the column \"b\", which " + train + " has; add it"},
      {"a,b,c\n1,2,3\n",
       "has the column \"c\", which " + train + " does not have; remove the column"},
      {"b,a\n2,1\n", "has its columns in another order than " + train + "; bring them to a, b"},
      {"1,cat,2\n", "lacks the column \"a\", which " + train +
                        " has; add it; if its first line is an example, give "
                        "--set=data.csv.no_header=true"},
      {"1,2\n", ""},  // The reader of the examples says what is wrong with the first line.
      {"", ""},
  };
  for (const auto& one : kCases) EXPECT_EQ(WrongWith(one.text), one.wrong) << one.text;
}

TEST_F(InputColumnsTest, WithoutNamesTheColumnsAreCounted) {
  WriteRun("a,b,kind\n1,2,cat\n");
  config_.mutable_csv()->set_no_header(true);  // The input has no header; the run's data has one.
  const std::string train = root_ + "/train.csv";
  EXPECT_EQ(WrongWith("1,2\n"), "");
  EXPECT_EQ(WrongWith("1,2,3\n"), "has 3 columns, as " + train +
                                      " has with the label that the model predicts; remove column "
                                      "2 (from 0)");
  EXPECT_EQ(WrongWith("1\n"),
            "has 1 column, but " + train + " has 2 besides the label; give as many");
  WriteRun("1,2,3\n");
  EXPECT_EQ(WrongWith("1,2\n"), "");
  EXPECT_NE(WrongWith("1,2,3\n"), "");
}

TEST_F(InputColumnsTest, WithoutTheTablesOfTheRunEveryInputIsAccepted) {
  EXPECT_EQ(WrongWith("a,b\n1,2\n"), "");
  WriteRun("c,d\n1,2\n");
  config_.set_format(v1::DataConfig::FORMAT_NPY);
  EXPECT_EQ(WrongWith("a,b\n1,2\n"), "");
}

}  // namespace
}  // namespace shoal
