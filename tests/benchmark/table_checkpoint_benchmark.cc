// Measures checkpoints of a table of one ps: writing all of its rows, writing what a step has
// changed, and restoring both onto 1 to 8 ps, one after another. The program prints medians of wall
// times and, for changes, the bytes of the file for each byte of a row that the step has touched.
//
// usage: table_checkpoint_benchmark [--rows=4000000] [--dim=16] [--rounds=3]
//                                   [--directory=/dev/shm/shoal_tables]
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "base/hash.h"
#include "base/log.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/restored_slices.h"
#include "ps/rows_base.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_source.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace {

constexpr uint32_t kBuckets = 256;
// The parts of the rows that the steps between checkpoints touch: one row of so many.
constexpr uint64_t kOneOf[] = {1000, 100, 10};

struct Flags {
  uint64_t rows = 4'000'000;
  uint32_t dim = 16;
  int rounds = 3;
  std::string directory = "/dev/shm/shoal_tables";
};

v1::VariableSpec Table(uint32_t dim) {
  v1::VariableSpec spec;
  spec.set_name("item");
  spec.add_shape(dim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(kBuckets);
  spec.mutable_table()->mutable_optimizer()->set_learning_rate(0.1);
  spec.mutable_table()->mutable_optimizer()->mutable_adagrad();
  return spec;
}

// Rows as if trained before the run.
class GivenRows : public SliceSource {
 public:
  GivenRows(const SliceTable& table, uint64_t num_rows) : keys_(table.size()) {
    for (uint64_t i = 0; i < num_rows; ++i) {
      const uint64_t key = MixBits(i);
      keys_[table.BucketOf(0, key)].push_back(key);
    }
    for (std::vector<uint64_t>& keys : keys_) std::sort(keys.begin(), keys.end());
  }

  const std::vector<uint64_t>& keys(uint32_t slice) const { return keys_[slice]; }
  absl::Status Fill(uint32_t, Contents*) override { return absl::OkStatus(); }
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override {
    const size_t row_floats = 2 * contents->initial_slots.size();  // Adagrad: as many as values
    contents->rows.keys = keys_[slice];
    contents->rows.touched.assign(keys_[slice].size(), 0);
    contents->rows.rows.resize(keys_[slice].size() * row_floats);
    for (size_t i = 0; i < contents->rows.rows.size(); ++i) {
      contents->rows.rows[i] = static_cast<float>(MixBits(i + slice) >> 40) * 0x1p-24f;
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::vector<uint64_t>> keys_;  // by slice
};

class Times {
 public:
  void Add(absl::Duration time) { seconds_.push_back(absl::ToDoubleSeconds(time)); }
  double Median() {
    std::sort(seconds_.begin(), seconds_.end());
    return seconds_[seconds_.size() / 2];
  }

 private:
  std::vector<double> seconds_;
};

class Benchmark {
 public:
  explicit Benchmark(const Flags& flags)
      : flags_(flags),
        root_(flags.directory + "/checkpoints"),
        spec_(Table(flags.dim)),
        table_(SliceTable::Create({&spec_, 1}, 1 << 20).value()),
        rows_(table_, flags.rows) {
    request_.mutable_identity()->set_run_id("0123456789abcdef0123456789abcdef");
    request_.mutable_identity()->set_term(1);
    request_.set_checkpoint_root(root_);
    *request_.add_variables() = spec_;
    request_.mutable_shard_map()->set_slice_bytes(1 << 20);
  }

  // Writes one checkpoint with all rows and one for each of kOneOf, and restores them.
  void Round(uint64_t lineage) {
    CHECK_OK(RemoveTree(*files_, flags_.directory));
    const auto store = MakeStore(0, 1);
    CHECK_OK(store->Load({lineage, 0, plan_, {}}, rows_));
    request_.mutable_identity()->set_lineage(lineage);
    request_.mutable_shard_map()->set_num_ps_tasks(1);
    const SnapshotLineage described = SnapshotLineage::Of(request_, *store);
    RowsBase base;
    uint64_t version = 0;
    base_bytes_ = Save(described, *store, ++version, /*one_of=*/1'000'000'000, &base, &base_time_);
    for (size_t i = 0; i < std::size(kOneOf); ++i) {
      bytes_[i] = Save(described, *store, ++version, kOneOf[i], &base, &times_[i]);
    }
    all_bytes_ = std::accumulate(std::begin(bytes_), std::end(bytes_), base_bytes_);
    request_.set_checkpoint(described.GetDirectory(version));
    for (size_t i = 0; i < std::size(kNumPs); ++i) Restore(lineage + 1, kNumPs[i], &restores_[i]);
    CHECK_OK(RemoveTree(*files_, flags_.directory));
  }

  void Print() {
    const double row_bytes = 12 + 2.0 * flags_.dim * sizeof(float);
    const double megabytes = static_cast<double>(base_bytes_) / 1e6;
    const double seconds = base_time_.Median();
    std::printf("%lu rows of dim %u, Adagrad, %u buckets\n", flags_.rows, flags_.dim, kBuckets);
    std::printf("all rows:       %9.1f MB, %.3f s, %.2f GB/s\n", megabytes, seconds,
                megabytes / 1e3 / seconds);
    for (size_t i = 0; i < std::size(kOneOf); ++i) {
      const auto touched = static_cast<double>(touched_[i]);
      std::printf("1 row of %-6lu %9.1f MB, %.3f s, %.3f bytes for each byte of the rows touched\n",
                  kOneOf[i], static_cast<double>(bytes_[i]) / 1e6, times_[i].Median(),
                  static_cast<double>(bytes_[i]) / (touched * row_bytes));
    }
    for (size_t i = 0; i < std::size(kNumPs); ++i) {
      const double restore = restores_[i].Median();
      std::printf("restore onto %u: %9.1f MB, %.3f s, %.2f GB/s\n", kNumPs[i],
                  static_cast<double>(all_bytes_) / 1e6, restore,
                  static_cast<double>(all_bytes_) / 1e9 / restore);
    }
  }

 private:
  static constexpr uint32_t kNumPs[] = {1, 2, 4, 8};

  std::unique_ptr<PartitionedStore> MakeStore(uint32_t ps, uint32_t num_ps) const {
    SliceStoreOptions options;
    options.update.schedule.learning_rate = 0.1;
    std::vector<uint32_t> owned;
    for (uint32_t slice = ps; slice < table_.size(); slice += num_ps) owned.push_back(slice);
    return std::make_unique<PartitionedStore>(
        SliceStore::Create(options, {&spec_, 1}, table_, owned).value());
  }

  // Makes this version by a step that touches one row of so many, and writes its checkpoint.
  // Returns the bytes of the shard.
  uint64_t Save(const SnapshotLineage& lineage, PartitionedStore& store, uint64_t version,
                uint64_t one_of, RowsBase* base, Times* times) {
    CHECK(!store.RequestCut(version).passed);
    uint64_t touched = 0;
    for (uint32_t slice = 0; slice < table_.size(); ++slice) {
      std::vector<uint64_t> keys;
      for (size_t i = version; i < rows_.keys(slice).size(); i += one_of) {
        keys.push_back(rows_.keys(slice)[i]);
      }
      Push(store, slice, version - 1, keys);
      touched += keys.size();
    }
    for (size_t i = 0; i < std::size(kOneOf); ++i) {
      if (kOneOf[i] == one_of) touched_[i] = touched;
    }
    SliceStoreEvents events;
    store.part(0).TakeEvents(&events);
    Snapshot snapshot;
    snapshot.version = version;
    snapshot.parts = std::move(events.cuts);
    CHECK(!snapshot.parts.empty());
    v1::ReportShardRequest report;
    const absl::Time begin = absl::Now();
    CHECK_OK(WriteSnapshot(*files_, 0, lineage, snapshot, {}, base, &report));
    times->Add(absl::Now() - begin);
    v1::Manifest manifest;
    manifest.set_step(version);
    manifest.set_term(1);
    *manifest.add_variables() = spec_;
    *manifest.mutable_shard_map() = request_.shard_map();
    *manifest.add_shards() = report.file();
    CheckpointName name;
    CHECK(CheckpointName::Parse(lineage.GetDirectory(version), &name));
    CHECK_OK(CheckpointDirectory::Open(*files_, root_).value()->Publish(name, manifest));
    return report.file().bytes();
  }

  void Push(PartitionedStore& store, uint32_t slice, uint64_t step,
            const std::vector<uint64_t>& keys) {
    const std::vector<float> gradients(keys.size() * flags_.dim, 0.01f);
    std::vector<char> payload(RowPayloadBytes(keys.size(), flags_.dim));
    EncodeRows({keys, gradients.data()}, flags_.dim, payload.data());
    SlicePush push;
    push.slice = slice;
    push.kind = ContributionKind::kRows;
    push.batch = plan_.BatchAt(step, 0);
    push.step = step;
    push.examples = 1;
    push.data = payload.data();
    push.bytes = payload.size();
    CHECK(store.part(0).Push(push) == PushOutcome::kAccepted);
  }

  void Restore(uint64_t lineage, uint32_t num_ps, Times* times) {
    request_.mutable_shard_map()->set_num_ps_tasks(num_ps);
    uint64_t rows = 0;
    const absl::Time begin = absl::Now();
    for (uint32_t ps = 0; ps < num_ps; ++ps) {
      const auto store = MakeStore(ps, num_ps);
      const std::unique_ptr<RestoredSlices> saved =
          RestoredSlices::Open(files_.get(), request_, *store).value();
      CHECK_OK(store->Load({lineage, saved->version(), plan_, {}}, *saved));
      for (const TableUse& use : store->TablesInUse()) rows += use.rows;
    }
    times->Add(absl::Now() - begin);
    CHECK_EQ(rows, flags_.rows);
  }

  const Flags flags_;
  const std::string root_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const v1::VariableSpec spec_;
  const SliceTable table_;
  const StepPlan plan_ = StepPlan::Create({0, 0, 1'000'000, 1, 1}).value();
  GivenRows rows_;
  v1::LoadSlicesRequest request_;
  uint64_t base_bytes_ = 0, all_bytes_ = 0;
  uint64_t bytes_[std::size(kOneOf)] = {}, touched_[std::size(kOneOf)] = {};
  Times base_time_, times_[std::size(kOneOf)], restores_[std::size(kNumPs)];
};

int Main(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    const bool is_known =
        (absl::ConsumePrefix(&flag, "--rows=") && absl::SimpleAtoi(flag, &flags.rows)) ||
        (absl::ConsumePrefix(&flag, "--dim=") && absl::SimpleAtoi(flag, &flags.dim)) ||
        (absl::ConsumePrefix(&flag, "--rounds=") && absl::SimpleAtoi(flag, &flags.rounds));
    if (is_known) continue;
    if (absl::ConsumePrefix(&flag, "--directory=")) {
      flags.directory = std::string(flag);
      continue;
    }
    std::fprintf(stderr, "table_checkpoint_benchmark: %s is not a flag\n", argv[i]);
    return 64;
  }
  Benchmark benchmark(flags);
  for (int round = 0; round < std::max(flags.rounds, 1); ++round) {
    benchmark.Round(/*lineage=*/2 * static_cast<uint64_t>(round) + 1);
  }
  benchmark.Print();
  return 0;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::Main(argc, argv); }
