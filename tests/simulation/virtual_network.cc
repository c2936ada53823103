#include "tests/simulation/virtual_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shoal {
namespace {

constexpr double kMeanDelaySeconds = 0.03;

}  // namespace

void VirtualNetwork::After(double seconds, std::function<void()> what) {
  events_.push_back({now_ + absl::Seconds(seconds), ++num_events_, std::move(what)});
  std::push_heap(events_.begin(), events_.end());
}

void VirtualNetwork::Send(const std::function<void()>& deliver) {
  const bool is_faulty = now_ < faults_.until;
  if (is_faulty && Chance(faults_.lose)) return;
  const int copies = is_faulty && Chance(faults_.repeat) ? 2 : 1;
  for (int i = 0; i < copies; ++i) After(-kMeanDelaySeconds * std::log1p(-Fraction()), deliver);
}

bool VirtualNetwork::Advance() {
  if (events_.empty()) return false;
  std::pop_heap(events_.begin(), events_.end());
  Event event = std::move(events_.back());
  events_.pop_back();
  now_ = event.when;
  event.what();
  return true;
}

}  // namespace shoal
