// A whole cluster writes its checkpoints to a disk that keeps a journal. After a power cut at any
// moment, whatever it leaves on the disk, the newest checkpoint that was reported as durable, or a
// newer one, is found undamaged.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/disk_journal.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/random.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/config/run_config.h"
#include "tests/cluster/trained_run.h"

namespace shoal {
namespace {

using ::testing::IsEmpty;

constexpr int kStates = 10000;

constexpr char kRun[] = R"pb(
  name: "crash_states"
  model {
    layer { dense { units: 6 } }
    layer { dense { units: 3 } }
  }
  data {
    format: FORMAT_SYNTHETIC_CLASSIFICATION
    features: 5
    classes: 3
    train_examples: 64
    test_examples: 8
  }
  optimizer {
    learning_rate: 0.01
    adam {}
  }
  sync { replicas_to_aggregate: 2 }
  cluster { slice_bytes: 64 }
  checkpoint { save_every: 2 keep: 2 }
  summary { scalars_every: 0 }
  batch_size: 4
  num_epochs: 100
)pb";

class CrashStatesTest : public ::testing::Test {
 protected:
  CrashStatesTest() {
    run_ = *ParseRunConfig(kRun, "test");
    run_.set_out(absl::StrCat(::testing::TempDir(), "/crash_states"));
    ResolveDefaults(TaskCounts(), &run_);
    root_ = run_.out() + "/checkpoints";
    // The locks are on the disk of this machine.
    EXPECT_OK(NewPosixFileSystem()->MakeDirectory(run_.out()));
  }

  absl::Status Train(FileSystem* disk, uint64_t max_steps) {
    v1::RunConfig run = run_;
    run.set_max_steps(max_steps);
    return TrainInProcess(run, 2, 2, disk);
  }

  // Everything that a checkpoint says.
  static std::string ContentsOf(Checkpoint* checkpoint) {
    std::string contents = checkpoint->manifest().SerializeAsString();
    for (uint32_t slice = 0; slice < checkpoint->slices().size(); ++slice) {
      std::vector<float> values(checkpoint->slices()[slice].num_elements);
      for (const char* slot : {"", "m", "v"}) {
        if (!checkpoint->HasSlot(slice, slot)) continue;
        EXPECT_OK(checkpoint->Read(slice, slot, 0, absl::MakeSpan(values)));
        contents.append(reinterpret_cast<const char*>(values.data()),
                        values.size() * sizeof(float));
      }
    }
    return contents;
  }

  std::unique_ptr<CheckpointDirectory> Open(FileSystem* disk) {
    return *CheckpointDirectory::Open(*disk, root_);
  }

  // The checkpoints that the run called durable, by the number of changes before it did: the chief
  // writes LATEST then.
  std::map<size_t, CheckpointName> Claims(const DiskJournal& journal) {
    std::map<size_t, CheckpointName> claims;
    for (size_t i = 0; i < journal.changes().size(); ++i) {
      const DiskJournal::Change& change = journal.changes()[i];
      CheckpointName name;
      if (change.kind != DiskJournal::kWrite ||
          !CheckpointName::Parse(absl::StripSuffix(change.bytes, "\n"), &name)) {
        continue;
      }
      claims[i] = name;
      FaultyFileSystem disk(journal.After(i, PowerCut::kKeepsAll, 0));
      const auto checkpoint = Checkpoint::Open(disk, Open(&disk)->GetPath(name.ToString()),
                                               Checkpoint::Verify::kEverything);
      EXPECT_OK(checkpoint.status());
      if (!checkpoint.ok()) continue;
      contents_[name] = ContentsOf(checkpoint->get());
      EXPECT_OK(ExportModel(disk, **checkpoint, (*checkpoint)->directory(), "reference"));
      exports_[name] = *ReadFile(disk, JoinPath((*checkpoint)->directory(), "reference"));
    }
    return claims;
  }

