// Counts the bytes of the messages with which a worker of clicks_dlrm.textproto contributes to
// tables and pulls their rows: headers and payloads in both directions, over gRPC with 2 ps. The
// rows of a batch are those of synthetic clicks (26 columns, scale 0.01), each column in a table of
// 32 buckets and of dim 16. The figures are counts: they are the same on every machine. For each
// batch size it prints the different rows, the buckets that have some of them, the bytes, and how
// many times keys * 8 + rows * dim * 4 these are.
//
// usage: table_bytes_benchmark
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/log.h"
#include "ml/data/clicks_dataset.h"
#include "ml/data/dataset.h"
#include "ml/data/ragged_rows.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/counted_traffic_testing.h"
#include "ps/ps_cluster_testing.h"
#include "ps/table_test_worker.h"

namespace shoal {
namespace {

constexpr int64_t kDim = 16;
constexpr uint32_t kColumns = 26;
constexpr uint32_t kBucketsOfTable = 32;
constexpr uint32_t kBuckets = kColumns * kBucketsOfTable;

// Returns how many different keys the batch with the examples from `first` on has in each bucket of
// each table. The key of bucket b is that of a table with kBucketsOfTable buckets.
std::vector<uint32_t> CountKeys(const Dataset& dataset, const SliceTable& one, int64_t first,
                                int64_t batch) {
  std::vector<int64_t> indices(static_cast<size_t>(batch));
  std::iota(indices.begin(), indices.end(), first);
  std::vector<RaggedRows> columns;
  std::vector<std::vector<char>> dense;
  for (const FieldSpec& field : dataset.fields()) {
    columns.emplace_back();
    dense.emplace_back(field.is_ragged() ? 0 : indices.size() * field.example.bytes());
  }
  std::vector<void*> outputs;
  for (size_t f = 0; f < columns.size(); ++f) {
    const bool is_ragged = dataset.fields()[f].is_ragged();
    outputs.push_back(is_ragged ? static_cast<void*>(&columns[f]) : dense[f].data());
  }
  const absl::Status filled = dataset.FillBatch(0, indices, outputs);
  CHECK(filled.ok()) << filled;
  std::vector<uint32_t> counts;
  for (const RaggedRows& column : columns) {
    if (column.num_examples() == 0) continue;
    std::vector<int64_t> keys(column.keys().begin(), column.keys().end());
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<uint32_t> of_table(kBucketsOfTable);
    for (const int64_t key : keys) ++of_table[one.BucketOf(0, static_cast<uint64_t>(key))];
    counts.insert(counts.end(), of_table.begin(), of_table.end());
  }
  CHECK_EQ(counts.size(), kBuckets);
  return counts;
}

// Returns keys of which each bucket of `table` has as many as `counts` says.
std::vector<uint64_t> ChooseKeys(const SliceTable& table, std::vector<uint32_t> counts) {
  uint64_t left = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; left > 0; ++key) {
    uint32_t& count = counts[table.BucketOf(0, key)];
    if (count == 0) continue;
    --count;
    --left;
    keys.push_back(key);
  }
  return keys;
}

void Measure(const Dataset& dataset, int64_t batch) {
  // Tables that exchange the same buckets in the same messages as one table with all their buckets.
  const TestTable one(kDim, kBucketsOfTable);
  const TestTable all(kDim, kBuckets);
  PsTestCluster cluster(PsForm::kGrpc);
  CHECK(cluster
            .Load(1, /*synchronous=*/true,
                  [&all](v1::LoadSlicesRequest* request) { all.ReplaceVariables(request); })
            .ok());
  Traffic traffic;
  TableTestWorker worker(&cluster, &all, 0, [&traffic](std::unique_ptr<BulkChannel> channel) {
    return std::make_unique<CountingChannel>(std::move(channel), &traffic);
  });
  const std::vector<uint32_t> counts = CountKeys(dataset, one.slices, 0, batch);
  const std::vector<uint64_t> now = ChooseKeys(all.slices, counts);
  const std::vector<uint64_t> next =
      ChooseKeys(all.slices, CountKeys(dataset, one.slices, batch, batch));
  TableTestWorker::Gradients gradients;
  for (const uint64_t key : now) gradients.emplace_back(key, 1.0f);
  const auto least = [](size_t rows) { return rows * (sizeof(uint64_t) + kDim * sizeof(float)); };
  const auto used = std::count_if(counts.begin(), counts.end(), [](uint32_t c) { return c > 0; });
  const auto print = [&](const char* what, uint64_t touched) {
    std::printf("%6ld %6zu %5ld  %-40s %9lu %9lu %7.3f %6lu\n", batch, now.size(), used, what,
                traffic.bytes.load(), touched,
                static_cast<double>(traffic.bytes) / static_cast<double>(touched),
                traffic.calls.load());
    traffic.bytes = 0;
    traffic.calls = 0;
  };
  // The first call of a connection is like all others, but a version of 0 takes no bytes.
  CHECK(worker.Run({&gradients, 0, 0}, {}).ok());
  CHECK(worker.Run({&gradients, 0, 1}, {}).ok());
  traffic.bytes = 0;
  traffic.calls = 0;
  CHECK(worker.Run({&gradients, 1, 0}, {}).ok());
  print("contribution", least(now.size()));
  CHECK(worker.Run({&gradients, 1, 1}, {&next, 2}).ok());
  print("contribution, and pull of the next batch", least(now.size()) + least(next.size()));
  CHECK(worker.Run({}, {&now, 2}).ok());
  print("pull", least(now.size()));
}

int Main() {
  ClicksOptions options;
  options.examples = 1 << 20;
  options.scale = 0.01;
  const std::unique_ptr<Dataset> dataset = MakeClicks(options).value();
  std::printf("%6s %6s %5s  %-40s %9s %9s %7s %6s\n", "batch", "rows", "used", "", "bytes",
              "touched", "ratio", "calls");
  for (const int64_t batch : {128, 1024, 2048}) Measure(*dataset, batch);
  return 0;
}

}  // namespace
}  // namespace shoal

int main() { return shoal::Main(); }
