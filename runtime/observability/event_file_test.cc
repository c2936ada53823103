#include "runtime/observability/event_file.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "ml/data/records/tf_record_file.h"
#include "runtime/observability/event.pb.h"
#include "runtime/observability/histogram.h"

namespace shoal {
namespace {

class EventFileTest : public ::testing::Test {
 protected:
  std::vector<tensorboard::Event> Read() {
    std::vector<tensorboard::Event> events;
    const auto names = files_.List("events");
    if (!names.ok()) return events;
    for (const std::string& name : *names) {
      const auto records = TfRecordFile::Open(files_, "events/" + name);
      EXPECT_OK(records);
      if (!records.ok()) continue;
      std::string buffer;
      for (int64_t i = 0; i < (*records)->size(); ++i) {
        const auto record = (*records)->Read(i, &buffer);
        EXPECT_OK(record);
        EXPECT_TRUE(events.emplace_back().ParseFromString(std::string(*record)));
      }
    }
    return events;
  }

  FakeClock clock_{absl::FromUnixSeconds(1)};
  FaultyFileSystem files_;
  EventFile file_{&files_, &clock_, "events"};
};

TEST_F(EventFileTest, BeginsWithTheBytesThatTensorFlowWrites) {
  ASSERT_OK(file_.AddScalars(7, {{"loss", 0.5}}));
  ASSERT_OK(file_.Flush());
  EXPECT_EQ(file_.path().substr(0, 37), "events/events.out.tfevents.0000000001");
  const auto bytes = ReadFile(files_, file_.path());
  ASSERT_OK(bytes);
  EXPECT_EQ(absl::BytesToHexString(bytes->substr(0, 40)),
            "1800000000000000a37f4b22"
            "09000000000000f03f1a0d627261696e2e4576656e743a32"
            "86bf577a");
}

TEST_F(EventFileTest, PointsOfAStepAreOneRecord) {
  ASSERT_OK(file_.AddScalars(7, {{"loss", 0.5}, {"accuracy", 0.25}}));
  ASSERT_OK(file_.AddScalars(8, {}));
  ASSERT_OK(file_.Flush());
  const auto events = Read();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[1].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[1].step(), 7);
  EXPECT_EQ(events[2].step(), 7);
  EXPECT_EQ(events[2].wall_time(), 1);
  ASSERT_EQ(events[2].summary().value_size(), 2);
  EXPECT_EQ(events[2].summary().value(0).tag(), "loss");
  EXPECT_EQ(events[2].summary().value(0).simple_value(), 0.5f);
  EXPECT_EQ(events[2].summary().value(1).tag(), "accuracy");
  EXPECT_EQ(events[2].summary().value(1).simple_value(), 0.25f);
}

TEST_F(EventFileTest, AHistogramIsWrittenWhole) {
  ValueHistogram histogram;
  histogram.Add({1.0f, 1.0f, -2.0f});
  ASSERT_OK(file_.AddHistogram(3, "w/gradient", histogram));
  ASSERT_OK(file_.Flush());
  const auto events = Read();
  ASSERT_EQ(events.size(), 3u);
  const tensorboard::Histogram& read = events[2].summary().value(0).histo();
  EXPECT_EQ(events[2].summary().value(0).tag(), "w/gradient");
  EXPECT_EQ(read.min(), -2);
  EXPECT_EQ(read.max(), 1);
  EXPECT_EQ(read.num(), 3);
  EXPECT_EQ(read.sum(), 0);
  EXPECT_EQ(read.sum_squares(), 6);
  ASSERT_EQ(read.bucket_size(), read.bucket_limit_size());
  double counted = 0;
  for (const double count : read.bucket()) counted += count;
  EXPECT_EQ(counted, 3);
}

TEST_F(EventFileTest, RepeatedStepsMakeEarlierOnesVoid) {
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  ASSERT_OK(file_.AddScalars(2, {{"loss", 2}}));
  file_.Restart();
  ASSERT_OK(file_.AddScalars(2, {{"loss", 1}}));
  ASSERT_OK(file_.Flush());
  const auto events = Read();
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[4].session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events[4].step(), 2);
  EXPECT_EQ(events[5].summary().value(0).simple_value(), 1);
}

TEST_F(EventFileTest, PointsWaitToBeFlushed) {
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  EXPECT_FALSE(files_.GetInfo("events").ok());
  ASSERT_OK(file_.Flush());
  EXPECT_EQ(Read().size(), 3u);
}

// It would take the place of one that this process made in the same second.
TEST_F(EventFileTest, NoFileIsMadeWhileItsNameCannotBeLookedUp) {
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  ASSERT_OK(file_.Flush());
  EventFile second(&files_, &clock_, "events");
  ASSERT_OK(second.AddScalars(2, {{"loss", 2}}));
  files_.faults().FailReadAt(files_.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_TRUE(absl::IsUnavailable(second.Flush()));
  EXPECT_EQ(Read().size(), 3u);
  ASSERT_OK(second.Flush());
  EXPECT_EQ(Read().size(), 6u);
}

TEST_F(EventFileTest, AFullDiskLosesNothing) {
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  ASSERT_OK(file_.Flush());
  const auto bytes = ReadFile(files_, file_.path());
  ASSERT_OK(bytes);
  files_.SetCapacity(bytes->size() + 10);
  ASSERT_OK(file_.AddScalars(2, {{"loss", 2}}));
  EXPECT_TRUE(absl::IsResourceExhausted(file_.Flush()));
  EXPECT_EQ(Read().size(), 3u);  // nothing torn
  files_.SetCapacity(1 << 20);
  ASSERT_OK(file_.AddScalars(3, {{"loss", 1}}));
  ASSERT_OK(file_.Flush());
  const auto events = Read();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[3].step(), 2);
  EXPECT_EQ(events[4].step(), 3);
}

TEST_F(EventFileTest, TheBytesThatWaitForADiskAreLimited) {
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  files_.faults().FailFrom(0, absl::ResourceExhaustedError("full"));
  const std::string tag(1 << 20, 't');
  absl::Status status;
  int added = 0;
  for (; added < 100 && status.ok(); ++added) status = file_.AddScalars(2, {{tag, 1}});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_LT(added, 20);
  files_.faults().StopFailing();
  ASSERT_OK(file_.Flush());
  EXPECT_EQ(Read().size(), static_cast<size_t>(3 + added - 1));
}

TEST_F(EventFileTest, AnUnwritableDirectoryIsTriedAgain) {
  files_.faults().FailFrom(0, absl::PermissionDeniedError("no"));
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  EXPECT_TRUE(absl::IsPermissionDenied(file_.Flush()));
  files_.faults().StopFailing();
  ASSERT_OK(file_.Flush());
  const auto events = Read();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
}

TEST_F(EventFileTest, TwoFilesOfOneSecondHaveTwoNames) {
  EventFile second(&files_, &clock_, "events");
  ASSERT_OK(file_.AddScalars(1, {{"loss", 3}}));
  ASSERT_OK(second.AddScalars(1, {{"loss", 3}}));
  ASSERT_OK(file_.Flush());
  ASSERT_OK(second.Flush());
  EXPECT_LT(file_.path(), second.path());
}

}  // namespace
}  // namespace shoal
