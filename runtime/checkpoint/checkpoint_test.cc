#include "runtime/checkpoint/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "base/disk_journal.h"
#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_slice_source.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/saved_steps_testing.h"
#include "runtime/checkpoint/shard_base.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::Status Overwrite(FileSystem& disk, const std::string& path, const std::string& bytes) {
  ASSIGN_OR_RETURN(const auto file, disk.Create(path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Close();
}

TEST(CheckpointTest, HoldsWhatWasSavedWhateverTheNumberOfPs) {
  for (uint32_t num_ps = 1; num_ps <= 8; ++num_ps) {
    FaultyFileSystem disk;
    SaveOptions options = Step(7);
    options.num_ps = num_ps;
    options.asynchronous = num_ps % 2 == 0;
    options.with_table = num_ps > 4;
    ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_OK(VerifyTestRun(*checkpoint, options));
    EXPECT_EQ(checkpoint->manifest().step(), 7u);
    EXPECT_THAT(rejected, IsEmpty());
  }
}

TEST(CheckpointTest, OtherNumbersOfPsAndOtherCutsReadTheSameNumbers) {
  FaultyFileSystem disk;
  const SaveOptions options = Step(7);
  ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
  const std::vector<v1::VariableSpec> variables = TestVariables();
  for (uint64_t slice_bytes : {64, 128, 192, 4096}) {
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    ASSERT_OK_AND_ASSIGN(const SliceTable table, SliceTable::Create(variables, slice_bytes));
    ASSERT_OK_AND_ASSIGN(CheckpointSliceSource source,
                         CheckpointSliceSource::Create(*checkpoint, variables, table, [](uint32_t) {
                           return std::vector<std::string>{"v", "average"};
                         }));
    for (uint32_t slice = 0; slice < table.size(); ++slice) {
      std::vector<float> value(table[slice].num_elements), v(value.size()), average(value.size());
      SliceSource::Contents contents;
      contents.value = absl::MakeSpan(value);
      contents.slots = {absl::MakeSpan(v), absl::MakeSpan(average)};
      ASSERT_OK(source.Fill(slice, &contents));
      EXPECT_EQ(contents.version, 7u);
      EXPECT_EQ(contents.value_version, 6u);
      EXPECT_TRUE(contents.slots_follow_value) << "the average was not saved";
      for (uint64_t i = 0; i < value.size(); ++i) {
        const uint64_t element = table[slice].first_element + i;
        EXPECT_EQ(value[i], TestValue(table[slice].variable, element, "", 7));
        EXPECT_EQ(v[i], TestValue(table[slice].variable, element, "v", 7));
      }
    }
  }
}

TEST(CheckpointTest, OtherModelsAndOptimizersAreRefused) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(7)));
  std::vector<std::string> rejected;
  const auto checkpoint = OpenLatest(disk, &rejected);
  std::vector<v1::VariableSpec> variables = TestVariables();
  ASSERT_OK_AND_ASSIGN(const SliceTable table, SliceTable::Create(variables, kTestSliceBytes));
  const auto slots = [](uint32_t) { return std::vector<std::string>{"momentum"}; };
  ASSERT_OK_AND_ASSIGN(CheckpointSliceSource source,
                       CheckpointSliceSource::Create(*checkpoint, variables, table, slots));
  std::vector<float> value(table[0].num_elements), momentum(value.size());
  SliceSource::Contents contents;
  contents.value = absl::MakeSpan(value);
  contents.slots = {absl::MakeSpan(momentum)};
  EXPECT_THAT(source.Fill(0, &contents),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another optimizer")));

  variables[0].set_shape(0, 12);
  EXPECT_THAT(
      CheckpointSliceSource::Create(*checkpoint, variables, table, slots),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("dense/w of shape [11,7]")));
  variables[0].set_name("other");
  EXPECT_THAT(CheckpointSliceSource::Create(*checkpoint, variables, table, slots),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no variable other")));
}

