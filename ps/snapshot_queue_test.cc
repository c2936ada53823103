#include "ps/snapshot_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr absl::Time kStart = absl::UnixEpoch();

SnapshotLineage LineageOf(uint64_t number, uint32_t num_ps) {
  SnapshotLineage lineage;
  lineage.lineage = number;
  lineage.term = 1;
  lineage.num_ps = num_ps;
  lineage.root = "checkpoints";
  lineage.last_version = 1000;
  return lineage;
}

size_t Cut(SnapshotQueue* queue, uint64_t version) {
  std::vector<SliceStoreEvents::CutPart> parts(2);
  for (SliceStoreEvents::CutPart& part : parts) part.cut = version;
  parts.back().completes_cut = true;
  return queue->AddParts(&parts);
}

void EndWrite(SnapshotQueue* queue, const SnapshotQueue::Work& work,
              const absl::Status& status = absl::OkStatus()) {
  v1::ReportShardRequest report;
  report.mutable_file()->set_name("shard");
  queue->OnWritten(kStart, work, status, report);
}

// Sends all reports that are due.
std::vector<v1::ReportShardRequest> SendAll(SnapshotQueue* queue, bool export_wanted = false) {
  std::vector<v1::ReportShardRequest> reports;
  v1::ReportShardResponse response;
  response.set_export_wanted(export_wanted);
  while (auto report = queue->TakeReport(kStart)) {
    queue->OnReported(kStart, *report, absl::OkStatus(), response);
    reports.push_back(std::move(*report));
  }
  return reports;
}

TEST(SnapshotQueueTest, ASnapshotIsWrittenWhenItsLastPartIsThere) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  std::vector<SliceStoreEvents::CutPart> part(1);
  part[0].cut = 5;
  queue.AddParts(&part);
  EXPECT_FALSE(queue.TakeWork(kStart).has_value());
  part.resize(1);
  part[0].cut = 5;
  part[0].completes_cut = true;
  queue.AddParts(&part);
  const auto work = queue.TakeWork(kStart);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->snapshot.version, 5u);
  EXPECT_EQ(work->snapshot.parts.size(), 2u);
  EndWrite(&queue, *work);
  const auto reports = SendAll(&queue);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].directory(), "ckpt-5-1-0000000000000001");
  EXPECT_EQ(reports[0].file().name(), "shard");
  EXPECT_EQ(reports[0].identity().lineage(), 1u);
}

TEST(SnapshotQueueTest, ADiskThatHangsHoldsTwoSnapshotsHoweverManyCutsCome) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 1));
  size_t given_up = 0;
  for (uint64_t version = 1; version <= 500; ++version) {
    given_up += Cut(&queue, version);
    if (version == 1) {
      EXPECT_TRUE(queue.TakeWork(kStart).has_value());
    }
    EXPECT_GE(given_up + 2, version) << "at most one is being written and one waits";
  }
  EXPECT_EQ(given_up, 498u);
  const auto reports = SendAll(&queue);
  EXPECT_LE(reports.size(), 64u) << "the chief need not know of every one";
  EXPECT_EQ(reports.back().version(), 499u);
  EXPECT_THAT(reports.back().error(), HasSubstr("superseded by step 500: step 1 was still being"));
  EXPECT_TRUE(reports.back().superseded());
}

TEST(SnapshotQueueTest, ARepeatedReportUnderWayDelaysTheNextWriteButHoldsNoMemory) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 1));
  Cut(&queue, 1);
  EndWrite(&queue, *queue.TakeWork(kStart));
  size_t given_up = 0;
  for (uint64_t version = 2; version < 100; ++version) given_up += Cut(&queue, version);
  EXPECT_FALSE(queue.TakeWork(kStart).has_value());
  EXPECT_EQ(given_up, 97u) << "only the newest waits";
  SendAll(&queue);
  EXPECT_EQ(queue.TakeWork(kStart)->snapshot.version, 99u);
}

TEST(SnapshotQueueTest, AnAskedAndTheLastCutAreGivenUpForALaterSuchOneOnly) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 1);
  ASSERT_TRUE(queue.TakeWork(kStart).has_value());
  queue.Ask(3);
  Cut(&queue, 3);
  Cut(&queue, 512);
  auto reports = SendAll(&queue);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].version(), 512u) << "although it is later";
  Cut(&queue, 1000);
  reports = SendAll(&queue);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].version(), 3u) << "the last cut of the run contains the asked one";
}

