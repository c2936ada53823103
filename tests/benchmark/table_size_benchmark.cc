// Measures how the time for the rows of a batch depends on the number of rows that a table has. A
// batch has 2,048 examples with 26 ids each, of Zipf's law over all keys; its different keys are
// read, their gradients are added, and they are updated, bucket by bucket on one core. Every round
// measures all sizes in turn; the program prints medians of CPU time.
//
// usage: table_size_benchmark [--rows=100000000] [--dim=4] [--rounds=5] [--milliseconds=1000]
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "ml/optim/optimizer_options.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/row_payload.h"
#include "tests/benchmark/table_bench.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 256;
constexpr size_t kExamples = 2048;
constexpr size_t kIds = 26;
constexpr size_t kBatches = 32;

class Table {
 public:
  Table(uint64_t num_rows, uint32_t dim) : num_rows_(num_rows), slices_(MakeSlices(dim)) {
    TableOptions options;
    options.name = "item";
    options.dim = dim;
    options.rowwise = true;
    options.optimizer.kind = OptimizerKind::kAdagrad;
    updater_ = TableUpdater::Create(options, 1).value();
    pool_ = std::make_shared<SlabPool>(updater_->row_floats());
    scratch_ = std::make_unique<BucketScratch>(*updater_);
    std::vector<std::vector<uint64_t>> keys = ByBucket([&](auto add) {
      for (uint64_t rank = 0; rank < num_rows; ++rank) add(MixBits(rank));
    });
    for (std::vector<uint64_t>& of_bucket : keys) {
      BucketRows rows;
      rows.keys.swap(of_bucket);
      rows.touched.assign(rows.keys.size(), 0);
      rows.rows.assign(rows.keys.size() * updater_->row_floats(), 0.5f);
      buckets_.push_back(std::make_unique<Bucket>(updater_.get(), pool_, &counts_, scratch_.get()));
      CHECK_OK(buckets_.back()->Load(0, rows));
    }
    uint64_t drawn = 0;
    for (size_t b = 0; b < kBatches; ++b) {
      batches_.push_back(ByBucket([&](auto add) {
        for (size_t i = 0; i < kExamples * kIds; ++i) {
          add(MixBits(ZipfRank(RandomBits(3, ++drawn), num_rows_)));
        }
      }));
    }
    gradients_.assign(kExamples * kIds * dim, 1e-3f);
    values_.resize(kExamples * kIds * dim);
  }

  void Measure(absl::Duration duration) {
    const absl::Time end = absl::Now() + duration;
    int64_t nanos = 0;
    uint64_t examples = 0, rows = 0;
    while (absl::Now() < end) {
      const std::vector<std::vector<uint64_t>>& batch = batches_[version_ % kBatches];
      payloads_.resize(kBuckets);
      for (uint32_t b = 0; b < kBuckets; ++b) {
        payloads_[b].resize(RowPayloadBytes(batch[b].size(), updater_->dim()));
        EncodeRows({batch[b], gradients_.data()}, updater_->dim(), payloads_[b].data());
        rows += batch[b].size();
      }
      const int64_t begin = CpuNanos();
      for (uint32_t b = 0; b < kBuckets; ++b) {
        if (b + 1 < kBuckets) buckets_[b + 1]->Prefetch(batch[b + 1]);
        buckets_[b]->Read(version_, false, batch[b], values_.data());
      }
      for (uint32_t b = 0; b < kBuckets; ++b) {
        buckets_[b]->Add({ContributionKind::kRows, payloads_[b].data(), payloads_[b].size()}, 1,
                         true);
        CHECK(buckets_[b]->Apply({version_, version_, 1e-3f, 1}));
      }
      nanos += CpuNanos() - begin;
      ++version_;
      examples += kExamples;
    }
    micros_.push_back(static_cast<double>(nanos) / 1e3 / static_cast<double>(examples));
    rows_.push_back(static_cast<double>(rows) / static_cast<double>(examples) * kExamples);
  }

  void Print() {
    const double micros = Median(&micros_), rows = Median(&rows_);
    const auto bytes = static_cast<double>(pool_->bytes() + counts_.bytes());
    std::printf("%12lu %14.0f %14.2f %14.1f %14.0f\n", num_rows_, rows, micros,
                rows / kExamples / micros, bytes / 1e6);
  }

 private:
  static SliceTable MakeSlices(uint32_t dim) {
    v1::VariableSpec spec;
    spec.set_name("item");
    spec.add_shape(dim);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    spec.mutable_table()->set_buckets(kBuckets);
    return SliceTable::Create({&spec, 1}, 1 << 20).value();
  }

  // Returns the different keys that `make` adds, sorted, by bucket.
  template <typename Make>
  std::vector<std::vector<uint64_t>> ByBucket(Make make) const {
    std::vector<std::vector<uint64_t>> keys(kBuckets);
    make([&](uint64_t key) { keys[slices_.BucketOf(0, key)].push_back(key); });
    for (std::vector<uint64_t>& of_bucket : keys) {
      std::sort(of_bucket.begin(), of_bucket.end());
      of_bucket.erase(std::unique(of_bucket.begin(), of_bucket.end()), of_bucket.end());
    }
    return keys;
  }

  const uint64_t num_rows_;
  const SliceTable slices_;
  std::unique_ptr<TableUpdater> updater_;
  std::shared_ptr<SlabPool> pool_;
  TableCounts counts_;
  std::unique_ptr<BucketScratch> scratch_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<std::vector<std::vector<uint64_t>>> batches_;  // keys by batch and bucket
  std::vector<float> gradients_, values_;
  std::vector<std::vector<char>> payloads_;
  uint64_t version_ = 0;
  std::vector<double> micros_, rows_;
};

int Main(int argc, char** argv) {
  uint64_t most_rows = 100'000'000;
  uint32_t dim = 4;
  int rounds = 5, milliseconds = 1000;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    const bool is_known =
        (absl::ConsumePrefix(&flag, "--rows=") && absl::SimpleAtoi(flag, &most_rows)) ||
        (absl::ConsumePrefix(&flag, "--dim=") && absl::SimpleAtoi(flag, &dim)) ||
        (absl::ConsumePrefix(&flag, "--rounds=") && absl::SimpleAtoi(flag, &rounds)) ||
        (absl::ConsumePrefix(&flag, "--milliseconds=") && absl::SimpleAtoi(flag, &milliseconds));
    if (is_known) continue;
    std::fprintf(stderr, "table_size_benchmark: %s is not a flag\n", argv[i]);
    return 64;
  }
  std::vector<std::unique_ptr<Table>> tables;
  for (uint64_t rows = 100'000; rows <= most_rows; rows *= 10) {
    tables.push_back(std::make_unique<Table>(rows, dim));
  }
  for (int round = 0; round < std::max(rounds, 1); ++round) {
    for (const auto& table : tables) table->Measure(absl::Milliseconds(milliseconds));
  }
  std::printf("%12s %14s %14s %14s %14s\n", "rows", "rows a batch", "us an example", "M rows/s",
              "MB");
  for (const auto& table : tables) table->Print();
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