TEST(CheckpointTest, SlicesOfDifferentVersionsKeepTheirCut) {
  FaultyFileSystem disk;
  SaveOptions options = Step(7);
  options.asynchronous = true;
  options.slots.clear();
  ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
  std::vector<std::string> rejected;
  const auto checkpoint = OpenLatest(disk, &rejected);
  const std::vector<v1::VariableSpec> variables = TestVariables();
  const auto slots = [](uint32_t) { return std::vector<std::string>(); };
  for (uint64_t slice_bytes : {uint64_t{4096}, kTestSliceBytes}) {
    ASSERT_OK_AND_ASSIGN(const SliceTable table, SliceTable::Create(variables, slice_bytes));
    ASSERT_OK_AND_ASSIGN(CheckpointSliceSource source,
                         CheckpointSliceSource::Create(*checkpoint, variables, table, slots));
    std::vector<float> value(table[0].num_elements);
    SliceSource::Contents contents;
    contents.value = absl::MakeSpan(value);
    const absl::Status status = source.Fill(0, &contents);
    if (slice_bytes == kTestSliceBytes) {
      EXPECT_OK(status);
      EXPECT_THAT(contents.applied, SizeIs(1));
    } else {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("use cluster.slice_bytes = 64")));
    }
  }
}

// A backup may bring a shard and its sidecar back into the directory of another checkpoint.
TEST(CheckpointTest, AShardOfAnotherCheckpointIsFound) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  ASSERT_OK_AND_ASSIGN(const v1::Manifest one,
                       ReadManifest(disk, "checkpoints/" + TestName(Step(1)).ToString()));
  ASSERT_OK_AND_ASSIGN(const v1::Manifest two,
                       ReadManifest(disk, "checkpoints/" + TestName(Step(2)).ToString()));
  EXPECT_NE(two.shards(0).sidecar_crc32c(), two.shards(1).sidecar_crc32c());
  EXPECT_EQ(one.shards(0).bytes(), two.shards(0).bytes()) << "the size tells them apart";
  for (const std::string& file : {two.shards(0).name(), two.shards(0).sidecar()}) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(disk, PathOf(Step(1), file)));
    ASSERT_OK(Overwrite(disk, PathOf(Step(2), file), bytes));
  }
  std::vector<std::string> rejected;
  EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 1u);
  EXPECT_THAT(rejected, ElementsAre(HasSubstr("crc32c: belongs to another shard")));
}

TEST(CheckpointTest, ManifestsWithTheChecksumsOfWholeSidecarsAreRead) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(7)));
  ASSERT_OK_AND_ASSIGN(v1::Manifest manifest,
                       ReadManifest(disk, "checkpoints/" + TestName(Step(7)).ToString()));
  for (v1::ShardFile& shard : *manifest.mutable_shards()) {
    ASSERT_OK_AND_ASSIGN(const std::string sidecar,
                         ReadFile(disk, PathOf(Step(7), shard.sidecar())));
    EXPECT_NE(shard.sidecar_crc32c(), Crc32c(sidecar));
    shard.set_sidecar_crc32c(Crc32c(sidecar));
  }
  manifest.set_format_version(1);
  manifest.set_min_reader_version(1);
  ASSERT_OK(Overwrite(disk, PathOf(Step(7), kManifestFile), EncodeManifest(manifest)));
  std::vector<std::string> rejected;
  EXPECT_OK(VerifyTestRun(*OpenLatest(disk, &rejected), Step(7)));
  EXPECT_THAT(rejected, IsEmpty());
}

// Programs of earlier versions named bases also in shards that have all their values.
TEST(CheckpointTest, AShardWithoutBucketsNeedsNoBase) {
  FaultyFileSystem disk;
  SaveOptions options = Step(7);
  ShardBase gone;
  gone.checkpoint = TestName(Step(3)).ToString();
  gone.file.set_name("shard-00000-of-00002.safetensors");
  gone.file.set_sidecar("shard-00000-of-00002.crc32c");
  options.bases = {gone};
  ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
  std::vector<std::string> rejected;
  const auto checkpoint = OpenLatest(disk, &rejected);
  EXPECT_OK(VerifyTestRun(*checkpoint, options));
  EXPECT_THAT(checkpoint->bases(), IsEmpty());
  options.step = 8;
  options.with_table = true;
  EXPECT_THAT(SaveTestRun(disk, "checkpoints", options), StatusIs(absl::StatusCode::kNotFound))
      << "the rows of a bucket need it";
}

