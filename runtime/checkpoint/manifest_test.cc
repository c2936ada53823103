#include "runtime/checkpoint/manifest.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

v1::Manifest SmallManifest() {
  v1::Manifest manifest;
  manifest.set_format_version(kCheckpointFormatVersion);
  manifest.set_min_reader_version(1);
  manifest.set_run_id("run");
  manifest.set_step(120);
  manifest.add_shards()->set_name("shard-0.safetensors");
  manifest.mutable_shards(0)->set_sidecar("shard-0.crc32c");
  return manifest;
}

TEST(ManifestTest, IsWrittenOnceAndReadBack) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("c"));
  ASSERT_OK(WriteManifest(disk, "c", SmallManifest()));
  ASSERT_OK_AND_ASSIGN(const v1::Manifest manifest, ReadManifest(disk, "c"));
  EXPECT_EQ(manifest.step(), 120u);
  v1::Manifest other = SmallManifest();
  other.set_step(121);
  EXPECT_THAT(WriteManifest(disk, "c", other), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_OK(WriteManifest(disk, "c", SmallManifest()));  // An attempt after one that failed.
  ASSERT_OK_AND_ASSIGN(const v1::Manifest kept, ReadManifest(disk, "c"));
  EXPECT_EQ(kept.step(), 120u);
  EXPECT_THAT(ReadManifest(disk, "."), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ManifestTest, EveryTruncationAndFlippedBitIsSeen) {
  const std::string bytes = EncodeManifest(SmallManifest());
  EXPECT_OK(DecodeManifest(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeManifest(bytes.substr(0, size)).ok()) << size;
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeManifest(damaged).ok()) << bit;
  }
}

TEST(ManifestTest, ANewerFormatIsRefusedWithARemedy) {
  v1::Manifest manifest = SmallManifest();
  manifest.set_min_reader_version(99);
  EXPECT_THAT(DecodeManifest(EncodeManifest(manifest)),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("use the newer program")));
}

TEST(ManifestTest, NamesThatLeaveTheDirectoryAreRefused) {
  for (const char* name : {"", "../secret", "/etc/passwd", "..", ".hidden", "a/b", "MANIFEST"}) {
    v1::Manifest manifest = SmallManifest();
    manifest.mutable_shards(0)->set_name(name);
    EXPECT_THAT(DecodeManifest(EncodeManifest(manifest)), StatusIs(absl::StatusCode::kDataLoss))
        << name;
  }
}

}  // namespace
}  // namespace shoal
