// The server's side of the bulk path over shared memory.
#ifndef SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_SERVER_H_
#define SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "runtime/transport/bulk.h"

namespace shoal {

// Serves clients of the same user on the same host; other users cannot connect. Clients may write
// to the shared memory at any time, also while the service reads a request there. So the server
// checks lengths on a copy. It does not protect gradient values, because a worker can send any
// values anyway. A client that does not read its replies does not block others: at most one reply
// for each slot waits for it.
class SharedMemoryBulkServer {
 public:
  // Starts a server beside the TCP server of this address. `service` must outlive the server and
  // its calls, which come on `num_threads` threads. Returns ALREADY_EXISTS if there is such a
  // server already, and UNAVAILABLE if the system has no such sockets. In both cases continue
  // without shared memory.
  static absl::StatusOr<std::unique_ptr<SharedMemoryBulkServer>> Start(const std::string& address,
                                                                       BulkService* service,
                                                                       size_t num_threads = 1);
  // The same as Stop.
  ~SharedMemoryBulkServer();
  SharedMemoryBulkServer(const SharedMemoryBulkServer&) = delete;
  SharedMemoryBulkServer& operator=(const SharedMemoryBulkServer&) = delete;

  // Closes all connections and drops later replies. Idempotent.
  void Stop();

 private:
  class Connection;
  class SlotCall;

  SharedMemoryBulkServer(UniqueFd listener, BulkService* service, size_t num_threads);
  void Run();
  void Accept();
  void Serve(uint32_t events, int fd);
  void Drop(const std::shared_ptr<Connection>& connection);
  void Watch(int fd, uint32_t events);
  void Unwatch(int fd);
  // Returns how long a thread may sleep, in milliseconds; -1: until an event.
  int SleepTime();

  const RealClock clock_;
  const UniqueFd listener_;
  const UniqueFd stop_;  // eventfd
  const UniqueFd epoll_;
  BulkService* const service_;
  const uint32_t message_events_;
  const int messages_in_a_row_;
  Mutex mutex_;
  // Keyed by socket.
  std::map<int, std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
  // No connection is accepted before this time.
  absl::Time accept_again_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::vector<std::thread> threads_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_SHARED_MEMORY_BULK_SERVER_H_
