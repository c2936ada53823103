#include "tests/simulation/simulated_store.h"

#include <algorithm>
#include <utility>

namespace shoal {

void SimulatedStore::Start(const Exchange& exchange, Done done) {
  const auto same_group = [&exchange](const auto& open) {
    return open.second.exchange.group == exchange.group;
  };
  if (std::count_if(open_.begin(), open_.end(), same_group) >= kMaxExchangesPerGroup) {
    world_->Fail("too many exchanges of a group are under way");
  }
  const uint64_t id = next_id_++;
  open_[id] = {exchange, std::move(done), world_->network.now()};
  if (exchange.lineage != view_.lineage) {
    AbortLater(id);
  } else {
    Attempt(id);
  }
}

void SimulatedStore::SetView(const StoreView& view) {
  if (view.lineage < view_.lineage) return;
  view_ = view;
  for (const auto& [id, open] : open_) {
    if (open.exchange.lineage != view.lineage) AbortLater(id);
  }
}

void SimulatedStore::AbortLater(uint64_t id) {
  world_->network.After(0.001, [self = shared_from_this(), id] {
    ExchangeResult result;
    result.status = absl::AbortedError("moved");
    self->End(id, result);
  });
}

void SimulatedStore::End(uint64_t id, const ExchangeResult& result) {
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  const Done done = std::move(it->second.done);
  open_.erase(it);
  done(result);
}

void SimulatedStore::Attempt(uint64_t id) {
  const auto it = open_.find(id);
  if (it == open_.end() || it->second.exchange.lineage != view_.lineage) return;
  const Exchange& exchange = it->second.exchange;
  const ExchangeGroup& group = groups_[exchange.group];
  ExchangeMessage message;
  message.ps_incarnation = view_.ps_incarnations[group.ps];
  message.lineage = exchange.lineage;
  message.slices = group.slices;
  message.exchange = exchange;
  for (size_t i = 0; i < group.slices.size() && exchange.push; ++i) {
    const float* data = static_cast<const float*>(exchange.push_data[i]);
    message.payloads.emplace_back(data, data + world_->model.table()[group.slices[i]].num_elements);
  }
  world_->network.Send([self = shared_from_this(), message, ps = group.ps, id] {
    const auto found = self->world_->ps.find(ps);
    if (found == self->world_->ps.end()) return;
    found->second->OnExchange(message, [self, id](const ExchangeReply& reply) {
      self->world_->network.Send([self, id, reply] { self->OnReply(id, reply); });
    });
  });
  const double patience =
      0.6 + absl::ToDoubleSeconds(exchange.pull ? exchange.park : absl::ZeroDuration());
  world_->network.After(std::min(patience, 2.8),
                        [self = shared_from_this(), id] { self->Attempt(id); });
}

void SimulatedStore::OnReply(uint64_t id, const ExchangeReply& reply) {
  const auto it = open_.find(id);
  if (it == open_.end() || reply.code != ExchangeReply::kOk)
    return;  // the next attempt comes by itself
  const Exchange& exchange = it->second.exchange;
  const bool is_busy =
      std::count(reply.outcomes.begin(), reply.outcomes.end(), PushOutcome::kBusy) > 0;
  if (is_busy && world_->network.now() - it->second.started < kBusyPatience) return;
  for (size_t i = 0; i < reply.pulls.size(); ++i) {
    if (reply.pulls[i].has_value) {
      std::copy(reply.payloads[i].begin(), reply.payloads[i].end(), exchange.pull_data[i]);
    }
  }
  ExchangeResult result;
  result.outcomes = reply.outcomes;
  result.pulls = reply.pulls;
  result.missing_positions = reply.missing_positions;
  End(id, result);
}

}  // namespace shoal
