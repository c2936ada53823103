#include "deploy/export_command.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_testing.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExportCommandTest : public ::testing::Test {
 protected:
  ExportCommandTest() {
    std::string pattern = ::testing::TempDir() + "/export.XXXXXX";
    out_ = mkdtemp(pattern.data());
  }

  void Save(const std::vector<std::string>& slots) {
    SaveOptions options;
    options.slots = slots;
    EXPECT_OK(SaveTestRun(*files_, out_ + "/checkpoints", options));
  }

  // The exit code; what is printed is kept.
  int Export(std::vector<std::string> args) {
    args.push_back("--out=" + out_);
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = ExportMain(args);
    printed_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  // The first variable's first number in the file, which ends with the tensors' bytes.
  std::string File(const std::string& name) {
    const absl::StatusOr<std::string> bytes = ReadFile(*files_, out_ + "/" + name);
    EXPECT_OK(bytes.status());
    return bytes.value_or("");
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string out_, printed_, errors_;
};

TEST_F(ExportCommandTest, AveragesAreOtherNumbersUnderTheSameNames) {
  Save({"m", "average"});
  EXPECT_EQ(Export({}), 0);
  EXPECT_EQ(printed_, "3 variables, step 1: " + out_ + "/model.safetensors\n");
  EXPECT_EQ(Export({"--use_averages", "--model_file=" + out_ + "/averages.safetensors"}), 0);
  EXPECT_THAT(printed_, HasSubstr("step 1, averages: "));
  const std::string values = File("model.safetensors"), averages = File("averages.safetensors");
  EXPECT_EQ(values.size(), averages.size());
  EXPECT_NE(values, averages);
  EXPECT_THAT(values, Not(HasSubstr("format")));  // It claims no framework's layout.
  const size_t numbers = values.rfind('}');
  EXPECT_EQ(values.substr(0, numbers), averages.substr(0, numbers));
}

TEST_F(ExportCommandTest, ARunWithoutAveragesAndAnotherFileNameAreRefused) {
  Save({"m"});
  EXPECT_NE(Export({"--use_averages"}), 0);
  EXPECT_THAT(errors_, HasSubstr("shoal export: --use_averages: the run keeps no averages; train "
                                 "with --set optimizer.moving_average_decay=0.999"));
  EXPECT_NE(Export({"--model_file=" + out_ + "/model.bin"}), 0);
  EXPECT_THAT(errors_, HasSubstr("must end in .safetensors"));
  EXPECT_NE(Export({"--model_file=" + out_ + "/no/such/model.safetensors"}), 0);
  EXPECT_THAT(errors_, HasSubstr("model.safetensors: there is no directory " + out_ +
                                 "/no/such; create it, or name a file in one that is there"));
}

}  // namespace
}  // namespace shoal
