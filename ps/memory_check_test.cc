#include "ps/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

TEST(MemoryCheckTest, AvailableMemoryIsReadFromMeminfo) {
  EXPECT_EQ(AvailableMemory("MemTotal: 900 kB\nMemAvailable:     512 kB\nBuffers: 1 kB\n"),
            512u << 10);
  EXPECT_EQ(AvailableMemory("MemTotal: 900 kB\n"), UINT64_MAX);
  EXPECT_EQ(AvailableMemory("MemAvailable: many\n"), UINT64_MAX);
}

TEST(MemoryCheckTest, AShardThatDoesNotFitIsRefused) {
  v1::VariableSpec variable;
  variable.set_name("w");
  variable.add_shape(1 << 20);
  variable.set_dtype(v1::DATA_TYPE_FLOAT32);
  variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
  const std::vector<v1::VariableSpec> variables = {variable};
  const SliceTable table = std::move(SliceTable::Create(variables, 4 << 20).value());
  const std::vector<uint32_t> owned = {0};
  EXPECT_TRUE(CheckMemory(table, owned, 16 << 20).ok());
  const absl::Status status = CheckMemory(table, owned, (16 << 20) - 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), testing::HasSubstr("16 MiB"));
  EXPECT_TRUE(CheckMemory(table, owned).ok());
}

}  // namespace
}  // namespace shoal
