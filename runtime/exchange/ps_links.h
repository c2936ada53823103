// The channels of a worker to its ps, and what is known of each link.
#ifndef SHOAL_RUNTIME_EXCHANGE_PS_LINKS_H_
#define SHOAL_RUNTIME_EXCHANGE_PS_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// Follows the views of the run: which ps is where, in which incarnation. A ps that has moved or was
// restarted gets a new channel, and the link's state begins anew. Not thread-safe; it holds no
// thread and no clock.
class PsLinks {
 public:
  using Channel = std::shared_ptr<BulkChannel>;

  // The state of the link to one ps, in the incarnation that the view names.
  struct Link {
    bool is_proven = false;                      // The ps has answered.
    absl::Time answered = absl::InfinitePast();  // When it last answered.
    // Since when it has been called without answering.
    absl::Time silent_since = absl::InfiniteFuture();
  };

  // The newest view that was taken.
  bool has_view() const { return has_view_; }
  const StoreView& view() const { return view_; }
  // Returns whether a newer view was taken already.
  bool IsOutdated(const StoreView& view) const;
  // Returns flags, indexed by ps: whether its address or incarnation differs in `view`. There are
  // more flags than ps in the view if a former view had more ps.
  std::vector<bool> FindMoved(const StoreView& view) const;
  // Takes the view, with the flags that FindMoved returned and a channel for each flagged ps that
  // has an address; null for the others. Former channels of these ps are retired.
  void Take(const StoreView& view, const std::vector<bool>& moved, std::vector<Channel> channels);
  // Retires all channels.
  void Close();

  // Returns the channel to the ps; null if there is none.
  Channel channel(uint32_t ps) const { return ps < channels_.size() ? channels_[ps] : nullptr; }
  // Returns the incarnation of the ps in the view. There must be a channel to it.
  uint64_t incarnation(uint32_t ps) const { return view_.ps_incarnations[ps]; }
  // Returns the address of the ps in the view; empty if it has none.
  std::string address(uint32_t ps) const {
    return ps < view_.ps_addresses.size() ? view_.ps_addresses[ps] : "";
  }

  // Indexed by ps of the view.
  const std::vector<Link>& all() const { return links_; }
  // Notes that a call, which was sent over this channel at the time `sent`, was answered or not. It
  // has no effect if another process is at the ps's place now.
  void NoteResult(uint32_t ps, const Channel& channel, bool answered, absl::Time sent,
                  absl::Time now);

  bool has_retired() const { return !retired_.empty(); }
  // Returns the retired channels to which no other reference is left. The caller destroys them.
  std::vector<Channel> TakeUnused();

 private:
  bool has_view_ = false;
  StoreView view_;
  std::vector<Channel> channels_;  // Indexed by ps; may be null.
  std::vector<Channel> retired_;   // Channels to former addresses of ps.
  std::vector<Link> links_;        // Indexed by ps.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_PS_LINKS_H_