// Two ps with disks of different speeds write common cuts again and again, though neither knows of
// the other.
TEST(SnapshotQueueTest, PsOfDifferentSpeedsWriteTheSameCuts) {
  // Writes last so many cuts, in tenths.
  const auto written_by = [](int tenths) {
    SnapshotQueue queue(0);
    SnapshotLineage lineage = LineageOf(1, 2);
    lineage.last_version = UINT64_MAX;
    queue.StartLineage(lineage);
    std::set<uint64_t> written;
    std::optional<SnapshotQueue::Work> work;
    int end = 0;
    for (int now = 10; now <= 10 * 400; ++now) {
      if (work.has_value() && now == end) {
        written.insert(work->snapshot.version);
        EndWrite(&queue, *work);
        SendAll(&queue);
        work.reset();
      }
      if (now % 10 == 0) Cut(&queue, 7 * (now / 10));  // checkpoint.save_every: 7
      if (!work.has_value() && (work = queue.TakeWork(kStart)).has_value()) end = now + tenths;
    }
    return written;
  };
  const int speeds[] = {3, 9, 11, 14, 19, 22, 29, 37, 41, 53, 66};
  for (const int one : speeds) {
    for (const int other : speeds) {
      const std::set<uint64_t> first = written_by(one), second = written_by(other);
      std::vector<uint64_t> common = {0};
      std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                            std::back_inserter(common));
      uint64_t longest = 0;  // Cuts between two common ones.
      for (size_t i = 1; i < common.size(); ++i) {
        longest = std::max(longest, (common[i] - common[i - 1]) / 7);
      }
      EXPECT_LE(longest, 16u) << one << " and " << other;
      EXPECT_GE(common.back(), 7 * (400u - 32)) << one << " and " << other;
    }
  }
}

TEST(SnapshotQueueTest, AReportThatTheChiefDidNotAnswerItselfIsSentUntilTheLineageEnds) {
  for (const absl::Status& status :
       {absl::InternalError("RST_STREAM"), absl::UnknownError(""), absl::UnavailableError(""),
        absl::ResourceExhaustedError("quota"), absl::PermissionDeniedError("certificate")}) {
    SnapshotQueue queue(0);
    queue.StartLineage(LineageOf(1, 2));
    Cut(&queue, 4);
    EndWrite(&queue, *queue.TakeWork(kStart));
    absl::Time now = kStart;
    for (int attempt = 0; attempt < 50; ++attempt) {
      const auto report = queue.TakeReport(now);
      ASSERT_TRUE(report.has_value()) << status << " after " << attempt;
      EXPECT_EQ(report->version(), 4u);
      EXPECT_FALSE(queue.TakeReport(now).has_value()) << "one at a time";
      queue.OnReported(now, *report, status, {});
      EXPECT_FALSE(queue.TakeReport(now).has_value()) << "not at once";
      EXPECT_LE(queue.report_time(), now + absl::Seconds(1));
      now = queue.report_time();
    }
    queue.StartLineage(LineageOf(2, 2));
    EXPECT_FALSE(queue.TakeReport(now + absl::Hours(1)).has_value());
  }
}

TEST(SnapshotQueueTest, AReportThatTheChiefRefusesIsDropped) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 4);
  EndWrite(&queue, *queue.TakeWork(kStart));
  queue.OnReported(kStart, *queue.TakeReport(kStart), absl::AbortedError("moved"), {});
  EXPECT_EQ(queue.report_time(), absl::InfiniteFuture());
  Cut(&queue, 5);
  EXPECT_TRUE(queue.TakeWork(kStart).has_value());
}

TEST(SnapshotQueueTest, AFailedWriteIsReportedAndTheNextContinues) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 4);
  EndWrite(&queue, *queue.TakeWork(kStart), absl::ResourceExhaustedError("the disk is full"));
  const auto reports = SendAll(&queue);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].error(), "the disk is full");
  EXPECT_FALSE(reports[0].has_file());
  Cut(&queue, 5);
  EXPECT_EQ(queue.TakeWork(kStart)->snapshot.version, 5u);
}

