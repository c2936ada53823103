#include "runtime/observability/metrics_tail.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/file_system.h"

namespace shoal {
namespace {

class MetricsTailTest : public ::testing::Test {
 protected:
  MetricsTailTest() : path_(::testing::TempDir() + "/tail.jsonl") {
    file_system_->Remove(path_).IgnoreError();
  }

  std::unique_ptr<MetricsFile> Writer() {
    return *MetricsFile::Open(file_system_.get(), path_, 1000000);
  }

  static void Append(MetricsFile* file, uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) {
      StepMetrics metrics;
      metrics.step = step;
      ASSERT_TRUE(file->Append(metrics).ok());
    }
  }

  const std::unique_ptr<FileSystem> file_system_ = NewPosixFileSystem();
  const std::string path_;
};

TEST_F(MetricsTailTest, ReturnsOnlyNewLines) {
  MetricsTail early(file_system_.get(), path_);
  EXPECT_TRUE(early.Read().lines.empty());
  const auto writer = Writer();
  Append(writer.get(), 1, 3);
  MetricsTail late(file_system_.get(), path_);
  EXPECT_EQ(early.Read().lines.size(), 3u);
  EXPECT_TRUE(late.Read().lines.empty());
  Append(writer.get(), 4, 4);
  EXPECT_EQ(early.Read().lines.at(0).step, 4u);
  EXPECT_EQ(late.Read().last_step, 4u);
  EXPECT_FALSE(late.Read().cut_back);
}

TEST_F(MetricsTailTest, NoticesACut) {
  const auto writer = Writer();
  Append(writer.get(), 1, 5);
  MetricsTail tail(file_system_.get(), path_);
  ASSERT_TRUE(writer->CutBackTo(2).ok());
  const MetricsTail::News cut = tail.Read();
  EXPECT_TRUE(cut.cut_back);
  EXPECT_EQ(cut.last_step, 2u);
  Append(writer.get(), 3, 4);
  EXPECT_EQ(tail.Read().lines.size(), 2u);
}

TEST_F(MetricsTailTest, ALineThatIsBeingWrittenWaits) {
  auto file = file_system_->Create(path_);
  MetricsTail tail(file_system_.get(), path_);
  StepMetrics metrics;
  metrics.step = 1;
  const std::string line = MetricsLine(metrics);
  ASSERT_TRUE((*file)->Append(line.substr(0, 10)).ok());
  EXPECT_TRUE(tail.Read().lines.empty());
  ASSERT_TRUE((*file)->Append(line.substr(10)).ok());
  EXPECT_EQ(tail.Read().lines.size(), 1u);
}

}  // namespace
}  // namespace shoal
