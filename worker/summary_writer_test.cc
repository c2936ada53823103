#include "worker/summary_writer.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/faulty_file_system.h"
#include "ml/data/records/tf_record_file.h"

namespace shoal {
namespace {

int CountOf(const std::string& text, const std::string& words) {
  int count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    ++count;
  }
  return count;
}

class SummaryWriterTest : public ::testing::Test {
 protected:
  std::unique_ptr<SummaryWriter> Writer(uint64_t every) {
    SummaryWriter::Options options;
    options.file_system = &files_;
    options.clock = &clock_;
    options.directory = "events";
    options.every = every;
    return std::make_unique<SummaryWriter>(options);
  }

  void Offer(SummaryWriter* writer, uint64_t step) {
    const auto collect = [&] {
      steps_.push_back(step);
      return std::vector<BatchSummary>{{"loss", "", "", absl::MakeConstSpan(gradient_, 1)},
                                       {"", "w/gradient", "w/gradient_norm", gradient_}};
    };
    writer->Offer(step, collect);
  }

  std::string Bytes() {
    const auto names = files_.List("events");
    if (!names.ok()) return "";
    const auto file = ReadFile(files_, "events/" + names->at(0));
    return file.ok() ? *file : "";
  }

  int64_t NumRecords() {
    const auto names = files_.List("events");
    if (!names.ok()) return 0;
    const auto records = TfRecordFile::Open(files_, "events/" + names->at(0));
    return records.ok() ? (*records)->size() : -1;
  }

  FakeClock clock_;
  FaultyFileSystem files_;
  const float gradient_[2] = {3, 4};
  std::vector<uint64_t> steps_;  // that were asked for
};

TEST_F(SummaryWriterTest, AsksOnlyForTheStepsWhoseTurnItIs) {
  const std::unique_ptr<SummaryWriter> writer = Writer(1000);
  for (uint64_t step = 1; step <= 999; ++step) Offer(writer.get(), step);
  EXPECT_TRUE(steps_.empty());
  Offer(writer.get(), 1001);  // 1000 was computed by another worker
  Offer(writer.get(), 1001);  // another position of the step
  Offer(writer.get(), 1002);
  EXPECT_EQ(steps_, std::vector<uint64_t>{1001});
}

TEST_F(SummaryWriterTest, OfferedSummariesAreWrittenCompletely) {
  Offer(Writer(1).get(), 1);
  EXPECT_EQ(NumRecords(), 4);  // version, start, histogram, scalars
  for (const char* tag : {"loss", "w/gradient", "w/gradient_norm"}) {
    EXPECT_NE(Bytes().find(tag), std::string::npos) << tag;
  }
  const float norm = 5;
  EXPECT_NE(Bytes().find(std::string(reinterpret_cast<const char*>(&norm), sizeof(norm))),
            std::string::npos);
}

TEST_F(SummaryWriterTest, ADiskThatStaysFullIsLoggedOnce) {
  files_.faults().FailFrom(0, absl::ResourceExhaustedError("full"));
  ::testing::internal::CaptureStderr();
  const auto write = [this](SummaryWriter* writer, size_t steps) {
    // A step is left out while the one before is being written.
    while (steps_.size() < steps) Offer(writer, steps_.size() + 1);
  };
  write(Writer(1).get(), 5);
  std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(CountOf(log, "event files: "), 1) << log;

  // And again once it had been written.
  files_.faults().StopFailing();
  ::testing::internal::CaptureStderr();
  std::unique_ptr<SummaryWriter> writer = Writer(1);
  write(writer.get(), 7);
  files_.faults().FailFrom(0, absl::ResourceExhaustedError("full"));
  write(writer.get(), 10);
  writer.reset();
  log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(CountOf(log, "event files: "), 1) << log;
}

TEST_F(SummaryWriterTest, ADiskThatFailsDoesNotStopTraining) {
  files_.faults().FailFrom(0, absl::ResourceExhaustedError("full"));
  Offer(Writer(1).get(), 1);
  EXPECT_EQ(NumRecords(), 0);
}

}  // namespace
}  // namespace shoal
