// Tests the errors of the file system; the tests of CSV and Criteo files read lines of all kinds.
#include "ml/data/records/text_lines.h"

#include <errno.h>
#include <sys/syscall.h>
#include <zstd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class TextLinesTest : public ::testing::Test {
 protected:
  // Writes a file of one line that is longer than what is read at a time, and whose bytes cannot be
  // compressed much.
  std::string Write(bool compressed) {
    const std::string path = ::testing::TempDir() + "/lines";
    std::string text;
    uint64_t number = 1;
    for (int k = 0; k < 1 << 20; ++k) {
      number = number * 6364136223846793005u + 1442695040888963407u;
      text.push_back(static_cast<char>('0' + (number >> 60)));
    }
    if (compressed) {
      std::string packed(ZSTD_compressBound(text.size()), '\0');
      packed.resize(ZSTD_compress(&packed[0], packed.size(), text.data(), text.size(), 1));
      text = packed;
    }
    EXPECT_OK(WriteAtomically(*NewPosixFileSystem(), path, text));
    return path;
  }
};

TEST_F(TextLinesTest, AnErrorOfTheFileSystemIsNotDamage) {
  for (const bool compressed : {false, true}) {
    const std::string path = Write(compressed);
    for (const int error : {EIO, ESTALE, EMFILE}) {
      for (const long call : {SYS_openat, SYS_read}) {
        RunWithFailingCall(call, error, [&] {
          EXPECT_THAT(TextLines::Open(path),
                      StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path)));
        });
      }
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<TextLines> lines, TextLines::Open(path));
      RunWithFailingCall(SYS_read, error, [&] {
        absl::string_view line;
        EXPECT_THAT(lines->Next(&line), StatusIs(absl::StatusCode::kUnavailable, HasSubstr(path)));
      });
    }
  }
}

TEST_F(TextLinesTest, AFileThatCannotBeReadAtAllIsRefused) {
  const std::string path = Write(/*compressed=*/false);
  RunWithFailingCall(SYS_openat, EACCES, [&] {
    EXPECT_THAT(TextLines::Open(path), StatusIs(absl::StatusCode::kPermissionDenied));
  });
  EXPECT_THAT(TextLines::Open(path + ".none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(TextLines::Open(::testing::TempDir()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("check data.directory")));
}

}  // namespace
}  // namespace shoal