// After a power cut at any moment while step 2 is saved, step 1 or step 2 exists and is undamaged.
TEST(CheckpointCrashTest, AValidCheckpointAlwaysExists) {
  int changes = 0;
  {
    FaultyFileSystem disk;
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
    const int before = disk.faults().num_changes();
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(2)));
    changes = disk.faults().num_changes() - before;
  }
  ASSERT_GT(changes, 20);
  bool second_seen = false;
  for (int change = 0; change <= changes; ++change) {
    FaultyFileSystem disk;
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
    disk.faults().FailFrom(disk.faults().num_changes() + change,
                           absl::UnavailableError("power cut"));
    const bool saved = SaveTestRun(disk, "checkpoints", Step(2)).ok();
    disk.Crash();
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    const uint64_t step = checkpoint->manifest().step();
    EXPECT_OK(VerifyTestRun(*checkpoint, Step(step))) << "cut at " << change;
    EXPECT_THAT(rejected, IsEmpty()) << "a torn checkpoint has a manifest";
    if (saved) {
      EXPECT_EQ(step, 2u) << "a reported checkpoint is gone after the cut at " << change;
    }
    second_seen = second_seen || step == 2;
    // The remains of the crash disturb nobody.
    EXPECT_OK(SaveTestRun(disk, "checkpoints", Step(3))) << change;
    EXPECT_OK(Directory(disk)->Prune(1));
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointName> left, Directory(disk)->List());
    EXPECT_THAT(left, SizeIs(1));
  }
  EXPECT_TRUE(second_seen);
}

// Saves step 1, then step 2 while one change of the disk fails. Returns whether that succeeded.
bool SaveWithAFailingCall(FaultyFileSystem& disk, int change) {
  EXPECT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
  disk.faults().FailAt(disk.faults().num_changes() + change,
                       absl::UnavailableError("input/output error"));
  const bool saved = SaveTestRun(disk, "checkpoints", Step(2)).ok();
  disk.faults().StopFailing();
  return saved;
}

// If any single call fails (a sync, for example), saving fails or the saved checkpoint is
// undamaged.
TEST(CheckpointCrashTest, AFailingCallNeverLeavesATornCheckpoint) {
  for (int change = 0; change < 60; ++change) {
    FaultyFileSystem disk;
    const bool saved = SaveWithAFailingCall(disk, change);
    disk.Crash();
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    const uint64_t step = checkpoint->manifest().step();
    EXPECT_OK(VerifyTestRun(*checkpoint, Step(step))) << change;
    EXPECT_THAT(rejected, IsEmpty());
    if (saved) {
      EXPECT_EQ(step, 2u) << change;
    }
  }
}

// A checkpoint of which some files already have their names can be written again.
TEST(CheckpointCrashTest, TheSameCheckpointSucceedsAfterAFailingCall) {
  for (int change = 0; change < 60; ++change) {
    FaultyFileSystem disk;
    const bool saved = SaveWithAFailingCall(disk, change);
    if (!saved) {
      SaveOptions again = Step(2);
      again.again = true;
      EXPECT_OK(SaveTestRun(disk, "checkpoints", again)) << change;
    }
    disk.Crash();
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_EQ(checkpoint->manifest().step(), 2u) << change;
    EXPECT_OK(VerifyTestRun(*checkpoint, Step(2))) << change;
  }
}

// The same for pruning: at any moment one valid checkpoint exists.
TEST(CheckpointCrashTest, PruningNeverTakesTheOnlyValidOne) {
  for (int change = 0; change < 40; ++change) {
    FaultyFileSystem disk;
    for (uint64_t step : {1, 2, 3}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
    const auto checkpoints = Directory(disk);
    disk.faults().FailFrom(disk.faults().num_changes() + change,
                           absl::UnavailableError("power cut"));
    checkpoints->Prune(1).IgnoreError();
    disk.Crash();
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_EQ(checkpoint->manifest().step(), 3u);
    EXPECT_OK(VerifyTestRun(*checkpoint, Step(3)));
  }
}

TEST(CheckpointCrashTest, AFullDiskLeavesTheOldCheckpoint) {
  for (uint64_t spare = 0; spare < 12000; spare += 97) {
    FaultyFileSystem disk;
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
    uint64_t left = disk.SpaceLeft("checkpoints").value();
    disk.SetCapacity((uint64_t{1} << 40) - left + spare);
    const absl::Status saved = SaveTestRun(disk, "checkpoints", Step(2));
    if (!saved.ok()) {
      EXPECT_EQ(saved.code(), absl::StatusCode::kResourceExhausted) << saved;
    }
    disk.Crash();
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_EQ(checkpoint->manifest().step(), saved.ok() ? 2u : 1u);
    EXPECT_THAT(rejected, IsEmpty());
  }
}

// Damages every file of the newest checkpoint at every byte. The checkpoint before it is opened,
// and the damage is reported.
class CheckpointDamageTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CheckpointDamageTest, EveryTruncationFallsBackToTheOneBefore) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const std::string path = PathOf(Step(2), GetParam());
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(disk, path));
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_OK(Overwrite(disk, path, whole.substr(0, size)));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_EQ(checkpoint->manifest().step(), 1u) << size;
    ASSERT_THAT(rejected, ElementsAre(HasSubstr(TestName(Step(2)).ToString() + " is not used")));
  }
}

