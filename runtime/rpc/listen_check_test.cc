#include "runtime/rpc/listen_check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "absl/strings/str_cat.h"

#include "base/failing_call.h"
#include "base/unique_fd.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// A listener at a free port of the loopback interface.
class Other {
 public:
  Other() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(socket_.get(), 1), 0);
    EXPECT_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
  }
  int port() const { return port_; }
  void Close() { socket_.Reset(); }

 private:
  UniqueFd socket_;
  int port_ = 0;
};

TEST(ListenCheckTest, APortInUseIsNamedWithTheRemedy) {
  Other other;
  const std::string address = absl::StrCat("127.0.0.1:", other.port());
  const absl::Status status = CheckCanListen(address);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("--listen_address: cannot listen at ", address,
                                     ": Address already in use; end the process")));
  other.Close();
  EXPECT_EQ(CheckCanListen(address), absl::OkStatus());
  EXPECT_EQ(CheckCanListen(address), absl::OkStatus());  // It holds nothing.
}

TEST(ListenCheckTest, AnAddressOfAnotherMachineIsNamed) {
  const absl::Status status = CheckCanListen("192.0.2.1:0");  // For documentation, RFC 5737.
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("name an address of this machine"));
}

TEST(ListenCheckTest, AnErrorThatMayPassIsUnavailable) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    RunWithFailingCall(SYS_socket, error, [] {
      const absl::Status status = CheckCanListen("127.0.0.1:0");
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("cannot listen at 127.0.0.1:0: "));
    });
  }
  RunWithFailingCall(SYS_bind, EACCES, [] {
    EXPECT_EQ(CheckCanListen("127.0.0.1:0").code(), absl::StatusCode::kFailedPrecondition);
  });
}

// The name server cannot be asked without a socket.
TEST(ListenCheckTest, ANameThatCannotBeLookedUpNowIsUnavailable) {
  RunWithFailingCall(SYS_socket, EMFILE, [] {
    const absl::Status status = CheckCanListen("host.invalid:0");
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  });
}

TEST(ListenCheckTest, FreePortsAndOtherFamiliesAreAccepted) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "unix:/tmp/s"}) {
    EXPECT_EQ(CheckCanListen(address), absl::OkStatus()) << address;
  }
}

}  // namespace
}  // namespace shoal
