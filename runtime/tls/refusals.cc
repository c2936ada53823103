#include "runtime/tls/refusals.h"

#include <grpc/support/log.h>

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "runtime/process/recent_peers.h"

namespace shoal {

namespace {

// Returns whether a message of gRPC is not about a refusal. A client that dials an IP address while
// the certificate has only names, or none (like all of Shoal's), logs this for each connection but
// accepts the certificate.
bool IsNoError(absl::string_view message) {
  return absl::StartsWith(message, "No match found for server name");
}

}  // namespace

bool Refusals::IsFirst(const std::string& what, absl::Time now) {
  bool log_overflow = false;
  {
    MutexLock lock(&mutex_);
    const auto known = logged_.find(what);
    if (known != logged_.end() && now < known->second + kSilence) return false;
    if (logged_.size() >= kMost) {
      for (auto entry = logged_.begin(); entry != logged_.end();) {
        entry = now < entry->second + kSilence ? std::next(entry) : logged_.erase(entry);
      }
    }
    if (logged_.size() < kMost) {
      logged_[what] = now;
      return true;
    }
    log_overflow = now >= overflow_logged_ + kSilence;
    if (log_overflow) overflow_logged_ = now;
  }
  if (log_overflow) {
    LOG(WARNING) << "more than " << kMost << " kinds of refusal within " << kSilence
                 << "; further new refusals are not logged until older ones expire";
  }
  return false;
}

void LogHandshakesOnce() {
  // gRPC takes a function without data. Never destroyed: gRPC's threads may log until the end.
  static Refusals* const refusals = new Refusals;
  gpr_set_log_function([](gpr_log_func_args* args) {
    if (args->severity != GPR_LOG_SEVERITY_ERROR) return;
    const std::string message = args->message;
    if (IsNoError(message) || !refusals->IsFirst(message, absl::Now())) return;
    const bool of_handshake = absl::StrContains(message, "Handshake failed");
    LOG(WARNING) << "grpc: " << message << (of_handshake ? WasWith() : "");
  });
}

}  // namespace shoal
