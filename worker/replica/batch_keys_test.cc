#include "worker/replica/batch_keys.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/data/ragged_rows.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

v1::VariableSpec Table(const std::string& name, uint32_t buckets) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(4);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(buckets);
  return spec;
}

v1::VariableSpec Dense() {
  v1::VariableSpec spec = Table("dense", 1);
  spec.clear_table();
  return spec;
}

SliceTable Slices(const std::vector<v1::VariableSpec>& variables) {
  return SliceTable::Create(variables, 1 << 10).value();
}

// A batch of ragged fields.
struct Batch {
  explicit Batch(size_t num_fields) : rows(num_fields) {}
  LoadedBatch Loaded() {
    LoadedBatch batch;
    batch.epoch = 2;
    batch.index = 5;
    for (RaggedRows& field : rows) {
      batch.num_examples = field.num_examples();
      batch.fields.push_back(&field);
    }
    return batch;
  }
  std::vector<RaggedRows> rows;
};

// Computes what BatchKeys promises in the simplest way.
TableKeys Expected(const SliceTable& slices, const TableLookups& lookups,
                   const LoadedBatch& batch) {
  std::set<std::pair<uint32_t, uint64_t>> keys;  // by bucket and key
  for (const KeyField& field : lookups.fields) {
    for (const int64_t key : batch.ragged(field.field).keys()) {
      const auto id = static_cast<uint64_t>(key);
      keys.insert({slices.BucketOf(lookups.table, id), id});
    }
  }
  TableKeys expected;
  const uint32_t first = slices.first_slice_of(lookups.table);
  expected.begins.assign(slices.num_buckets_of(lookups.table) + 1, 0);
  for (const auto& [slice, key] : keys) {
    expected.keys.push_back(key);
    for (size_t b = slice - first + 1; b < expected.begins.size(); ++b) ++expected.begins[b];
  }
  for (const KeyField& field : lookups.fields) {
    std::vector<int32_t>& places = expected.places.emplace_back();
    for (const int64_t key : batch.ragged(field.field).keys()) {
      const auto found =
          std::find(expected.keys.begin(), expected.keys.end(), static_cast<uint64_t>(key));
      places.push_back(static_cast<int32_t>(found - expected.keys.begin()));
    }
  }
  return expected;
}

void ExpectSame(const TableKeys& got, const TableKeys& expected) {
  EXPECT_EQ(got.keys, expected.keys);
  EXPECT_EQ(got.begins, expected.begins);
  EXPECT_EQ(got.places, expected.places);
}

TEST(BatchKeysTest, FindsEachKeyOnceInTheOrderOfBuckets) {
  const SliceTable slices = Slices({Dense(), Table("a", 1), Table("b", 8)});
  const std::vector<TableLookups> lookups = {{1, {{0}}}, {2, {{1}, {2}}}};
  BatchKeys keys(&slices, lookups);
  std::mt19937_64 random(7);
  // Later batches have fewer keys than the first, and one has none.
  for (const size_t most : {60, 20, 0, 40}) {
    Batch batch(3);
    for (RaggedRows& field : batch.rows) {
      for (int example = 0; example < 9; ++example) {
        const size_t count = most == 0 ? 0 : random() % most;
        for (size_t i = 0; i < count; ++i) {
          field.AddKey(static_cast<int64_t>(random() % 3 == 0 ? random() : random() % 30));
        }
        field.EndExample();
      }
    }
    const LoadedBatch loaded = batch.Loaded();
    ASSERT_TRUE(keys.Update(loaded).ok());
    EXPECT_EQ(keys.epoch(), 2u);
    EXPECT_EQ(keys.index(), 5);
    for (size_t t = 0; t < lookups.size(); ++t) {
      ExpectSame(keys.tables()[t], Expected(slices, lookups[t], loaded));
    }
  }
}

TEST(BatchKeysTest, ExtremeKeysAreKeys) {
  const SliceTable slices = Slices({Table("a", 1)});
  BatchKeys keys(&slices, {{0, {{0}}}});
  Batch batch(1);
  batch.rows[0].AddExample({-1, 0, INT64_MIN});
  ASSERT_TRUE(keys.Update(batch.Loaded()).ok());
  EXPECT_THAT(keys.tables()[0].keys, ElementsAre(0u, uint64_t{1} << 63, UINT64_MAX));
  EXPECT_THAT(keys.tables()[0].places[0], ElementsAre(2, 0, 1));
}

TEST(BatchKeysTest, ADenseFieldHasOneKeyForEachExample) {
  const SliceTable slices = Slices({Table("a", 1)});
  BatchKeys keys(&slices, {{0, {{0, /*is_ragged=*/false}, {1}}}});
  std::vector<int64_t> dense = {7, 3, 7, 99};
  RaggedRows ragged;
  for (const int64_t key : {3, 5, 3}) ragged.AddExample({key});
  LoadedBatch batch;
  batch.num_examples = 3;  // the fourth number is not of this batch
  batch.fields = {dense.data(), &ragged};
  ASSERT_TRUE(keys.Update(batch).ok());
  EXPECT_THAT(keys.tables()[0].keys, ElementsAre(3u, 5u, 7u));
  EXPECT_THAT(keys.tables()[0].places[0], ElementsAre(2, 0, 2));
  EXPECT_THAT(keys.tables()[0].places[1], ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace shoal
