#include "runtime/exchange/ps_links.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace shoal {

bool PsLinks::IsOutdated(const StoreView& view) const {
  const auto age = [](const StoreView& v) { return std::make_tuple(v.term, v.lineage, v.view); };
  return has_view_ && age(view) < age(view_);
}

std::vector<bool> PsLinks::FindMoved(const StoreView& view) const {
  const size_t num_ps = view.ps_addresses.size();
  std::vector<bool> moved(std::max(num_ps, channels_.size()), false);
  const auto incarnation_of = [](const StoreView& v, size_t ps) {
    return ps < v.ps_incarnations.size() ? v.ps_incarnations[ps] : 0;
  };
  for (size_t ps = 0; ps < moved.size(); ++ps) {
    const std::string address = ps < num_ps ? view.ps_addresses[ps] : "";
    const bool same = ps < view_.ps_addresses.size() && view_.ps_addresses[ps] == address &&
                      incarnation_of(view_, ps) == incarnation_of(view, ps);
    moved[ps] = !same;
  }
  return moved;
}

void PsLinks::Take(const StoreView& view, const std::vector<bool>& moved,
                   std::vector<Channel> channels) {
  channels_.resize(moved.size());
  links_.resize(moved.size());
  for (size_t ps = 0; ps < moved.size(); ++ps) {
    if (!moved[ps]) continue;
    links_[ps] = Link();
    if (channels_[ps] != nullptr) retired_.push_back(std::move(channels_[ps]));
    channels_[ps] = std::move(channels[ps]);
  }
  has_view_ = true;
  view_ = view;
  view_.ps_incarnations.resize(view_.ps_addresses.size(), 0);
}

void PsLinks::Close() {
  for (Channel& channel : channels_) {
    if (channel != nullptr) retired_.push_back(std::move(channel));
  }
  channels_.clear();
}

void PsLinks::NoteResult(uint32_t ps, const Channel& channel, bool answered, absl::Time sent,
                         absl::Time now) {
  if (ps >= channels_.size() || channel != channels_[ps]) return;
  Link& link = links_[ps];
  if (answered) {
    link = Link{/*is_proven=*/true, now, absl::InfiniteFuture()};
  } else {
    // It may have answered others since this call was sent.
    link.silent_since = std::min(link.silent_since, std::max(sent, link.answered));
  }
}

std::vector<PsLinks::Channel> PsLinks::TakeUnused() {
  std::vector<Channel> unused;
  for (Channel& channel : retired_) {
    // No thread is about to start a call on it, and none can take another reference.
    if (channel.use_count() == 1) unused.push_back(std::move(channel));
  }
  retired_.erase(std::remove(retired_.begin(), retired_.end(), nullptr), retired_.end());
  return unused;
}

}  // namespace shoal
