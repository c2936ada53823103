#include "deploy/build_info.h"

#include <gnu/libc-version.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <oneapi/dnnl/dnnl.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "runtime/process/protocol_version.h"
#include "worker/program/program_messages.h"

namespace shoal {

// Defined in build_stamp.cc.
extern const char* const kStampedCommit;

namespace {

#ifdef __clang__
constexpr char kCompiler[] = __VERSION__;
#else
constexpr char kCompiler[] = "GCC " __VERSION__;
#endif

std::string DnnlVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace

std::string DescribeCommit(absl::string_view stamped) {
  // A commit is 40 hexadecimal digits, and "-modified" if the working tree differed from it.
  const absl::string_view digits = stamped.substr(0, 40);
  bool is_commit = digits.size() == 40;
  for (const char digit : digits) is_commit = is_commit && absl::ascii_isxdigit(digit);
  return is_commit ? absl::StrCat("commit ", stamped) : "";
}

std::string DescribeBuild() {
  const std::string commit = DescribeCommit(kStampedCommit);
  return absl::StrCat("built ", commit.empty() ? "" : absl::StrCat("from ", commit, " "), "with ",
                      kCompiler, commit.empty() ? "; its commit was not recorded" : "", "\n",
                      "libraries: oneDNN ", DnnlVersion(), ", gRPC ", grpc::Version(),
                      ", Protobuf ",
                      google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION),
                      ", glibc ", gnu_get_libc_version(), "\n", "protocols: tasks ",
                      kProtocolVersion, ", compute programs ", kComputeProtocol);
}

}  // namespace shoal
