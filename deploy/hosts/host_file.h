// The hosts of a run that is started over ssh, and the assignment of tasks to them.
//
//   # name       one host a line
//   alpha        roles=chief,ps
//   beta         slots=2
//   10.1.2.3     slots=4 roles=worker user=train port=2222 address=gamma.cluster
#ifndef SHOAL_DEPLOY_HOSTS_HOST_FILE_H_
#define SHOAL_DEPLOY_HOSTS_HOST_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/cluster/task.h"

namespace shoal {

struct HostLine {
  std::string name;     // The name given to ssh; may be an alias of its configuration.
  std::string user;     // Empty: ssh chooses.
  uint32_t port = 0;    // 0: ssh chooses.
  std::string address;  // Name or IP address at which the host's tasks serve; no port.
  uint32_t slots = 0;   // The largest number of workers; 0: any number.
  bool takes_chief = true;
  bool takes_ps = true;
  bool takes_workers = true;
};

// Parses a file such as the one above. `path` is for messages: INVALID_ARGUMENT has the text
// "PATH:LINE: what is wrong; what to do".
absl::StatusOr<std::vector<HostLine>> ParseHostFile(absl::string_view text, absl::string_view path);

// Assigns each task a host, by index into the hosts.
class Placement {
 public:
  // The chief goes to the first host that accepts it. The ps, and then the workers, are distributed
  // in turn over the hosts that accept them; workers only while there are slots. Returns
  // INVALID_ARGUMENT if there is no host or too few slots.
  static absl::StatusOr<Placement> Create(const std::vector<HostLine>& hosts, uint32_t num_ps,
                                          uint32_t num_workers);

  size_t FindHost(TaskId task) const;
  uint32_t num_workers() const { return static_cast<uint32_t>(workers_.size()); }
  // The number of a worker among those of its host, from 0.
  uint32_t LocalIndexOf(uint32_t worker) const { return local_indices_[worker]; }

 private:
  size_t chief_ = 0;
  std::vector<size_t> ps_;
  std::vector<size_t> workers_;
  std::vector<uint32_t> local_indices_;  // Indexed by worker.
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_HOST_FILE_H_
