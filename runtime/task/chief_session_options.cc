#include "runtime/task/chief_session_options.h"

#include <unistd.h>

#include <memory>

#include "absl/time/time.h"

#include "base/host_name.h"
#include "base/system_random.h"
#include "runtime/config/run_config.h"

namespace shoal {

ChiefSession::Options ChiefSessionOptionsFor(const TaskOptions& options) {
  const v1::ClusterOptions& cluster = options.run.cluster();
  ChiefSession::Options session;
  session.task = options.task;
  session.host = HostName();
  session.process_id = static_cast<uint32_t>(getpid());
  session.shared_run = std::make_shared<v1::RunConfig>(SharedByAllTasks(options.run));
  session.run_directory = options.run.out();
  session.num_ps_tasks = options.given_num_ps_tasks;
  session.num_replicas = options.given_num_replicas;
  session.nonce = SystemRandomHex();
  session.secure = options.credentials != nullptr;
  session.chief_address = options.chief_address;
  session.register_patience = absl::Seconds(cluster.wait_seconds());
  session.lease = absl::Seconds(cluster.lease_seconds());
  return session;
}

}  // namespace shoal
