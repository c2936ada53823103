// Reads checkpoints of tables that older programs have written.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/crc32c.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/block_checksums.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_testing.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {
namespace {

absl::Status Overwrite(FileSystem& disk, const std::string& path, const std::string& bytes) {
  RETURN_IF_ERROR(disk.Remove(path));
  ASSIGN_OR_RETURN(const auto file, disk.Create(path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Close();
}

// Writes the shard again without some tensors.
absl::Status Without(const std::string& part, FileSystem& disk, const std::string& directory,
                     v1::ShardFile* shard) {
  const std::string path = JoinPath(directory, shard->name());
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(disk, path));
  uint64_t data_begin = 0;
  ASSIGN_OR_RETURN(const auto file, disk.OpenForRead(path));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ReadSafetensorsHeader(*file, path, &data_begin));
  std::string data;
  std::vector<SafetensorsEntry> kept;
  for (SafetensorsEntry& tensor : header.tensors) {
    if (absl::EndsWith(tensor.name, "|" + part)) continue;
    const std::string content = bytes.substr(data_begin + tensor.begin, tensor.end - tensor.begin);
    tensor.begin = data.size();
    data += content;
    tensor.end = data.size();
    kept.push_back(tensor);
  }
  header.tensors = kept;
  const std::string without = EncodeSafetensorsHeader(header) + data;
  BlockChecksums checksums;
  checksums.Append(without);
  const std::string sidecar = checksums.Encode();
  shard->set_bytes(without.size());
  shard->set_sidecar_crc32c(Crc32c(sidecar));
  RETURN_IF_ERROR(Overwrite(disk, path, without));
  return Overwrite(disk, JoinPath(directory, shard->sidecar()), sidecar);
}

TEST(TableFormatTest, CountsOfFormat3AreTouchedAtTheCheckpoint) {
  FaultyFileSystem disk;
  SaveOptions options;
  options.step = 7;
  options.num_ps = 1;
  options.with_table = true;
  ASSERT_OK(SaveTestRun(disk, "checkpoints", options));
  const std::string directory = "checkpoints/" + TestName(options).ToString();
  ASSERT_OK_AND_ASSIGN(v1::Manifest manifest, ReadManifest(disk, directory));
  EXPECT_EQ(manifest.format_version(), 5u);
  ASSERT_OK(Without(kBucketCountedTouched, disk, directory, manifest.mutable_shards(0)));
  const auto open = [&](uint32_t version) {
    manifest.set_format_version(version);
    EXPECT_OK(Overwrite(disk, JoinPath(directory, kManifestFile), EncodeManifest(manifest)));
    return Checkpoint::Open(disk, directory, Checkpoint::Verify::kEverything);
  };
  EXPECT_THAT(open(4), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, open(3));
  const SliceTable& slices = checkpoint->slices();
  const uint32_t table = slices.num_variables() - 1;
  int counted = 0;
  for (uint32_t slice = slices.first_slice_of(table); slice < slices.size(); ++slice) {
    ASSERT_OK_AND_ASSIGN(const BucketRows rows, checkpoint->ReadBucket(slice, {}));
    for (size_t i = 0; i < rows.counted_keys.size(); ++i, ++counted) {
      EXPECT_EQ(rows.counts[i], 1u);
      EXPECT_EQ(rows.counted_touched[i], 7u);
    }
  }
  EXPECT_EQ(counted, 1);
}

}  // namespace
}  // namespace shoal
