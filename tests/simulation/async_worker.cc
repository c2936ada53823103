#include "tests/simulation/async_worker.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/simulation/async_chief.h"

namespace shoal {
namespace {

constexpr double kHeartbeatSeconds = 0.5;
constexpr double kCallTimeoutSeconds = 0.3;
constexpr double kExchangeTimeoutSeconds = 0.2;

uint64_t SumOf(const std::vector<float>& value) {
  return static_cast<uint64_t>(std::accumulate(value.begin(), value.end(), 0.0));
}

AsyncStepLogic::Options OptionsOf(AsyncWorld* world) {
  AsyncStepLogic::Options options;
  options.groups = world->groups();
  options.max_held = world->network().Between(1, 30);
  options.report_batches = world->network().Between(1, 6);
  return options;
}

}  // namespace

AsyncWorker::AsyncWorker(AsyncWorld* world, uint32_t index, uint64_t incarnation)
    : world_(world),
      index_(index),
      incarnation_(incarnation),
      logic_(OptionsOf(world), world->plan()) {
  for (Values& values : parameters_) values.resize(world->table().size());
}

void AsyncWorker::Start() { Heartbeat(); }

// Only while this life lasts.
void AsyncWorker::After(double seconds, std::function<void()> what) {
  world_->network().After(seconds, [self = shared_from_this(), what = std::move(what)] {
    if (self->is_alive_) what();
  });
}

// Some messages come once more long after everybody has forgotten them.
void AsyncWorker::SendAndRepeatLate(const std::function<void()>& deliver) {
  VirtualNetwork& network = world_->network();
  network.Send(deliver);
  const bool is_faulty = network.now() < network.faults().until;
  if (is_faulty && network.Chance(0.02)) network.After(network.Uniform(1, 30), deliver);
}

void AsyncWorker::Heartbeat() {
  world_->network().Send([self = shared_from_this(), this] {
    if (world_->chief() == nullptr) return;
    const AsyncChief::HeartbeatReply reply = world_->chief()->OnHeartbeat(index_, incarnation_);
    world_->network().Send([self, this, reply] {
      if (!is_alive_) return;
      if (reply.is_fenced) {
        world_->KillWorker(index_);
        return;
      }
      if (reply.view.number > view_.number) view_ = reply.view;
      logic_.OnView(reply.view);
      Pump();
    });
  });
  After(kHeartbeatSeconds, [this] { Heartbeat(); });
}

void AsyncWorker::Pump() {
  while (is_alive_) {
    const AsyncAction action = logic_.Next(world_->network().now());
    if (action.kind == AsyncAction::kWait) {
      if (action.wake > world_->network().now() && action.wake < absl::InfiniteFuture()) {
        After(absl::ToDoubleSeconds(action.wake - world_->network().now()), [this] { Pump(); });
      }
      return;
    }
    Execute(action);
  }
}

void AsyncWorker::Execute(const AsyncAction& action) {
  switch (action.kind) {
    case AsyncAction::kWait:
      return;
    case AsyncAction::kLease:
      return Call();
    case AsyncAction::kPull:
      for (uint32_t group : action.groups) {
        auto pending = std::make_shared<Pending>();
        pending->ticket = action.ticket;
        pending->target_set = action.parameter_set;
        pending->exchange.group = group;
        StartExchange(std::move(pending));
      }
      return;
    case AsyncAction::kEvaluate:
      return Evaluate(action);
    case AsyncAction::kCompute:
      return Compute(action);
    case AsyncAction::kReportBad:
      return ReportBad(action);
  }
}

void AsyncWorker::Call() {
  const LeaseCall call = logic_.lease_call();
  SendAndRepeatLate([self = shared_from_this(), this, call, view = view_.number] {
    if (world_->chief() == nullptr) return;
    LeaseAnswer answer;
    if (!world_->chief()->OnLeaseCall(index_, incarnation_, view, call, &answer)) return;
    world_->network().Send([self, this, number = call.number, answer] {
      if (!is_alive_) return;
      logic_.OnLeaseAnswer(world_->network().now(), number, answer);
      Pump();
    });
  });
  After(kCallTimeoutSeconds, [this, number = call.number] {
    logic_.OnLeaseFailed(world_->network().now(), number);
    Pump();
  });
}

// The values that a batch is computed from contain exactly the updates that their versions say.
void AsyncWorker::CheckVersions(const AsyncAction& action) {
  for (uint32_t group = 0; group < world_->groups().size(); ++group) {
    const ExchangeGroup& of = world_->groups()[group];
    if (!of.versioned) continue;
    for (size_t i = 0; i < of.slices.size(); ++i) {
      const uint64_t sum = SumOf(parameters_[action.parameter_set][of.slices[i]]);
      if (sum != logic_.PulledVersions(group)[i]) world_->Fail("values are not of their version");
    }
  }
}

void AsyncWorker::Compute(const AsyncAction& action) {
  CheckVersions(action);
  VirtualNetwork& network = world_->network();
  const double seconds = network.Chance(0.02) ? network.Uniform(1, 6) : network.Uniform(0.05, 0.3);
  const AsyncWorld::Badness* badness = world_->BadnessOf(action.batch);
  if (badness != nullptr && *badness == AsyncWorld::Badness::kCrash) {
    After(seconds / 2, [this] {
      // The launcher sees the signal and tells the chief about it.
      if (world_->chief() != nullptr && batch_in_hand().has_value()) {
        world_->chief()->OnCrash(index_, incarnation_, *batch_in_hand());
      }
      world_->KillWorker(index_);
    });
    return;
  }
  bool is_first = true;
  const auto before = std::make_shared<Values>(parameters_[action.parameter_set]);
  for (uint32_t group = 0; group < world_->groups().size(); ++group) {
    if (!world_->groups()[group].versioned) continue;
    const double when = seconds * (group + 1) / static_cast<double>(world_->groups().size());
    After(when, [this, action, group, is_first, before] {
      if (*before != parameters_[action.parameter_set]) {
        world_->Fail("values changed under a computation");
      }
      PushGroup(action, group, is_first);
    });
    is_first = false;
  }
}

void AsyncWorker::PushGroup(const AsyncAction& action, uint32_t group, bool is_first) {
  const AsyncWorld::Badness* badness = world_->BadnessOf(action.batch);
  const bool is_bad_loss = badness != nullptr && *badness == AsyncWorld::Badness::kLoss;
  const bool is_bad_gradient = badness != nullptr && *badness == AsyncWorld::Badness::kGradient;
  if (is_bad_loss || (is_bad_gradient && !is_first)) {
    logic_.OnNotPushed(action.ticket, group);
    return Pump();
  }
  auto pending = std::make_shared<Pending>();
  pending->ticket = action.ticket;
  pending->target_set = action.next_parameter_set;
  pending->exchange.group = group;
  pending->exchange.batch = action.batch;
  const auto wants = logic_.WantsPush(group);
  const auto versions = logic_.PulledVersions(group);
  pending->exchange.wants.assign(wants.begin(), wants.end());
  pending->exchange.pulled_versions.assign(versions.begin(), versions.end());
  pending->exchange.is_finite =
      badness == nullptr || *badness != AsyncWorld::Badness::kPayload || is_first;
  StartExchange(std::move(pending));
}

void AsyncWorker::StartExchange(std::shared_ptr<Pending> pending) {
  if (pending->is_done) return;
  const uint32_t ps_index = world_->groups()[pending->exchange.group].ps;
  const uint64_t incarnation = view_.ps_incarnations[ps_index];
  SendAndRepeatLate([self = shared_from_this(), this, pending, ps_index, incarnation] {
    const std::shared_ptr<AsyncPs> ps = world_->ps(ps_index);
    if (ps == nullptr || !ps->is_alive()) return;
    auto reply =
        std::make_shared<AsyncExchangeReply>(ps->OnExchange(incarnation, pending->exchange));
    world_->network().Send([self, this, pending, reply] {
      if (is_alive_ && !pending->is_done) OnReply(pending.get(), *reply);
    });
  });
  After(kExchangeTimeoutSeconds, [this, pending = std::move(pending)] { StartExchange(pending); });
}

void AsyncWorker::OnReply(Pending* pending, const AsyncExchangeReply& reply) {
  if (reply.code == AsyncExchangeReply::kNotServing) return;
  if (reply.code == AsyncExchangeReply::kMoved && !world_->settings().aborts_moved) return;
  pending->is_done = true;
  ExchangeResult result;
  if (reply.code == AsyncExchangeReply::kMoved) {
    result.status = absl::AbortedError("moved");
  } else {
    result.outcomes = reply.outcomes;
    result.pulls = reply.pulls;
    const std::vector<uint32_t>& slices = world_->groups()[pending->exchange.group].slices;
    for (size_t i = 0; i < slices.size(); ++i) {
      parameters_[pending->target_set][slices[i]] = reply.values[i];
    }
  }
  logic_.OnExchange(pending->ticket, pending->exchange.group, result);
  Pump();
}

void AsyncWorker::Evaluate(const AsyncAction& action) {
  for (uint32_t slice = 0; slice < world_->table().size(); ++slice) {
    if (!world_->is_undisturbed() || !world_->table().slice_is_versioned(slice)) continue;
    if (SumOf(parameters_[action.parameter_set][slice]) != action.version) {
      world_->Fail("an evaluation with values of another version");
    }
  }
  After(world_->network().Uniform(0.02, 0.2), [this, action] { ReportBlock(action); });
}

// Asks the chief until it answers.
void AsyncWorker::Ask(std::shared_ptr<Question> question) {
  if (question->is_done) return;
  world_->network().Send([self = shared_from_this(), this, question] {
    if (world_->chief() == nullptr) return;
    question->ask(world_->chief());
    world_->network().Send([self, this, question] {
      if (!is_alive_ || std::exchange(question->is_done, true)) return;
      question->then();
      Pump();
    });
  });
  After(kCallTimeoutSeconds, [this, question = std::move(question)] { Ask(question); });
}

void AsyncWorker::ReportBlock(const AsyncAction& action) {
  auto question = std::make_shared<Question>();
  question->ask = [action](AsyncChief* chief) { chief->OnBlock(action.version, action.block); };
  question->then = [this, action] { logic_.OnEvaluated(action.ticket); };
  Ask(std::move(question));
}

void AsyncWorker::ReportBad(const AsyncAction& action) {
  auto question = std::make_shared<Question>();
  question->ask = [action](AsyncChief* chief) { chief->OnBadBatch(action.batch); };
  question->then = [this, action] { logic_.OnReported(action.ticket); };
  Ask(std::move(question));
}

}  // namespace shoal
