#include "runtime/checkpoint/model_export.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/checkpoint/saved_steps_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ModelExportTest, HasWholeVariablesInTheirShapes) {
  FaultyFileSystem disk;
  SaveOptions options = Step(3);
  options.with_table = true;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
  std::vector<std::string> rejected;
  const auto checkpoint = OpenLatest(disk, &rejected);
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_OK(ExportModel(disk, *checkpoint, checkpoint->directory()));
  }
  const std::string path = PathOf(Step(3), kModelExportFile);
  ASSERT_OK_AND_ASSIGN(const auto file, disk.OpenForRead(path));
  uint64_t begin = 0;
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, ReadSafetensorsHeader(*file, path, &begin));
  ASSERT_THAT(header.tensors, SizeIs(3));
  EXPECT_EQ(header.metadata.at("tables_left_out"), "item");
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(11, 7));
  EXPECT_THAT(header.tensors[2].shape, IsEmpty());
  for (uint32_t v = 0; v < 3; ++v) {
    std::vector<float> values((header.tensors[v].end - header.tensors[v].begin) / sizeof(float));
    ASSERT_OK(file->Read(begin + header.tensors[v].begin,
                         {reinterpret_cast<char*>(values.data()), values.size() * sizeof(float)}));
    for (uint64_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], TestValue(v, i, "", 3));
  }
}

TEST(ModelExportTest, PartsWrittenByPsGiveTheSameBytes) {
  FaultyFileSystem disk;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(3)));
  std::vector<std::string> rejected;
  const auto checkpoint = OpenLatest(disk, &rejected);
  const std::string& directory = checkpoint->directory();
  ASSERT_OK(ExportModel(disk, *checkpoint, directory, "whole"));
  const ModelExportLayout layout(checkpoint->manifest());
  const SliceTable& table = checkpoint->slices();
  std::vector<std::vector<float>> values(table.size());
  std::vector<ExportedSlice> parts[2];
  for (uint32_t slice = 0; slice < table.size(); ++slice) {
    values[slice].resize(table[slice].num_elements);
    ASSERT_OK(checkpoint->Read(slice, "", 0, absl::MakeSpan(values[slice])));
    parts[slice % 2].push_back(
        {layout.OffsetOf(table[slice].variable, table[slice].first_element), values[slice]});
  }
  const auto go_on = [] { return false; };
  ASSERT_OK(WriteExportPart(disk, directory, parts[0], go_on));
  EXPECT_THAT(FinishExport(disk, directory, layout), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(WriteExportPart(disk, directory, parts[1], [] { return true; }),
              StatusIs(absl::StatusCode::kCancelled));
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_OK(WriteExportPart(disk, directory, parts[1], go_on));
  }
  ASSERT_OK(FinishExport(disk, directory, layout));
  disk.Crash();
  EXPECT_EQ(ReadFile(disk, PathOf(Step(3), kModelExportFile)).value(),
            ReadFile(disk, PathOf(Step(3), "whole")).value());
  EXPECT_FALSE(FileExists(disk, PathOf(Step(3), kPartialExportFile)));
}

TEST(ModelExportTest, AnExportStaysUntilANewerOneIsThere) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) {
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    if (step == 1) {
      ASSERT_OK(ExportModel(disk, *checkpoint, checkpoint->directory()));
    }
    if (step == 2) {
      ASSERT_OK(WriteExportPart(disk, checkpoint->directory(), {}, [] { return false; }));
    }
    ASSERT_OK(Directory(disk)->Prune(3));
    EXPECT_TRUE(FileExists(disk, PathOf(Step(1), kModelExportFile))) << step;
    if (step < 3) continue;
    ASSERT_OK(ExportModel(disk, *checkpoint, checkpoint->directory()));
  }
  ASSERT_OK(Directory(disk)->RemoveOldExports());
  EXPECT_FALSE(FileExists(disk, PathOf(Step(1), kModelExportFile)));
  EXPECT_FALSE(FileExists(disk, PathOf(Step(2), kPartialExportFile)));
  EXPECT_TRUE(FileExists(disk, PathOf(Step(3), kModelExportFile)));
}

TEST(ModelExportTest, OnlyTheNewestCheckpointKeepsItsExport) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2}) {
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    ASSERT_OK(ExportModel(disk, *checkpoint, checkpoint->directory()));
  }
  ASSERT_OK(Directory(disk)->Prune(3));
  EXPECT_FALSE(FileExists(disk, PathOf(Step(1), kModelExportFile)));
  EXPECT_TRUE(FileExists(disk, PathOf(Step(2), kModelExportFile)));
}

// A checkpoint without MANIFEST keeps its shards for newer ones, or is void.
TEST(ModelExportTest, ExportsOfDirectoriesWithoutManifestAreRemovedAndDoNotCount) {
  FaultyFileSystem disk;
  for (uint64_t step : {1, 2, 3}) {
    ASSERT_OK(SaveTestRun(disk, "checkpoints", Step(step)));
    std::vector<std::string> rejected;
    const auto checkpoint = OpenLatest(disk, &rejected);
    ASSERT_OK(ExportModel(disk, *checkpoint, checkpoint->directory()));
  }
  for (uint64_t step : {1, 3}) ASSERT_OK(disk.Remove(PathOf(Step(step), "MANIFEST")));
  ASSERT_OK(Directory(disk)->RemoveOldExports());
  EXPECT_FALSE(FileExists(disk, PathOf(Step(1), kModelExportFile)));
  EXPECT_TRUE(FileExists(disk, PathOf(Step(2), kModelExportFile)));
}

}  // namespace
}  // namespace shoal