  void Check(FileSystem* disk, const CheckpointName* durable) {
    std::vector<std::string> rejected;
    const auto checkpoints = Open(disk);
    const auto newest = checkpoints->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected);
    EXPECT_THAT(rejected, IsEmpty()) << "what has a manifest is whole";
    if (durable == nullptr && !newest.ok()) {
      EXPECT_EQ(newest.status().code(), absl::StatusCode::kNotFound) << newest.status();
    } else {
      ASSERT_OK(newest.status());
      CheckpointName name;
      const std::string& path = (*newest)->directory();
      ASSERT_TRUE(CheckpointName::Parse(path.substr(path.rfind('/') + 1), &name));
      if (durable != nullptr) {
        EXPECT_FALSE(name < *durable) << name.ToString() << " for " << durable->ToString();
      }
      ASSERT_EQ(contents_.count(name), 1u) << name.ToString() << " was never made";
      EXPECT_TRUE(ContentsOf(newest->get()) == contents_[name]) << name.ToString();
    }
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointName> names, checkpoints->List());
    for (const CheckpointName& name : names) {
      const auto exported =
          ReadFile(*disk, JoinPath(checkpoints->GetPath(name.ToString()), kModelExportFile));
      if (exported.ok()) {
        EXPECT_TRUE(*exported == exports_[name]) << name.ToString();
        ++exports_seen_;
      }
    }
    uint64_t term = 0;
    const auto text = ReadFile(*disk, run_.out() + "/TERM");
    EXPECT_TRUE(durable == nullptr
                    ? !text.ok() || absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &term)
                    : text.ok() && absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &term));
    if (durable != nullptr) {
      EXPECT_GE(term, durable->term);
      EXPECT_OK(ReadFile(*disk, root_ + "/TOKEN").status());
      const auto run_id = ReadFile(*disk, run_.out() + "/RUN_ID");
      ASSERT_OK(run_id.status());
      EXPECT_GT(run_id->size(), 1u);
    }
    const auto run = ReadFile(*disk, run_.out() + "/run.textproto");
    if (run.ok()) {
      EXPECT_OK(ParseRunConfig(*run, "run.textproto").status());
    }
  }

  v1::RunConfig run_;
  std::string root_;
  // The content of every checkpoint that was durable.
  std::map<CheckpointName, std::string> contents_;
  std::map<CheckpointName, std::string> exports_;  // The same for its model.safetensors.
  int exports_seen_ = 0;
};

TEST_F(CrashStatesTest, ADurableCheckpointIsFoundAfterAnyPowerCut) {
  FaultyFileSystem disk;
  disk.StartJournal();
  // The directories above the run's have been there for long.
  const std::string above = ParentDirectory(run_.out());
  ASSERT_OK(disk.MakeDirectory(above));
  for (std::string path = above; path.size() > 1; path = ParentDirectory(path)) {
    ASSERT_OK(disk.SyncDirectory(ParentDirectory(path)));
  }
  ASSERT_OK(Train(&disk, 12));
  ASSERT_OK(Train(&disk, 24));  // Another term.
  const DiskJournal& journal = disk.journal();
  const std::map<size_t, CheckpointName> claims = Claims(journal);
  ASSERT_GE(claims.size(), 4u);
  const size_t num_changes = journal.changes().size();
  std::set<CheckpointName> found;
  for (int state = 0; state < kStates; ++state) {
    const size_t at = RandomBelow(1, static_cast<uint64_t>(state), num_changes + 1);
    constexpr PowerCut kCuts[] = {PowerCut::kLosesAll, PowerCut::kTearsLast, PowerCut::kReordersAll,
                                  PowerCut::kReordersAll};
    FaultyFileSystem after(journal.After(at, kCuts[state % 4], static_cast<uint64_t>(state)));
    const auto next = claims.upper_bound(at);
    const CheckpointName* const durable =
        next == claims.begin() ? nullptr : &std::prev(next)->second;
    Check(&after, durable);
    if (HasFailure()) {
      FAIL() << "state " << state << ", after change " << at << " of " << num_changes;
    }
    if (durable != nullptr) found.insert(*durable);
  }
  EXPECT_GE(found.size(), claims.size() / 2) << "most moments were looked at";
  EXPECT_GT(exports_seen_, 0);
  // A run resumes from the remaining files.
  for (int state = 0; state < 4; ++state) {
    const size_t at =
        num_changes / 2 + RandomBelow(2, static_cast<uint64_t>(state), num_changes / 2);
    FaultyFileSystem after(journal.After(at, PowerCut::kReordersAll, static_cast<uint64_t>(state)));
    ASSERT_OK(Train(&after, 26)) << at;
    std::vector<std::string> rejected;
    const auto checkpoints = Open(&after);
    const auto newest = checkpoints->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected);
    ASSERT_OK(newest.status());
    EXPECT_EQ((*newest)->manifest().step(), 26u);
    EXPECT_TRUE(FileExists(after, JoinPath((*newest)->directory(), kModelExportFile)));
  }
}

}  // namespace
}  // namespace shoal
