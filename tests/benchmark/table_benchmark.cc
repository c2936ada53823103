// Measures one bucket of a table on one core, without messages: reading the rows of a batch, adding
// its gradients to the sums of the step, and updating the rows with an undo list. Keys are drawn
// with Zipf's law, and repeated keys of a batch are one row, as workers send them. Every round
// measures all tables in turn; the program prints medians in millions of rows per second.
//
// usage: table_benchmark [--rounds=5] [--milliseconds=300]
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "ml/data/prefetcher.h"
#include "ml/data/ragged_rows.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/row_index.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "tests/benchmark/table_bench.h"
#include "worker/replica/batch_keys.h"

namespace shoal {
namespace {

constexpr size_t kBatchKeys = 4096;
constexpr size_t kBatches = 64;

class Table {
 public:
  Table(std::string name, const TableOptions& options, uint64_t num_keys, bool is_zipf)
      : name_(std::move(name)),
        updater_(TableUpdater::Create(options, 1).value()),
        scratch_(*updater_),
        bucket_(updater_.get(), std::make_shared<SlabPool>(updater_->row_floats()), &counts_,
                &scratch_) {
    std::vector<float> row(updater_->row_floats(), 0.5f);
    BucketRows rows;
    for (uint64_t rank = 0; rank < num_keys; ++rank) rows.keys.push_back(MixBits(rank));
    std::sort(rows.keys.begin(), rows.keys.end());
    rows.touched.assign(num_keys, 0);
    for (uint64_t rank = 0; rank < num_keys; ++rank) {
      rows.rows.insert(rows.rows.end(), row.begin(), row.end());
    }
    CHECK_OK(bucket_.Load(0, rows));
    batches_.resize(kBatches);
    uint64_t drawn = 0;
    for (std::vector<uint64_t>& keys : batches_) {
      for (size_t i = 0; i < kBatchKeys; ++i) {
        ++drawn;
        keys.push_back(MixBits(is_zipf ? ZipfRank(RandomBits(3, drawn), num_keys)
                                       : RandomBelow(4, drawn, num_keys)));
      }
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    }
    gradients_.assign(kBatchKeys * options.dim, 1e-3f);
    values_.resize(kBatchKeys * options.dim);
  }

  void Measure(absl::Duration duration) {
    double read = 0, pushed = 0, updated = 0;
    uint64_t rows = 0;
    const absl::Time end = absl::Now() + duration;
    while (absl::Now() < end) {
      const std::vector<uint64_t>& keys = batches_[version_ % kBatches];
      payload_.resize(RowPayloadBytes(keys.size(), updater_->dim()));
      EncodeRows({keys, gradients_.data()}, updater_->dim(), payload_.data());
      const int64_t begin = CpuNanos();
      bucket_.Read(version_, false, keys, values_.data());
      const int64_t have_read = CpuNanos();
      bucket_.Add({ContributionKind::kRows, payload_.data(), payload_.size()}, 1, true);
      const int64_t have_pushed = CpuNanos();
      CHECK(bucket_.Apply({version_, version_, 1e-3f, 1}));
      ++version_;
      const int64_t have_updated = CpuNanos();
      read += static_cast<double>(have_read - begin);
      pushed += static_cast<double>(have_pushed - have_read);
      updated += static_cast<double>(have_updated - have_pushed);
      rows += keys.size();
    }
    const double millions = static_cast<double>(rows) * 1e3;
    read_.push_back(millions / read);
    pushed_.push_back(millions / pushed);
    updated_.push_back(millions / updated);
  }

  void Print() {
    size_t keys = 0;
    for (const std::vector<uint64_t>& batch : batches_) keys += batch.size();
    std::printf("%-44s %8.1f %8.1f %8.1f %14zu\n", name_.c_str(), Median(&read_), Median(&pushed_),
                Median(&updated_), keys / batches_.size());
  }

