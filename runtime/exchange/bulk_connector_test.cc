#include "runtime/exchange/bulk_connector.h"

#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/system_random.h"
#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/shared_memory_bulk_server.h"

namespace shoal {
namespace {

class BulkConnectorTest : public ::testing::Test {
 protected:
  // No port of TCP: another process cannot have it.
  const std::string address_ = absl::StrCat("127.0.0.1:", SystemRandomHex());
  BulkTestService service_;
  const std::unique_ptr<SharedMemoryBulkServer> server_ =
      std::move(SharedMemoryBulkServer::Start(address_, &service_).value());
};

// The lines that a connection to `address` leaves.
std::string LogOfConnecting(const std::string& address) {
  LogOptions log;
  log.file = absl::StrCat(testing::TempDir(), "/bulk_connector_log");
  EXPECT_TRUE(SetUpLog(log).ok());
  BulkConnector({}).Connect(address);
  EXPECT_TRUE(SetUpLog(LogOptions()).ok());
  std::stringstream lines;
  lines << std::ifstream(log.file).rdbuf();
  EXPECT_EQ(unlink(log.file.c_str()), 0);
  return lines.str();
}

// Only shared memory does without checksums.
TEST_F(BulkConnectorTest, SharedMemoryIsTakenWhereItIsOffered) {
  BulkConnector connector({});
  EXPECT_FALSE(connector.Connect(address_)->needs_checksums());
}

TEST_F(BulkConnectorTest, WithCredentialsSharedMemoryIsNotTaken) {
  BulkConnector::Options options;
  options.credentials = grpc::InsecureChannelCredentials();  // Any will do.
  BulkConnector connector(options);
  EXPECT_TRUE(connector.Connect(address_)->needs_checksums());
}

TEST_F(BulkConnectorTest, MissingSharedMemoryIsLogged) {
  EXPECT_EQ(LogOfConnecting(address_), "");
  const std::string nobody = absl::StrCat("127.0.0.1:", SystemRandomHex());
  EXPECT_THAT(LogOfConnecting(nobody), testing::HasSubstr(nobody + ", gRPC instead: "));
}

}  // namespace
}  // namespace shoal
