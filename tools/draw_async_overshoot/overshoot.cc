#include "tools/draw_async_overshoot/overshoot.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "base/clock.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "proto/v1/identity.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/exchange_service.h"
#include "ps/parameter_shard.h"
#include "ps/ps_metrics.h"
#include "runtime/cluster/step_plan.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/rpc/remote_variable_store.h"
#include "runtime/transport/in_process_bulk_channel.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace {

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";
constexpr uint64_t kPsIncarnation = 1;
constexpr uint64_t kWorkerIncarnation = 1;
constexpr uint64_t kLineage = 1;

class NoObserver : public ShardObserver {
 public:
  void OnLineage(uint64_t) override {}
  void OnEvents(SliceStoreEvents*) override {}
};

v1::VariableSpec Parameter(float start) {
  v1::VariableSpec spec;
  spec.set_name("w");  // a scalar
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_trainable(true);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  spec.mutable_initializer()->set_a(start);
  return spec;
}

StepPlan PlanOf(const OvershootOptions& options) {
  StepPlan::Options plan;
  plan.examples_per_epoch = 2;  // one batch of one example for each worker
  plan.batch_examples = 1;
  plan.replicas_to_aggregate = options.synchronous ? 2 : 1;
  return *StepPlan::Create(plan);
}

// One ps that holds the parameter.
class ScriptedPs {
 public:
  explicit ScriptedPs(const OvershootOptions& options)
      : variables_({Parameter(options.start)}),
        table_(*SliceTable::Create(variables_, 256 << 10)),
        shard_(&clock_, &observer_),
        service_(&shard_, kDefaultMaxBulkPayloadBytes, &metrics_) {}
  ~ScriptedPs() { shard_.Drain(); }

  absl::Status Load(const OvershootOptions& options) {
    shard_.SetRules(ReceiverRules(kRunId, /*term=*/1, kPsIncarnation), [] { return true; });
    for (const uint32_t worker : {0, 1, 2}) shard_.LearnWorkers({{worker, kWorkerIncarnation}});
    v1::Identity chief;
    chief.set_run_id(kRunId);
    chief.set_term(1);
    chief.mutable_member()->set_job(v1::JOB_CHIEF);
    chief.set_lineage(kLineage);
    SliceStoreOptions store_options;
    store_options.synchronous = options.synchronous;
    store_options.update.schedule.learning_rate = options.learning_rate;
    ASSIGN_OR_RETURN(std::unique_ptr<SliceStore> store,
                     SliceStore::Create(store_options, variables_, table_, {0}));
    InitialValues source(variables_, table_, /*seed=*/1);
    RETURN_IF_ERROR(store->Load({kLineage, /*version=*/0, PlanOf(options), {}}, source));
    RETURN_IF_ERROR(shard_.BeginLoad(chief).status());
    shard_.EndLoad(std::move(store));
    return absl::OkStatus();
  }

  const Clock* clock() const { return &clock_; }
  const SliceTable& table() const { return table_; }
  BulkService* service() { return &service_; }

 private:
  RealClock clock_;
  const std::vector<v1::VariableSpec> variables_;
  const SliceTable table_;
  NoObserver observer_;
  ParameterShard shard_;
  PsMetrics metrics_;
  ExchangeService service_;
};

// One worker: the value it has read, and how it pushes.
class ScriptedWorker {
 public:
  ScriptedWorker(ScriptedPs* ps, uint32_t index, float target)
      : index_(index), target_(target), store_(ps->table(), OptionsOf(ps, index), ps->clock()) {
    StoreView view;
    view.term = view.view = 1;
    view.lineage = kLineage;
    view.ps_addresses = {"the only ps"};
    view.ps_incarnations = {kPsIncarnation};
    store_.SetView(view);
  }

  float value() const { return value_; }

  // Reads the value of `version`; in ASYNC the newest.
  absl::Status Pull(uint64_t version) {
    Exchange exchange = NewExchange();
    exchange.pull = true;
    exchange.pull_version = version;
    exchange.pull_data = &value_pointer_;
    exchange.park = absl::Seconds(10);
    return Run(exchange);
  }

  // Pushes the gradient at the value read before, as this worker's batch of the round.
  absl::Status Push(uint32_t round, uint64_t step) {
    const float gradient = 2 * (value_ - target_);
    const void* data = &gradient;
    Exchange exchange = NewExchange();
    exchange.push = true;
    exchange.batch = {round, index_};
    exchange.step = step;
    exchange.position = index_;
    exchange.batch_examples = 1;
    exchange.push_data = &data;
    exchange.pulled_versions = &pulled_version_;
    return Run(exchange);
  }

 private:
  static RemoteVariableStore::Options OptionsOf(ScriptedPs* ps, uint32_t index) {
    RemoteVariableStore::Options options;
    options.run_id = kRunId;
    options.worker_index = index;
    options.incarnation = kWorkerIncarnation;
    options.groups = MakeExchangeGroups(ps->table(), /*owner=*/{0});
    options.connect = [ps](const std::string&) { return NewInProcessBulkChannel(ps->service()); };
    return options;
  }

  static Exchange NewExchange() {
    Exchange exchange;
    exchange.lineage = kLineage;
    return exchange;
  }

  absl::Status Run(const Exchange& exchange) {
    Notification done;
    absl::Status status;
    store_.Start(exchange, [&](const ExchangeResult& result) {
      status = result.status;
      if (status.ok() && exchange.push && result.outcomes[0] != PushOutcome::kAccepted) {
        status = absl::InternalError("a contribution was not taken");
      }
      if (status.ok() && exchange.pull) {
        pulled_version_ = result.pulls[0].version;
        if (!result.pulls[0].has_value) status = absl::InternalError("the value is not there");
      }
      done.Notify();
    });
    done.Wait();
    return status;
  }

  const uint32_t index_;
  const float target_;
  RemoteVariableStore store_;
  float value_ = 0;
  float* value_pointer_ = &value_;
  uint64_t pulled_version_ = 0;
};

}  // namespace

absl::StatusOr<ValueTrace> PlayOvershoot(const OvershootOptions& options) {
  ScriptedPs ps(options);
  RETURN_IF_ERROR(ps.Load(options));
  ScriptedWorker first(&ps, 0, options.targets[0]);
  ScriptedWorker second(&ps, 1, options.targets[1]);
  ScriptedWorker onlooker(&ps, 2, 0);

  uint64_t updates = 0;
  RETURN_IF_ERROR(onlooker.Pull(updates));
  ValueTrace trace = {onlooker.value()};
  for (int round = 0; round < options.num_rounds; ++round) {
    RETURN_IF_ERROR(first.Pull(updates));
    RETURN_IF_ERROR(second.Pull(updates));
    const uint64_t step = updates;
    for (ScriptedWorker* worker : {&first, &second}) {
      RETURN_IF_ERROR(worker->Push(static_cast<uint32_t>(round), step));
      if (options.synchronous && worker == &first) continue;  // nothing is applied yet
      RETURN_IF_ERROR(onlooker.Pull(++updates));
      trace.push_back(onlooker.value());
    }
  }
  return trace;
}

double OvershootLoss(const OvershootOptions& options, double value) {
  const double minimum = (options.targets[0] + options.targets[1]) / 2;
  return (value - minimum) * (value - minimum);
}

}  // namespace shoal