 private:
  const std::string name_;
  const std::unique_ptr<TableUpdater> updater_;
  TableCounts counts_;
  BucketScratch scratch_;
  Bucket bucket_;
  std::vector<std::vector<uint64_t>> batches_;
  std::vector<float> gradients_, values_;
  std::vector<char> payload_;
  uint64_t version_ = 0;
  std::vector<double> read_, pushed_, updated_;
};

// Measures BatchKeys on batches of 2048 examples with one key in each of 26 columns, which have
// tables of their own with 32 buckets.
void MeasureBatchKeys(int rounds) {
  constexpr size_t kTables = 26, kExamples = 2048, kDifferent = 32;
  std::vector<v1::VariableSpec> specs(kTables);
  std::vector<TableLookups> lookups(kTables);
  for (size_t t = 0; t < kTables; ++t) {
    specs[t].set_name(absl::StrFormat("table%d", t));
    specs[t].add_shape(16);
    specs[t].set_dtype(v1::DATA_TYPE_FLOAT32);
    specs[t].set_update(v1::UPDATE_KIND_OPTIMIZER);
    specs[t].mutable_table()->set_buckets(32);
    lookups[t] = {static_cast<uint32_t>(t), {{t}}};
  }
  const SliceTable slices = *SliceTable::Create(specs, 1 << 16);
  std::vector<std::vector<RaggedRows>> fields(kDifferent, std::vector<RaggedRows>(kTables));
  std::vector<LoadedBatch> batches(kDifferent);
  uint64_t drawn = 0;
  for (size_t b = 0; b < kDifferent; ++b) {
    for (RaggedRows& field : fields[b]) {
      for (size_t i = 0; i < kExamples; ++i) {
        field.AddKey(static_cast<int64_t>(MixBits(ZipfRank(RandomBits(5, ++drawn), 4'000'000))));
        field.EndExample();
      }
      batches[b].fields.push_back(&field);
    }
    batches[b].num_examples = kExamples;
  }
  BatchKeys keys(&slices, lookups);
  std::vector<double> milliseconds;
  size_t rows = 0;
  for (int round = 0; round < rounds; ++round) {
    rows = 0;
    const int64_t begin = CpuNanos();
    for (const LoadedBatch& batch : batches) {
      CHECK_OK(keys.Update(batch));
      for (const TableKeys& table : keys.tables()) rows += table.keys.size();
    }
    milliseconds.push_back(static_cast<double>(CpuNanos() - begin) / 1e6 / kDifferent);
  }
  std::printf(
      "\nthe different keys of a batch: %.2f ms for %zu keys of %zu tables, %zu different\n",
      Median(&milliseconds), kExamples * kTables, kTables, rows / kDifferent);
}

// Measures how long the longest insertions take while an index grows.
void MeasureGrowth() {
  constexpr uint64_t kKeys = 20'000'000;
  RowIndex index;
  std::vector<int64_t> longest;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const int64_t begin = CpuNanos();
    index.Insert(MixBits(i), 0, 1);
    const int64_t nanos = CpuNanos() - begin;
    if (nanos > 100'000) longest.push_back(nanos);
  }
  std::sort(longest.rbegin(), longest.rend());
  std::printf("\nan index of %lu keys: %zu insertions of more than 0.1 ms, the longest of", kKeys,
              longest.size());
  for (size_t i = 0; i < std::min<size_t>(longest.size(), 5); ++i) {
    std::printf(" %.2f", static_cast<double>(longest[i]) / 1e6);
  }
  std::printf(" ms\n");
}

int Main(int argc, char** argv) {
  int rounds = 5;
  int milliseconds = 300;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    const bool is_known =
        (absl::ConsumePrefix(&flag, "--rounds=") && absl::SimpleAtoi(flag, &rounds)) ||
        (absl::ConsumePrefix(&flag, "--milliseconds=") && absl::SimpleAtoi(flag, &milliseconds));
    if (!is_known) {
      std::fprintf(stderr, "table_benchmark: %s is not a flag\n", argv[i]);
      return 64;
    }
  }
  std::vector<std::unique_ptr<Table>> tables;
  for (const bool is_zipf : {true, false}) {
    for (const uint64_t num_keys : {100'000, 4'000'000}) {
      for (const char* rule : {"sgd", "rowwise_adagrad", "adagrad", "adam"}) {
        TableOptions options;
        options.name = rule;
        options.dim = 16;
        options.rowwise = options.name == "rowwise_adagrad";
        options.optimizer.kind = options.name == "sgd"    ? OptimizerKind::kSgd
                                 : options.name == "adam" ? OptimizerKind::kAdam
                                                          : OptimizerKind::kAdagrad;
        tables.push_back(std::make_unique<Table>(
            absl::StrFormat("%s, %d keys, %s", rule, num_keys, is_zipf ? "Zipf 1.05" : "uniform"),
            options, num_keys, is_zipf));
      }
    }
  }
  for (int round = 0; round < rounds; ++round) {
    for (const auto& table : tables) table->Measure(absl::Milliseconds(milliseconds));
  }
  std::printf(
      "dim 16, millions of rows per second:             read     push   update rows of a batch\n");
  for (const auto& table : tables) table->Print();
  MeasureBatchKeys(std::max(rounds, 1));
  MeasureGrowth();
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
