#include "runtime/transport/payload_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "base/crc32c.h"

namespace shoal {
namespace {

TEST(PayloadReaderTest, ACopyCrossesFragmentsAndIsSummed) {
  const std::string a = "abc", b = "defgh", c = "ij";
  PayloadReader reader;
  for (const std::string& s : {std::cref(a), std::cref(b), std::cref(c)}) {
    reader.Append(s.data(), s.size());
  }
  std::string first(2, ' '), second(7, ' ');
  uint32_t crc = 0;
  ASSERT_TRUE(reader.Copy(first.data(), 2, &crc));
  ASSERT_TRUE(reader.Copy(second.data(), 7, &crc));
  EXPECT_EQ(first + second, "abcdefghi");
  EXPECT_EQ(crc, Crc32c(first + second));
  EXPECT_EQ(reader.remaining(), 1u);
}

TEST(PayloadReaderTest, NothingIsReadWhenThereIsTooLittle) {
  PayloadReader reader;
  reader.Append("abc", 3);
  char to[4] = "xyz";
  EXPECT_FALSE(reader.Copy(to, 4, nullptr));
  EXPECT_FALSE(reader.Skip(4));
  EXPECT_EQ(reader.Borrow(4), nullptr);
  EXPECT_EQ(reader.remaining(), 3u);
  EXPECT_EQ(to[0], 'x');
}

TEST(PayloadReaderTest, OnlyBytesInOnePieceAreBorrowed) {
  const std::string a = "abcd", b = "efgh";
  PayloadReader reader;
  reader.Append(a.data(), 4);
  reader.Append(b.data(), 4);
  EXPECT_EQ(reader.Borrow(3), a.data());
  EXPECT_EQ(reader.Borrow(2), nullptr);  // "de" lies in two.
  EXPECT_TRUE(reader.Skip(1));
  EXPECT_EQ(reader.Borrow(4), b.data());
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_TRUE(reader.Skip(0));
  EXPECT_EQ(reader.Borrow(1), nullptr);
}

TEST(PayloadReaderTest, ResetForgetsTheOldMessage) {
  PayloadReader reader;
  reader.Append("abc", 3);
  reader.Skip(1);
  reader.Reset();
  EXPECT_EQ(reader.remaining(), 0u);
  reader.Append("de", 2);
  char to[2];
  ASSERT_TRUE(reader.Copy(to, 2, nullptr));
  EXPECT_EQ(to[0], 'd');
}

}  // namespace
}  // namespace shoal
