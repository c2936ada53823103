// The gRPC channel to one peer, for clients that outlive connections.
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

// A channel looks its peer's name up ever more seldom while the name is unknown (gRPC 1.51: after
// 1, 1.6, 2.6, ... up to 120 s), and nothing makes it look sooner; the name of a pod that was
// deleted is unknown until another pod has it. So a channel that cannot connect is replaced, at
// most once every `renew_after`, by a new one, which looks at once. Thread-safe.
class PeerChannel {
 public:
  using Make = std::function<std::shared_ptr<grpc::Channel>()>;

  // Calls `make` now and for every new channel, with a lock held.
  explicit PeerChannel(Make make, absl::Duration renew_after = absl::Seconds(1));
  ~PeerChannel();
  PeerChannel(const PeerChannel&) = delete;
  PeerChannel& operator=(const PeerChannel&) = delete;

  // What to make the next call on; ask for every call. Calls that are under way on an older channel
  // end there.
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
