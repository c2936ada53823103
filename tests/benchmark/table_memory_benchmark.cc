// Measures the memory of tables: fills their buckets as training does, with batches of new and
// known keys, and prints the rows, the bytes that a ps counts for them, the bytes by which the
// process grew, and how many times rows * (dim * (1 + slots) * 4 + 16) both are.
//
// usage: table_memory_benchmark [--rows=2000000] [--batch_keys=16384]
// A bucket keeps the gradients and the old values of the rows that its last step touched, so tables
// with few rows need more memory for each the more keys a step has.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/hash.h"
#include "base/log.h"
#include "ml/optim/optimizer_options.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/row_payload.h"

namespace shoal {
namespace {

struct Case {
  const char* name;
  uint32_t dim;
  OptimizerKind rule;
  bool rowwise;
  uint32_t tables;
  uint32_t buckets;  // of each table
  uint64_t rows;     // of all tables
};

class Table {
 public:
  Table(const TableUpdater* updater, uint32_t num_buckets)
      : updater_(*updater),
        pool_(std::make_shared<SlabPool>(updater->row_floats())),
        scratch_(*updater) {
    for (uint32_t i = 0; i < num_buckets; ++i) {
      buckets_.push_back(std::make_unique<Bucket>(updater, pool_, &counts_, &scratch_));
    }
  }

  // Trains the keys of [0, rows), `batch_keys` in each step; every eighth key is a known one.
  void Fill(uint64_t rows, uint64_t batch_keys) {
    uint64_t next = 0;
    while (next < rows) {
      std::vector<std::vector<uint64_t>> keys(buckets_.size());
      for (uint64_t i = 0; i < batch_keys && next < rows; ++i) {
        const uint64_t key = MixBits(i % 8 == 7 ? next / 2 : next++);
        keys[key % buckets_.size()].push_back(key);
      }
      for (size_t b = 0; b < buckets_.size(); ++b) {
        std::sort(keys[b].begin(), keys[b].end());
        keys[b].erase(std::unique(keys[b].begin(), keys[b].end()), keys[b].end());
        Push(keys[b], buckets_[b].get());
      }
      ++version_;
    }
  }
  uint64_t rows() const { return counts_.rows(); }
  uint64_t bytes() const { return counts_.bytes() + pool_->bytes(); }

 private:
  void Push(const std::vector<uint64_t>& keys, Bucket* bucket) const {
    const std::vector<float> gradients(keys.size() * updater_.dim(), 1e-3f);
    std::vector<char> payload(RowPayloadBytes(keys.size(), updater_.dim()));
    EncodeRows({keys, gradients.data()}, updater_.dim(), payload.data());
    bucket->Add({ContributionKind::kRows, payload.data(), payload.size()}, 1, true);
    CHECK(bucket->Apply({version_, version_, 1e-3f, 1}));
  }

  const TableUpdater& updater_;
  std::shared_ptr<SlabPool> pool_;
  TableCounts counts_;
  BucketScratch scratch_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  uint64_t version_ = 0;
};

// Returns the resident bytes of this process.
uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void Measure(const Case& measured, uint64_t batch_keys) {
  TableOptions options;
  options.name = "table";
  options.dim = measured.dim;
  options.rowwise = measured.rowwise;
  options.optimizer.kind = measured.rule;
  const std::unique_ptr<TableUpdater> updater = TableUpdater::Create(options, 1).value();
  const uint64_t before = ResidentBytes();
  uint64_t rows = 0, counted = 0;
  std::vector<std::unique_ptr<Table>> tables;
  for (uint32_t i = 0; i < measured.tables; ++i) {
    tables.push_back(std::make_unique<Table>(updater.get(), measured.buckets));
    tables.back()->Fill(measured.rows / measured.tables, batch_keys);
    rows += tables.back()->rows();
    counted += tables.back()->bytes();
  }
  const uint64_t resident = ResidentBytes() - before;
  const auto least = static_cast<double>(rows * (updater->row_floats() * sizeof(float) + 16));
  std::printf("%-32s %10lu %10.1f %10.1f %10.2f %10.2f\n", measured.name, rows,
              static_cast<double>(counted) / 1e6, static_cast<double>(resident) / 1e6,
              static_cast<double>(counted) / least, static_cast<double>(resident) / least);
}

int Main(int argc, char** argv) {
  uint64_t rows = 2'000'000;
  uint64_t batch_keys = 16384;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    if (absl::ConsumePrefix(&flag, "--rows=") && absl::SimpleAtoi(flag, &rows)) continue;
    const bool is_keys = absl::ConsumePrefix(&flag, "--batch_keys=");
    if (is_keys && absl::SimpleAtoi(flag, &batch_keys) && batch_keys > 0) continue;
    std::fprintf(stderr, "table_memory_benchmark: %s is not a flag\n", argv[i]);
    return 64;
  }
  const Case cases[] = {
      {"dim 16, sgd", 16, OptimizerKind::kSgd, false, 1, 256, rows},
      {"dim 16, rowwise_adagrad", 16, OptimizerKind::kAdagrad, true, 1, 256, rows},
      {"dim 16, adagrad", 16, OptimizerKind::kAdagrad, false, 1, 256, rows},
      {"dim 16, adam", 16, OptimizerKind::kAdam, false, 1, 256, rows},
      {"dim 64, rowwise_adagrad", 64, OptimizerKind::kAdagrad, true, 1, 256, rows / 2},
      {"dim 1, ftrl", 1, OptimizerKind::kFtrl, false, 1, 256, rows},
      {"dim 16, adagrad, 26 tables", 16, OptimizerKind::kAdagrad, false, 26, 39, rows / 4},
      {"dim 16, adagrad, 26 small tables", 16, OptimizerKind::kAdagrad, false, 26, 39, rows / 20},
  };
  std::printf("%-32s %10s %10s %10s %10s %10s\n", "", "rows", "counted MB", "resident", "factor",
              "resident");
  for (const Case& measured : cases) Measure(measured, batch_keys);
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