TEST_P(CheckpointDamageTest, EveryFlippedBitFallsBackToTheOneBefore) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const std::string path = PathOf(Step(2), GetParam());
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(disk, path));
  for (size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << byte % 8));
    ASSERT_OK(Overwrite(disk, path, damaged));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    EXPECT_EQ(checkpoint->manifest().step(), 1u) << byte;
    EXPECT_THAT(rejected, SizeIs(1));
  }
}

TEST_P(CheckpointDamageTest, AMissingFileFallsBackToTheOneBefore) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  ASSERT_OK(disk.Remove(PathOf(Step(2), GetParam())));
  std::vector<std::string> rejected;
  EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 1u);
}

INSTANTIATE_TEST_SUITE_P(EveryFile, CheckpointDamageTest,
                         ::testing::Values("MANIFEST", "shard-00000-of-00002.safetensors",
                                           "shard-00001-of-00002.safetensors",
                                           "shard-00000-of-00002.crc32c"),
                         [](const auto& info) { return "File" + std::to_string(info.index); });

TEST(CheckpointTest, DamageThatAppearsLaterIsSeenWhenItIsRead) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
  std::vector<std::string> rejected;
  auto checkpoint = Directory(disk)->OpenLatestValid(Checkpoint::Verify::kIndex, &rejected).value();
  const std::string path = PathOf(Step(1), "shard-00000-of-00002.safetensors");
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(disk, path));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_OK(Overwrite(disk, path, bytes));
  checkpoint = Directory(disk)->OpenLatestValid(kEverything, &rejected).value_or(nullptr);
  EXPECT_EQ(checkpoint, nullptr);
  EXPECT_THAT(rejected,
              ElementsAre(HasSubstr("is not used: shard-00000-of-00002.safetensors: block 0 (from "
                                    "byte 0) is damaged")));
}

TEST(CheckpointDirectoryTest, NamesAreReadBack) {
  const CheckpointName name{1200, 3, 0xabc};
  EXPECT_EQ(name.ToString(), "ckpt-1200-3-0000000000000abc");
  CheckpointName parsed;
  ASSERT_TRUE(CheckpointName::Parse(name.ToString(), &parsed));
  EXPECT_EQ(parsed.step, 1200u);
  for (const char* text : {"", "ckpt-1-2", "ckpt-1-2-3", "ckpt-01-2-0000000000000abc", "LATEST",
                           "ckpt-1-2-0000000000000ABC", "ckpt--1-2-0000000000000abc"}) {
    EXPECT_FALSE(CheckpointName::Parse(text, &parsed)) << text;
  }
}

TEST(CheckpointDirectoryTest, ALaterTermIsNewerWhateverItsStep) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(900, /*term=*/1)));
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1000, /*term=*/1)));
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(950, /*term=*/2)));
  std::vector<std::string> rejected;
  EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 950u);
}

TEST(CheckpointDirectoryTest, KeepsTheNewestAndForgetsRubbish) {
  FaultyFileSystem disk;
  for (uint64_t step = 1; step <= 5; ++step) {
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  }
  ASSERT_OK(Directory(disk)->Begin({4, 1, 77}));  // a crash's, older than the newest
  ASSERT_OK(Directory(disk)->Begin({6, 1, 78}));  // being written
  ASSERT_OK(Directory(disk)->Prune(3));
  ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointName> left, Directory(disk)->List());
  ASSERT_THAT(left, SizeIs(3));
  EXPECT_EQ(left[0].step, 5u);
  EXPECT_EQ(left[2].step, 3u);
  EXPECT_FALSE(FileExists(disk, "checkpoints/" + CheckpointName{4, 1, 77}.ToString()));
  EXPECT_TRUE(FileExists(disk, "checkpoints/" + CheckpointName{6, 1, 78}.ToString()));
}

