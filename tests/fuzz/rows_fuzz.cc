// Payloads of rows, as a worker sends them to a bucket of a table, at any address: what is accepted
// has rising keys, and adding and applying it leaves a bucket whose rows can be saved and loaded.
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/fold.h"
#include "runtime/variables/row_payload.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

constexpr uint32_t kDim = 3;
constexpr uint64_t kVersion = 5;

std::unique_ptr<TableUpdater> MakeUpdater() {
  TableOptions options;
  options.name = "item";
  options.dim = kDim;
  options.optimizer.kind = OptimizerKind::kAdagrad;
  options.initializer = UniformInitializer(-0.05, 0.05);
  options.min_count = 2;
  options.idle_updates = 3;
  auto updater = TableUpdater::Create(options, /*seed=*/1);
  CheckFuzzed(updater.ok());
  return *std::move(updater);
}

// Two contributions to each of several steps, both with these rows, as the receiver adds them.
void TryPayload(const TableUpdater& updater, absl::string_view input, size_t misaligned) {
  std::vector<uint64_t> memory(input.size() / sizeof(uint64_t) + 2);
  char* const data = reinterpret_cast<char*>(memory.data()) + misaligned;
  std::memcpy(data, input.data(), input.size());
  Payload payload;
  payload.kind = ContributionKind::kRows;
  payload.data = data;
  payload.bytes = input.size();
  RowScratch scratch;
  const std::optional<RowGradients> rows = DecodeRows(payload, kDim, &scratch);
  if (!rows.has_value()) return;
  CheckFuzzed(RowPayloadBytes(rows->keys.size(), kDim) == input.size());
  for (size_t i = 1; i < rows->keys.size(); ++i) {
    CheckFuzzed(rows->keys[i - 1] < rows->keys[i]);
  }
  if (!RowsAreFinite(*rows, kDim)) return;
  TableCounts counts;
  BucketScratch bucket_scratch(updater);
  Bucket bucket(&updater, std::make_shared<SlabPool>(updater.row_floats()), &counts,
                &bucket_scratch);
  std::vector<float> values(rows->keys.size() * kDim);
  uint64_t version = 0;
  for (; version < kVersion; ++version) {
    if (version != 3) {
      bucket.Add(payload, 1, /*is_first=*/true);
      bucket.Add(payload, 2, /*is_first=*/false);
    }
    if (!bucket.Apply({version, version, 0.1f, 1.0f / 3})) return;
    bucket.Read(version, /*is_previous=*/true, rows->keys, values.data());
    bucket.Read(version + 1, /*is_previous=*/false, rows->keys, values.data());
  }
  const BucketRows saved = bucket.Cut(version)->ReadAll();
  CheckFuzzed(CheckBucketRows(saved, version, updater.row_floats()).ok());
  TableCounts counts_of_other;
  Bucket other(&updater, std::make_shared<SlabPool>(updater.row_floats()), &counts_of_other,
               &bucket_scratch);
  CheckFuzzed(other.Load(version, saved).ok());
  std::vector<float> loaded(values.size());
  other.Read(version, /*is_previous=*/false, rows->keys, loaded.data());
  CheckFuzzed(values.empty() ||
              std::memcmp(loaded.data(), values.data(), values.size() * sizeof(float)) == 0);
}

// A bucket of a checkpoint with any keys, versions and numbers: it is refused, or loaded and saved
// again.
void TryBucket(const TableUpdater& updater, absl::string_view input) {
  BucketRows rows;
  const auto take = [&input](auto* numbers, size_t count) {
    numbers->resize(count);
    const size_t bytes = count * sizeof((*numbers)[0]);
    if (input.size() < bytes) return false;
    if (bytes > 0) std::memcpy(numbers->data(), input.data(), bytes);
    input.remove_prefix(bytes);
    return true;
  };
  const auto num_keys = static_cast<size_t>(TakeChoice(&input, 16));
  const auto num_counted = static_cast<size_t>(TakeChoice(&input, 16));
  if (!take(&rows.keys, num_keys) || !take(&rows.touched, num_keys) ||
      !take(&rows.counted_keys, num_counted) || !take(&rows.counts, num_counted) ||
      !take(&rows.counted_touched, num_counted) ||
      !take(&rows.rows, input.size() / sizeof(float))) {
    return;
  }
  TableCounts counts;
  BucketScratch bucket_scratch(updater);
  Bucket bucket(&updater, std::make_shared<SlabPool>(updater.row_floats()), &counts,
                &bucket_scratch);
  const absl::Status loaded = bucket.Load(kVersion, rows);
  CheckFuzzed(loaded.ok() == CheckBucketRows(rows, kVersion, updater.row_floats()).ok());
  if (!loaded.ok()) return;
  const BucketRows saved = bucket.Cut(kVersion)->ReadAll();
  CheckFuzzed(CheckBucketRows(saved, kVersion, updater.row_floats()).ok());
  CheckFuzzed(saved.keys.size() <= rows.keys.size());
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const shoal::TableUpdater* const updater = shoal::MakeUpdater().release();
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  const int how = shoal::TakeChoice(&input, 9);
  if (how == 8) {
    shoal::TryBucket(*updater, input);
  } else {
    shoal::TryPayload(*updater, input, static_cast<size_t>(how));
  }
  return 0;
}
