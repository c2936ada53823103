#include "runtime/rpc/refusals.h"

#include <grpc/support/log.h>

#include "absl/time/clock.h"

#include "base/log.h"

namespace shoal {

bool Refusals::IsFirst(const std::string& what, absl::Time now) {
  MutexLock lock(&mutex_);
  const auto known = said_.find(what);
  if (known == said_.end()) return said_.size() < kMost && said_.emplace(what, now).second;
  if (now < known->second + kSilence) return false;
  known->second = now;
  return true;
}

void LogHandshakesOnce() {
  // gRPC takes a function without data. Never destroyed: gRPC's threads may log until the end.
  static Refusals* const said = new Refusals;
  gpr_set_log_function([](gpr_log_func_args* args) {
    if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
    const std::string message = args->message;
    if (said->IsFirst(message, absl::Now())) LOG(WARNING) << "grpc: " << message;
  });
}

}  // namespace shoal