TEST(CheckpointDirectoryTest, VoidCheckpointsStayAwayAfterACrash) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  ASSERT_OK(Directory(disk)->DiscardAbove(1));
  disk.Crash();
  EXPECT_EQ(Directory(disk)->List()->size(), 1u);
}

TEST(CheckpointDirectoryTest, NothingIsPublishedWhileAVoidOneExists) {
  for (int failing : {0, 1}) {  // Removing the manifest, syncing the directory.
    FaultyFileSystem disk;
    for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
    const auto manifest =
        ReadManifest(disk, Directory(disk)->GetPath(TestName(Step(1)).ToString()));
    ASSERT_OK(manifest.status());
    const auto checkpoints = Directory(disk);
    disk.faults().FailFrom(disk.faults().num_changes() + failing,
                           absl::UnavailableError("no disk"));
    EXPECT_FALSE(checkpoints->DiscardAbove(1).ok());
    EXPECT_FALSE(checkpoints->Publish(TestName(Step(1)), *manifest).ok());
    EXPECT_FALSE(checkpoints->Prune(1).ok());
    disk.faults().StopFailing();
    EXPECT_OK(checkpoints->Prune(1));
    disk.Crash();
    const auto left = Directory(disk)->List();
    ASSERT_EQ(left->size(), 1u);
    EXPECT_EQ((*left)[0].step, 1u);
  }
}

TEST(CheckpointDirectoryTest, NothingIsPublishedWhileItIsNotKnownWhetherVoidOnesMayBeRemoved) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const auto manifest = ReadManifest(disk, Directory(disk)->GetPath(TestName(Step(1)).ToString()));
  ASSERT_OK(manifest.status());
  const auto checkpoints = Directory(disk);
  const absl::Status unknown = absl::InternalError("TERM: input/output error");
  EXPECT_EQ(checkpoints->DiscardAbove(1, [&] { return unknown; }), unknown);
  EXPECT_EQ(checkpoints->List()->size(), 2u);
  // Publish removes the void one first, and fails if it cannot.
  disk.faults().FailFrom(disk.faults().num_changes(), absl::UnavailableError("no disk"));
  EXPECT_FALSE(checkpoints->Publish(TestName(Step(1)), *manifest).ok());
  disk.faults().StopFailing();
  EXPECT_OK(checkpoints->Prune(5));
  EXPECT_EQ(checkpoints->List()->size(), 1u);
}

TEST(CheckpointDirectoryTest, AVoidOneThatSomebodyElseRemovedStopsNothing) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const auto checkpoints = Directory(disk);
  disk.faults().FailFrom(disk.faults().num_changes(), absl::UnavailableError("no disk"));
  EXPECT_FALSE(checkpoints->DiscardAbove(1).ok());
  disk.faults().StopFailing();
  ASSERT_OK(RemoveTree(disk, checkpoints->GetPath(TestName(Step(2)).ToString())));
  EXPECT_OK(checkpoints->Prune(1));
}

TEST(CheckpointDirectoryTest, CheckpointsThatSomebodyElseRemovedAreMissed) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const auto checkpoints = Directory(disk);
  std::vector<std::string> rejected;
  ASSERT_OK(RemoveTree(disk, checkpoints->GetPath(TestName(Step(2)).ToString())));
  EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 1u);
  ASSERT_OK(RemoveTree(disk, checkpoints->GetPath(TestName(Step(1)).ToString())));
  EXPECT_THAT(checkpoints->OpenLatestValid(kEverything, &rejected),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("checkpoints/LATEST: names ckpt-2-1-"),
                             EndsWith(", but no checkpoint is there any more"))));
  ASSERT_OK(disk.Remove("checkpoints/LATEST"));
  EXPECT_THAT(checkpoints->OpenLatestValid(kEverything, &rejected),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no checkpoint")));
}

TEST(CheckpointDirectoryTest, CheckpointsThatARollbackRemovesAreNotMissedAfterAnyPowerCut) {
  FaultyFileSystem disk;
  disk.StartJournal();
  for (uint64_t step : {1, 2}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  ASSERT_OK(Directory(disk)->DiscardAbove(0));
  const DiskJournal& journal = disk.journal();
  for (size_t at = 0; at <= journal.changes().size(); ++at) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
      FaultyFileSystem after(journal.After(at, PowerCut::kReordersAll, seed));
      std::vector<std::string> rejected;
      const auto newest = Directory(after)->OpenLatestValid(kEverything, &rejected);
      EXPECT_TRUE(newest.ok() || absl::IsNotFound(newest.status()))
          << newest.status() << " after change " << at;
    }
  }
}

