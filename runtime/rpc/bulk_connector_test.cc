#include "runtime/rpc/bulk_connector.h"

#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "runtime/transport/bulk_test_service.h"
#include "runtime/transport/shared_memory_bulk_server.h"

namespace shoal {
namespace {

class BulkConnectorTest : public ::testing::Test {
 protected:
  // No port of TCP: another process cannot have it.
  const std::string address_ = absl::StrCat("127.0.0.1:", getpid() + 200000);
  BulkTestService service_;
  const std::unique_ptr<SharedMemoryBulkServer> server_ =
      std::move(SharedMemoryBulkServer::Start(address_, &service_).value());
};

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

}  // namespace
}  // namespace shoal
