#include "runtime/tables/row_index.h"

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/hash.h"
#include "base/random.h"

namespace shoal {
namespace {

std::map<uint64_t, std::pair<uint32_t, uint32_t>> Contents(const RowIndex& index) {
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> contents;
  index.ForEach([&](const RowIndex::Entry& entry) {
    EXPECT_TRUE(contents.emplace(entry.key, std::make_pair(entry.row(), entry.stamp)).second);
  });
  return contents;
}

TEST(RowIndexTest, AnswersAsAMapDoesWhileItGrowsAndShrinks) {
  RowIndex index;
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> expected;
  uint64_t drawn = 0;
  for (int round = 0; round < 8; ++round) {
    const bool grows = round % 2 == 0;
    for (int i = 0; i < 20000; ++i) {
      const uint64_t key = RandomBelow(1, ++drawn, 30000);  // 0 is a key as well
      const auto row = static_cast<uint32_t>(drawn);
      RowIndex::Entry* const entry = index.Find(key);
      ASSERT_EQ(entry != nullptr, expected.count(key) == 1);
      if (entry != nullptr && RandomBelow(2, drawn, 4) >= (grows ? 3u : 1u)) {
        index.Erase(key);
        expected.erase(key);
      } else if (entry != nullptr) {
        ASSERT_EQ(entry->row(), expected[key].first);
        entry->stamp += 1;
        expected[key].second += 1;
      } else if (grows || RandomBelow(3, drawn, 8) == 0) {
        EXPECT_EQ(index.Insert(key, row, 1)->row(), row);
        expected[key] = {row, 1};
      }
    }
    ASSERT_EQ(Contents(index), expected);
    ASSERT_EQ(index.size(), expected.size());
  }
}

TEST(RowIndexTest, FindsAllKeysWhileALargeIndexGrows) {
  constexpr uint64_t kKeys = 900000;  // The memory that the last growth leaves has several pieces.
  RowIndex index;
  const auto check = [&index](uint64_t keys) {
    for (uint64_t key = 0; key < keys; ++key) {
      const RowIndex::Entry* const entry = index.Find(key * 7919);
      ASSERT_TRUE(entry != nullptr && entry->row() == key) << key << " of " << keys;
      ASSERT_EQ(index.Find(key * 7919 + 1), nullptr) << key << " of " << keys;
    }
  };
  for (uint64_t key = 0; key < kKeys; ++key) {
    index.Insert(key * 7919, static_cast<uint32_t>(key), 1);
    if (key % 60000 == 59999) check(key + 1);
  }
  uint64_t visited = 0;
  index.ForEach([&visited](const RowIndex::Entry&) { ++visited; });
  EXPECT_EQ(visited, kKeys);
}

TEST(RowIndexTest, FindsManyKeysAtOnce) {
  RowIndex index;
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 1000; ++i) {
    keys.push_back(i * i);
    if (i % 3 != 0) index.Insert(i * i, static_cast<uint32_t>(i), 1);
  }
  std::vector<const RowIndex::Entry*> entries(keys.size());
  index.Find(keys, entries.data());
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(entries[i] != nullptr, i % 3 != 0);
    if (entries[i] != nullptr) {
      EXPECT_EQ(entries[i]->row(), i);
    }
  }
}

TEST(RowIndexTest, KeysThatComeAndGoDoNotMakeItGrow) {
  RowIndex index;
  for (uint64_t key = 0; key < 100000; ++key) {
    index.Insert(key, 0, 1);
    if (key >= 100) index.Erase(key - 100);
  }
  EXPECT_EQ(index.size(), 100u);
  EXPECT_LE(index.bytes(), 1024 * sizeof(RowIndex::Entry));
}

