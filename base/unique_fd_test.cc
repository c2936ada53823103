#include "base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "gtest/gtest.h"

namespace shoal {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesWhatItOwns) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    write_end.Reset();
    EXPECT_FALSE(IsOpen(ends[1]));
    EXPECT_TRUE(IsOpen(read_end.get()));
  }
  EXPECT_FALSE(IsOpen(ends[0]));
}

TEST(UniqueFdTest, MoveAndReleasePassOwnershipOn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd first(ends[0]);
  UniqueFd second(ends[1]);
  second = std::move(first);
  EXPECT_FALSE(IsOpen(ends[1]));
  EXPECT_FALSE(
      first.is_valid());  // NOLINT(bugprone-use-after-move): what a move leaves is promised.
  const int fd = second.Release();
  EXPECT_FALSE(second.is_valid());
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

}  // namespace
}  // namespace shoal
