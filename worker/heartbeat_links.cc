#include "worker/heartbeat_links.h"

#include <cstddef>
#include <cstdint>

namespace shoal {
namespace {

// A ps that does not answer for so long is reported to the chief.
constexpr absl::Duration kSilence = absl::Seconds(3);

}  // namespace

void AddLinks(const std::vector<RemoteExchanges::Link>& links, absl::Time now,
              ChiefSession::Activity* activity) {
  activity->reaches_all_ps = !links.empty();
  for (size_t ps = 0; ps < links.size(); ++ps) {
    const bool is_silent = now - links[ps].silent_since >= kSilence;
    if (is_silent) activity->silent_ps.push_back(static_cast<uint32_t>(ps));
    if (is_silent || !links[ps].is_proven) activity->reaches_all_ps = false;
  }
}

}  // namespace shoal