TEST(RowIndexTest, AnIndexThatHasLostMostKeysMovesToAnotherInSmallSteps) {
  constexpr uint64_t kKeys = 100000, kKept = 100;
  RowIndex index;
  uint64_t next = 0;
  for (; next < kKeys; ++next) index.Insert(next, 0, 1);
  for (uint64_t key = kKept; key < kKeys; ++key) index.Erase(key);
  // New keys come and go until the index is full of erased ones, and moves.
  const auto add_one = [&] {
    index.Insert(next++, 0, 1);
    if (index.size() > 2 * kKept) index.Erase(next - kKept);
    return index.bytes();
  };
  uint64_t bytes = index.bytes();
  while (add_one() <= bytes) bytes = index.bytes();
  uint64_t insertions = 1;
  const uint64_t most = index.bytes();
  while (add_one() >= most) ++insertions;
  EXPECT_GE(insertions, bytes / sizeof(RowIndex::Entry) / 16 - 1);
  EXPECT_LT(index.bytes(), bytes / 4);
  for (uint64_t key = 0; key < kKept; ++key) EXPECT_NE(index.Find(key), nullptr);
}

TEST(RowIndexTest, AGrowthEndsWithoutInsertions) {
  RowIndex index;
  uint64_t keys = 0;
  uint64_t bytes = 0;
  // Adds keys until the index begins to grow from a size of several pieces of 2 MiB.
  do {
    bytes = index.bytes();
    index.Insert(MixBits(keys), static_cast<uint32_t>(keys), 1);
    ++keys;
  } while (index.bytes() <= bytes || bytes < (uint64_t{9} << 20));
  const uint64_t both = index.bytes();
  int calls = 0;
  for (; index.bytes() == both && calls < 1000; ++calls) {
    index.ContinueGrowth(300000);
    for (uint64_t k = 0; k < keys; k += 7) ASSERT_NE(index.Find(MixBits(k)), nullptr) << k;
  }
  EXPECT_GT(calls, 1);
  EXPECT_EQ(index.bytes(), both - bytes);
  EXPECT_EQ(index.size(), keys);
  for (uint64_t k = 0; k < keys; ++k) {
    ASSERT_NE(index.Find(MixBits(k)), nullptr) << k;
    ASSERT_EQ(index.Find(MixBits(k))->row(), k);
  }
  index.ContinueGrowth(300000);
  EXPECT_EQ(index.size(), keys);
}

TEST(RowIndexTest, AnEmptyIndexTakesNoMemory) {
  RowIndex index;
  EXPECT_EQ(index.bytes(), 0u);
  EXPECT_EQ(index.Find(0), nullptr);
  const std::vector<uint64_t> keys = {0, 1};
  const RowIndex::Entry* entries[2] = {};
  index.Find(keys, entries);
  EXPECT_EQ(entries[0], nullptr);
  index.Clear();
  index.Insert(0, 1, 1);
  EXPECT_NE(index.Find(0), nullptr);
  EXPECT_LE(index.bytes(), 1024u);
}

TEST(RowIndexTest, AFullScanMeetsEveryKey) {
  RowIndex index;
  for (uint64_t key = 0; key < 5000; ++key) index.Insert(key, 0, 1);
  // A scan does not look into the old part, which is empty after the next growth.
  for (uint64_t bytes = 0; index.bytes() >= bytes;) {
    bytes = index.bytes();
    index.Insert(index.size(), 0, 1);
  }
  std::map<uint64_t, int> met;
  size_t place = 0;
  for (int i = 0; i < 300; ++i) {
    index.Scan(&place, 100, [&](const RowIndex::Entry& entry) { ++met[entry.key]; });
  }
  EXPECT_EQ(met.size(), index.size());
}

TEST(RowIndexTest, AClearedIndexIsEmpty) {
  RowIndex index;
  for (uint64_t key = 0; key < 1000; ++key) index.Insert(key, 0, 1);
  index.Clear();
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.Find(5), nullptr);
  EXPECT_NE(index.Insert(5, 1, 1), nullptr);
}

}  // namespace
}  // namespace shoal
