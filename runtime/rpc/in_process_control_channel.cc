#include "runtime/rpc/in_process_control_channel.h"

namespace shoal {
namespace {

class InProcessControlChannel : public ControlChannel {
 public:
  explicit InProcessControlChannel(grpc::Service* service) : service_(service) {}

  absl::Status Make(const ControlCall& call) override {
    const grpc::Status status = call.serve(service_, *call.request, call.response);
    return {static_cast<absl::StatusCode>(status.error_code()), status.error_message()};
  }

 private:
  grpc::Service* const service_;
};

}  // namespace

std::unique_ptr<ControlChannel> NewInProcessControlChannel(grpc::Service* service) {
  return std::make_unique<InProcessControlChannel>(service);
}

}  // namespace shoal
