#include "runtime/checkpoint/differing_tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {
namespace {

class DifferingTensorTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::map<std::string, std::vector<float>>& tensors) {
    SafetensorsHeader header;
    std::string data;
    for (const auto& [name, values] : tensors) {
      SafetensorsEntry entry;
      entry.name = name;
      entry.shape = {values.size()};
      entry.begin = data.size();
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      entry.end = data.size();
      header.tensors.push_back(entry);
    }
    EXPECT_OK(WriteAtomically(disk_, path, EncodeSafetensorsHeader(header) + data));
  }

  std::string Find(const std::string& path, const std::string& other_path,
                   uint64_t most_bytes = UINT64_MAX) {
    return FindDifferingTensor(disk_, path, other_path, most_bytes);
  }

  FaultyFileSystem disk_;
};

TEST_F(DifferingTensorTest, IsTheFirstOneThatIsNotTheSame) {
  Write("one", {{"a", {1, 2}}, {"b", {3}}, {"c", {4}}});
  Write("other", {{"a", {1, 2}}, {"b", {5}}, {"c", {6}}});
  EXPECT_EQ(Find("one", "other"), "b");
  EXPECT_EQ(Find("one", "one"), "");
  EXPECT_EQ(Find("one", "none"), "") << "there is no such file";
  Write("longer", {{"a", {1, 2, 3}}, {"b", {3}}, {"c", {4}}});
  EXPECT_EQ(Find("one", "longer"), "a");
}

// Checkpoints wait while two files are compared.
TEST_F(DifferingTensorTest, IsFoundAmongSoManyBytesOnly) {
  Write("one", {{"a", {1, 2}}, {"b", {3, 4}}, {"c", {5}}});
  Write("other", {{"a", {1, 2}}, {"b", {3, 6}}, {"c", {7}}});
  for (const uint64_t most : {0, 8, 12}) EXPECT_EQ(Find("one", "other", most), "") << most;
  EXPECT_EQ(Find("one", "other", 16), "b");
  const int before = disk_.faults().num_reads();
  EXPECT_EQ(Find("one", "other", 8), "");
  const int reads = disk_.faults().num_reads() - before;
  EXPECT_EQ(Find("one", "other", 16), "b");
  EXPECT_EQ(disk_.faults().num_reads() - before - reads, reads + 2);
}

TEST_F(DifferingTensorTest, MayDifferInItsLastElementOnly) {
  std::vector<float> values((1 << 19) + 3, 1);
  Write("one", {{"a", values}});
  values.back() = 2;
  Write("other", {{"a", values}});
  EXPECT_EQ(Find("one", "other"), "a");
}

}  // namespace
}  // namespace shoal