TEST(CheckpointDirectoryTest, DamagedOnesDoNotCountAsKept) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  for (uint64_t step : {2, 3}) {
    ASSERT_OK(Overwrite(disk, PathOf(Step(step), "shard-00000-of-00002.crc32c"), "gone"));
  }
  ASSERT_OK(Directory(disk)->Prune(1));
  std::vector<std::string> rejected;
  EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 1u);
  EXPECT_THAT(rejected, SizeIs(2));
}

TEST(CheckpointDirectoryTest, AReadThatFailsNeverBringsBackAnOlderOne) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const auto directory = Directory(disk);
  std::vector<std::string> rejected;
  const int first = disk.faults().num_reads();
  ASSERT_OK(directory->OpenLatestValid(kEverything, &rejected));
  const int reads = disk.faults().num_reads() - first;
  ASSERT_GT(reads, 10);
  for (int read = 0; read < reads; ++read) {
    disk.faults().FailReadAt(disk.faults().num_reads() + read,
                             absl::UnavailableError("input/output error"));
    EXPECT_THAT(directory->OpenLatestValid(kEverything, &rejected),
                StatusIs(absl::StatusCode::kUnavailable))
        << "read " << read;
    disk.faults().StopFailing();
    EXPECT_EQ(OpenLatest(disk, &rejected)->manifest().step(), 3u);
    EXPECT_THAT(rejected, SizeIs(0));
  }
}

TEST(CheckpointDirectoryTest, ADirectoryThatCannotBeSeenNowIsNotTakenForAbsent) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run"));
  disk.faults().FailReadAt(disk.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_THAT(CheckpointDirectory::Open(disk, "run/checkpoints"),
              StatusIs(absl::StatusCode::kUnavailable));
  const auto directory = Directory(disk);
  const CheckpointName name = TestName(Step(1));
  ASSERT_OK(directory->Begin(name));
  EXPECT_THAT(directory->Begin(name), StatusIs(absl::StatusCode::kAlreadyExists));
  disk.faults().FailReadAt(disk.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_THAT(directory->Begin(name), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(CheckpointDirectoryTest, PruneRemovesNothingThatItCannotReadNow) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
  const auto directory = Directory(disk);
  const int first = disk.faults().num_reads();
  ASSERT_OK(directory->Prune(3));
  const int reads = disk.faults().num_reads() - first;
  for (int read = 0; read < reads; ++read) {
    disk.faults().FailReadAt(disk.faults().num_reads() + read,
                             absl::UnavailableError("input/output error"));
    directory->Prune(3).IgnoreError();  // The next one removes what is too old.
    disk.faults().StopFailing();
    EXPECT_THAT(directory->List(), IsOkAndHolds(SizeIs(3))) << "read " << read;
  }
}

TEST(CheckpointDirectoryTest, WithoutAValidCheckpointThereIsAnError) {
  FaultyFileSystem disk;
  std::vector<std::string> rejected;
  EXPECT_THAT(Directory(disk)->OpenLatestValid(kEverything, &rejected),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no checkpoint")));
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
  ASSERT_OK(Overwrite(disk, PathOf(Step(1), "MANIFEST"), "rubbish"));
  EXPECT_THAT(Directory(disk)->OpenLatestValid(kEverything, &rejected),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no valid checkpoint")));
}

TEST(CheckpointDirectoryTest, PublishRefusesShardsThatAreNotWhatWasReported) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(1)));
  ASSERT_OK_AND_ASSIGN(v1::Manifest manifest,
                       ReadManifest(disk, "checkpoints/" + TestName(Step(1)).ToString()));
  ASSERT_OK(disk.Remove(PathOf(Step(1), "MANIFEST")));
  v1::Manifest wrong = manifest;
  wrong.mutable_shards(0)->set_bytes(manifest.shards(0).bytes() + 1);
  EXPECT_THAT(Directory(disk)->Publish(TestName(Step(1)), wrong),
              StatusIs(absl::StatusCode::kDataLoss));
  wrong = manifest;
  wrong.mutable_shards()->RemoveLast();
  EXPECT_THAT(Directory(disk)->Publish(TestName(Step(1)), wrong),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("in none of the shards")));
  EXPECT_OK(Directory(disk)->Publish(TestName(Step(1)), manifest));
}

}  // namespace
}  // namespace shoal
