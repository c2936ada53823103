#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_DISK_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_DISK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "proto/v1/checkpoint.pb.h"
#include "runtime/variables/interval_set.h"

namespace shoal {

// Checkpoints that every ps sees. A shard is whole or absent, and named by a number that stands for
// its checksum: a manifest is good only while the very shards that it names are there.
class SimulatedDisk {
 public:
  struct Record {
    std::vector<float> value;
    std::vector<float> slots;
    uint64_t version = 0;
    uint64_t value_version = 0;
    std::vector<EpochBatches> applied;  // ASYNC
  };
  using Shard = std::map<uint32_t, Record>;  // by slice

  // The checksum of what was written.
  uint32_t WriteShard(const std::string& directory, uint32_t ps, Shard shard) {
    shards_[{directory, ps}] = {++writes_, std::move(shard)};
    return writes_;
  }
  void WriteManifest(const std::string& directory, const v1::Manifest& manifest) {
    manifests_[directory] = manifest;
  }

  // The checkpoint of the highest step; empty if there is none.
  std::string NewestDirectory() const {
    std::string newest;
    uint64_t step = 0;
    for (const auto& [directory, manifest] : manifests_) {
      if (manifest.step() < step) continue;
      newest = directory;
      step = manifest.step();
    }
    return newest;
  }

  const v1::Manifest* FindManifest(const std::string& directory) const {
    const auto it = manifests_.find(directory);
    return it == manifests_.end() ? nullptr : &it->second;
  }

  // One slice of a checkpoint, by whichever ps it was written.
  absl::Status Read(const std::string& directory, uint32_t slice, Record* record) const {
    const v1::Manifest* manifest = FindManifest(directory);
    if (manifest == nullptr) return absl::DataLossError("no manifest in " + directory);
    for (const v1::ShardFile& file : manifest->shards()) {
      const auto it = shards_.find({directory, static_cast<uint32_t>(std::stoul(file.name()))});
      if (it == shards_.end() || it->second.first != file.crc32c()) {
        return absl::DataLossError("shard " + file.name() + " of " + directory +
                                   " is not what the manifest names");
      }
      const auto found = it->second.second.find(slice);
      if (found == it->second.second.end()) continue;
      *record = found->second;
      return absl::OkStatus();
    }
    return absl::NotFoundError("slice " + std::to_string(slice) + " is not in " + directory);
  }

 private:
  uint32_t writes_ = 0;
  std::map<std::pair<std::string, uint32_t>, std::pair<uint32_t, Shard>> shards_;
  std::map<std::string, v1::Manifest> manifests_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_DISK_H_
