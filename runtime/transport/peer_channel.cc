#include "runtime/transport/peer_channel.h"

#include <grpcpp/channel.h>

#include <utility>

namespace shoal {

PeerChannel::PeerChannel(Make make, absl::Duration renew_after)
    : make_(std::move(make)),
      renew_after_(renew_after),
      channel_(make_()),
      made_(std::chrono::steady_clock::now()) {}

PeerChannel::~PeerChannel() = default;

std::shared_ptr<grpc::Channel> PeerChannel::channel() {
  std::shared_ptr<grpc::Channel> old;  // Let go of without the lock.
  MutexLock lock(&mutex_);
  if (channel_->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_TRANSIENT_FAILURE) {
    return channel_;
  }
  const auto now = std::chrono::steady_clock::now();
  if (absl::FromChrono(now - made_) < renew_after_) return channel_;
  old = std::move(channel_);
  channel_ = make_();
  made_ = now;
  return channel_;
}

}  // namespace shoal
