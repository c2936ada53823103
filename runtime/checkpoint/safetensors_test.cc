#include "runtime/checkpoint/safetensors.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "runtime/checkpoint/little_endian.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;

TEST(SafetensorsTest, DecodingRevertsEncoding) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"quote\"d", "back\\slash\nline"}};
  header.tensors = {
      {"w", "F32", {4, 2}, 0, 32}, {"scalar", "F32", {}, 32, 36}, {"none", "I64", {0, 3}, 36, 36}};
  const std::string bytes = EncodeSafetensorsHeader(header);
  EXPECT_EQ(bytes.size() % 64, 0u);
  EXPECT_EQ(LoadLittleEndian<uint64_t>(bytes.data()), bytes.size() - 8);
  EXPECT_EQ(bytes[8], '{');
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader decoded,
                       DecodeSafetensorsHeader(bytes.substr(8), 36));
  EXPECT_EQ(decoded.metadata, header.metadata);
  ASSERT_EQ(decoded.tensors.size(), 3u);
  EXPECT_EQ(decoded.tensors[0].name, "w");
  EXPECT_THAT(decoded.tensors[0].shape, ElementsAre(4, 2));
  EXPECT_THAT(decoded.tensors[1].shape, IsEmpty());
  EXPECT_EQ(decoded.tensors[2].dtype, "I64");
}

TEST(SafetensorsTest, OtherWritersFormsAreRead) {
  // Spaces, another order of keys, tensors not in the order of their bytes.
  const char* json =
      R"({ "b" : {"data_offsets":[2, 10], "shape":[2] ,"dtype":"F32"},
           "a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]} }   )";
  ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header, DecodeSafetensorsHeader(json, 10));
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_OK(DecodeSafetensorsHeader("{}", 0));
}

TEST(SafetensorsTest, BadHeadersAreRefused) {
  const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  const struct {
    std::string json;
    uint64_t bytes;
    const char* reason;
  } cases[] = {
      {"", 0, "is not a JSON object"},
      {"[]", 0, "is not a JSON object"},
      {"{" + good, 4, "is not a JSON object"},
      {"{" + good + "}x", 4, "is not a JSON object"},
      {"{" + good + "," + good + "}", 4, "twice"},
      {"{" + good + "}", 8, "tensors have 4 bytes, the file 8"},
      {"{" + good + "}", 3, "tensors have 4 bytes, the file 3"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "not its shape's size"},
      {R"({"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", 4, "not its shape's size"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "not its shape's size"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "begins at 4, expected 0"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,0]}})",
       0, "not its shape's size"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "whole number"},
      {R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4,
       "below 2^64"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", 4, "unknown key"},
      {R"({"__metadata__":{"a":1}})", 0, "metadata \"a\" must be text"},
      {R"({"a":[]})", 0, "\"a\" must be an object"},
      {R"({"a":{"dtype":"F32","shape":7,"data_offsets":[0,4]}})", 4, "list of whole numbers"},
      {R"({"a\q":{}})", 0, "is not a JSON object"},
      {R"({"a)", 0, "is not a JSON object"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(DecodeSafetensorsHeader(c.json, c.bytes), StatusIs(kDataLoss, HasSubstr(c.reason)))
        << c.json;
  }
}

TEST(SafetensorsTest, OverlapsAreRefused) {
  const char* json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
                         "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  EXPECT_THAT(DecodeSafetensorsHeader(json, 12),
              StatusIs(kDataLoss, HasSubstr("begins at 4, expected 8")));
}

}  // namespace
}  // namespace shoal
