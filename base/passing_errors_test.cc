#include "base/passing_errors.h"

#include <errno.h>
#include <netdb.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::StartsWith;

TEST(PassingErrorsTest, AnErrorOfAFileServerANetworkOrAFullTableMayPass) {
  for (const int error :
       {EIO,          EREMOTEIO,    ESTALE,     ENOTCONN,  ESHUTDOWN, ENODEV,   ENXIO,
        ECONNABORTED, ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTDOWN, ENETDOWN, EHOSTUNREACH,
        EMFILE,       ENFILE,       ENOBUFS,    ENOMEM,    ENOLCK,    EAGAIN,   EINTR}) {
    EXPECT_TRUE(IsPassingError(error)) << error;
    EXPECT_THAT(StatusOfErrno(error, "a"), StatusIs(absl::StatusCode::kUnavailable)) << error;
  }
}

TEST(PassingErrorsTest, AnErrorThatSomebodyMustActOnKeepsItsCode) {
  for (const int error : {ENOENT, EACCES, EPERM, EROFS, EISDIR, ENOTDIR, EEXIST, EINVAL, EFBIG,
                          ENOSPC, EDQUOT, EADDRINUSE, ENOSYS, EOPNOTSUPP}) {
    EXPECT_FALSE(IsPassingError(error)) << error;
  }
  EXPECT_THAT(StatusOfErrno(ENOENT, "a"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(StatusOfErrno(EACCES, "a"), StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(StatusOfErrno(EEXIST, "a"), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(StatusOfErrno(ENOSPC, "a"), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(PassingErrorsTest, TheStatusNamesWhatFailedAndTheError) {
  EXPECT_EQ(StatusOfErrno(ENOTCONN, "cannot read a").message(),
            "cannot read a: Transport endpoint is not connected");
  EXPECT_THAT(StatusOfErrno(ENOENT, "cannot read a"),
              StatusIs(absl::StatusCode::kNotFound, StartsWith("cannot read a: No such file")));
}

TEST(PassingErrorsTest, ALookupMayPassUnlessTheNameIsUnknown) {
  for (const int result : {EAI_AGAIN, EAI_MEMORY, EAI_SYSTEM}) EXPECT_TRUE(IsPassingLookup(result));
  for (const int result : {EAI_NONAME, EAI_SERVICE, EAI_FAMILY, EAI_FAIL}) {
    EXPECT_FALSE(IsPassingLookup(result));
  }
}

}  // namespace
}  // namespace shoal
