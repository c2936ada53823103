// Sends requests of the bulk path to a ps that holds variables: with any header, any payload, and
// also with a valid identity, so that the code behind the receiver's rules is reached.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "base/crc32c.h"
#include "proto/v1/bulk.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/transport/bulk.h"
#include "runtime/transport/bulk_test_service.h"
#include "tests/fuzz/fuzz_target.h"

namespace shoal {
namespace {

// Loads the ps again from time to time, so that not all batches are duplicates.
class Shard {
 public:
  explicit Shard(bool synchronous) : synchronous_(synchronous) {
    channel_ = cluster_.Connect(cluster_.servers[0]->address());
  }

  void Send(bool is_known, absl::string_view header, absl::string_view payload) {
    if (sent_++ % 200 == 0) CheckFuzzed(cluster_.Load(++lineage_, synchronous_).ok());
    BulkTestCall call;
    call.header = is_known ? Known(header, payload) : std::string(header);
    call.payloads = {{payload.data(), payload.size(), nullptr, nullptr}};
    channel_->Start(&call);
    call.Wait();
    if (!call.status.ok()) return;
    v1::ExchangeResponse response;
    CheckFuzzed(response.ParseFromString(call.received_header));
  }

 private:
  // A request from a worker of this run; the first push has the checksum of the first payload.
  std::string Known(absl::string_view header, absl::string_view payload) const {
    v1::ExchangeRequest request;
    if (!request.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
      return std::string(header);
    }
    v1::Identity* const identity = request.mutable_identity();
    *identity = PsLoadRequest(lineage_, synchronous_).identity();
    identity->mutable_member()->set_job(v1::JOB_WORKER);
    identity->set_incarnation(10);
    request.set_receiver_incarnation(1);
    request.set_park_milliseconds(request.park_milliseconds() % 3);
    size_t begin = 0;
    for (auto& push : *request.mutable_pushes()) {
      const size_t bytes = std::min<size_t>(push.payload_bytes(), payload.size() - begin);
      if (push.crc32c() % 4 != 0) push.set_crc32c(Crc32c(payload.data() + begin, bytes));
      begin += bytes;
    }
    return request.SerializeAsString();
  }

  const bool synchronous_;
  PsTestCluster cluster_{PsForm::kInProcess};
  std::unique_ptr<BulkChannel> channel_;
  uint64_t sent_ = 0;
  uint64_t lineage_ = 0;
};

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static shoal::Shard* const shards[] = {new shoal::Shard(true), new shoal::Shard(false)};
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  const int how = shoal::TakeChoice(&input, 4);
  const size_t header =
      std::min<size_t>(input.size(), 2 * static_cast<size_t>(shoal::TakeChoice(&input, 256)));
  shards[how % 2]->Send(how / 2 == 0, input.substr(0, std::min(header, input.size())),
                        input.substr(std::min(header, input.size())));
  return 0;
}