// The queue writes the run's last version until it succeeds, because the run needs that one.
TEST(SnapshotQueueTest, TheLastVersionIsWrittenAgainUntilItSucceeds) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 1000);
  absl::Time now = kStart;
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto work = queue.TakeWork(now);
    ASSERT_TRUE(work.has_value());
    EXPECT_EQ(work->snapshot.parts.size(), 2u);
    queue.OnWritten(now, *std::move(work), absl::ResourceExhaustedError("no space left"), {});
    EXPECT_TRUE(SendAll(&queue).empty());
    EXPECT_FALSE(queue.TakeWork(now + absl::Seconds(1)).has_value());
    EXPECT_EQ(queue.work_time(), now + absl::Seconds(2));
    now += absl::Seconds(2);
  }
  auto work = queue.TakeWork(now);
  ASSERT_TRUE(work.has_value());
  EndWrite(&queue, *work);
  const auto reports = SendAll(&queue);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].error(), "");
  EXPECT_EQ(reports[0].directory(), "ckpt-1000-1-0000000000000001");
  EXPECT_EQ(queue.work_time(), absl::InfiniteFuture());
}

TEST(SnapshotQueueTest, TheLastVersionOfAnOldLineageIsNotWrittenAgain) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 1000);
  auto work = queue.TakeWork(kStart);
  ASSERT_TRUE(work.has_value());
  queue.OnWritten(kStart, *std::move(work), absl::UnknownError("input/output error"), {});
  queue.StartLineage(LineageOf(2, 2));
  EXPECT_EQ(queue.work_time(), absl::InfiniteFuture());
  Cut(&queue, 4);
  EXPECT_TRUE(queue.TakeWork(kStart).has_value());
}

TEST(SnapshotQueueTest, AWriteOfAnOldLineageIsNotReportedAndHoldsTheNextOneBack) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 4);
  const auto old = queue.TakeWork(kStart);
  Cut(&queue, 5);
  queue.StartLineage(LineageOf(2, 2));
  Cut(&queue, 4);
  EXPECT_FALSE(queue.TakeWork(kStart).has_value()) << "one is being written";
  EndWrite(&queue, *old);
  EXPECT_EQ(queue.report_time(), absl::InfiniteFuture());
  const auto work = queue.TakeWork(kStart);
  ASSERT_TRUE(work.has_value());
  EXPECT_EQ(work->lineage->lineage, 2u);
  EXPECT_FALSE(queue.TakeWork(kStart).has_value());
}

TEST(SnapshotQueueTest, AnExportFollowsTheShardAndKeepsItsSnapshot) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 4);
  EndWrite(&queue, *queue.TakeWork(kStart));
  EXPECT_EQ(SendAll(&queue, /*export_wanted=*/true).size(), 1u);
  const auto work = queue.TakeWork(kStart);
  ASSERT_TRUE(work.has_value());
  EXPECT_TRUE(work->is_export);
  EXPECT_EQ(work->snapshot.parts.size(), 2u);
  Cut(&queue, 5);
  EXPECT_FALSE(queue.ShouldStopExport());
  queue.Ask(6);
  Cut(&queue, 6);
  EXPECT_TRUE(queue.ShouldStopExport()) << "a stop waits for it";
  EXPECT_FALSE(queue.TakeWork(kStart).has_value());
  EndWrite(&queue, *work, absl::CancelledError("more urgent"));
  const auto reports = SendAll(&queue, /*export_wanted=*/true);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_TRUE(reports[0].is_export());
  EXPECT_EQ(reports[0].error(), "more urgent");
  EXPECT_EQ(queue.TakeWork(kStart)->snapshot.version, 6u);
}

TEST(SnapshotQueueTest, AnExportIsLeftOutWhileALaterSnapshotWaits) {
  SnapshotQueue queue(0);
  queue.StartLineage(LineageOf(1, 2));
  Cut(&queue, 4);
  const auto work = queue.TakeWork(kStart);
  Cut(&queue, 5);
  EndWrite(&queue, *work);
  const auto reports = SendAll(&queue, /*export_wanted=*/true);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_TRUE(reports[1].is_export());
  EXPECT_EQ(reports[1].error(), "left out, because step 5 waits");
  const auto next = queue.TakeWork(kStart);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->snapshot.version, 5u);
  EXPECT_FALSE(next->is_export);
}

TEST(SnapshotQueueTest, WithoutADirectoryNothingIsKept) {
  SnapshotQueue queue(0);
  SnapshotLineage lineage = LineageOf(1, 1);
  lineage.root.clear();
  queue.StartLineage(lineage);
  Cut(&queue, 4);
  EXPECT_FALSE(queue.TakeWork(kStart).has_value());
}

}  // namespace
}  // namespace shoal
