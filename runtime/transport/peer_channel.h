// The gRPC channel to one peer, for clients that outlive their connections.
#ifndef SHOAL_RUNTIME_TRANSPORT_PEER_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_PEER_CHANNEL_H_

#include <chrono>
#include <functional>
#include <memory>

#include "absl/time/time.h"

#include "base/mutex.h"

namespace grpc {
class Channel;
}

namespace shoal {

// A gRPC channel resolves an unknown name less and less often (gRPC 1.51: after 1, 1.6, 2.6, ... up
// to 120 s), and cannot be made to do it sooner. The name of a deleted pod is unknown until another
// pod has it. So a channel that cannot connect is replaced, at most once every `renew_after`, by a
// new one, which resolves the name at once. Thread-safe.
class PeerChannel {
 public:
  using Make = std::function<std::shared_ptr<grpc::Channel>()>;

  // Calls `make` now and for every new channel, with a lock held.
  explicit PeerChannel(Make make, absl::Duration renew_after = absl::Seconds(1));
  ~PeerChannel();
  PeerChannel(const PeerChannel&) = delete;
  PeerChannel& operator=(const PeerChannel&) = delete;

  // Returns the channel for the next call; call this for every call. Calls that are under way on an
  // older channel end there.
  std::shared_ptr<grpc::Channel> channel();

 private:
  const Make make_;
  const absl::Duration renew_after_;

  Mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point made_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_PEER_CHANNEL_H_
