#include "tests/simulation/simulated_ps.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "runtime/cluster/placement.h"
#include "runtime/process/protocol_version.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_store_config.h"

namespace shoal {
namespace {

std::vector<BatchKey> KeysOf(const google::protobuf::RepeatedPtrField<v1::BatchId>& batches) {
  std::vector<BatchKey> keys;
  for (const v1::BatchId& batch : batches) keys.push_back(KeyOf(batch));
  return keys;
}

class DiskSource : public SliceSource {
 public:
  DiskSource(const SimulatedDisk& disk, const std::string& directory)
      : disk_(disk), directory_(directory) {}

  absl::Status Fill(uint32_t slice, Contents* contents) override {
    SimulatedDisk::Record record;
    if (absl::Status status = disk_.Read(directory_, slice, &record); !status.ok()) return status;
    std::copy(record.value.begin(), record.value.end(), contents->value.begin());
    const size_t stride = VariableUpdater::slot_stride(contents->value.size());
    for (size_t k = 0; k < contents->slots.size(); ++k) {
      std::copy_n(record.slots.begin() + static_cast<ptrdiff_t>(k * stride), contents->value.size(),
                  contents->slots[k].begin());
    }
    if (record.version != kEveryVersion) contents->version = record.version;
    if (record.version != kEveryVersion) contents->value_version = record.value_version;
    return absl::OkStatus();
  }

 private:
  const SimulatedDisk& disk_;
  const std::string directory_;
};

}  // namespace

SimulatedPs::SimulatedPs(SyncWorld* world, uint32_t index)
    : world_(world),
      index_(index),
      term_(world->term),
      nonce_(absl::StrCat("nonce", world->next_nonce++)) {}

void SimulatedPs::Start() { Register(); }

void SimulatedPs::After(double seconds, std::function<void()> what) {
  world_->network.After(seconds, [self = shared_from_this(), what = std::move(what)] {
    if (self->alive_) what();
  });
}

void SimulatedPs::Register() {
  if (incarnation_ != 0) return;
  v1::RegisterTaskRequest request;
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_PS);
  request.mutable_identity()->mutable_member()->set_index(index_);
  request.set_nonce(nonce_);
  request.set_protocol(kProtocolVersion);
  request.set_address(absl::StrCat("ps", index_));
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.Register(world->network.now(), request);
      },
      [self = shared_from_this()](const absl::StatusOr<v1::RegisterTaskResponse>& response) {
        if (!self->alive_ || !response.ok() || self->incarnation_ != 0) return;
        self->incarnation_ = response->incarnation();
        self->Heartbeat();
      });
  After(1, [this] { Register(); });
}

void SimulatedPs::Heartbeat() {
  v1::HeartbeatRequest request;
  *request.mutable_identity() = IdentityOf(term_, v1::JOB_PS, index_, incarnation_, lineage_);
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.Heartbeat(world->network.now(), request);
      },
      [self = shared_from_this()](const absl::Status& status) {
        if (self->alive_ && absl::IsAborted(status))
          self->Kill();  // fenced: it exits and is started again
      });
  ReportSteps();
  ReportNorms();
  After(0.5, [this] { Heartbeat(); });
}

// Commands of the chief.

void SimulatedPs::OnCommand(const PsCommand& command) {
  if (!alive_ || command.incarnation != incarnation_) return;
  VirtualNetwork& network = world_->network;
  // Answers reach only the chief that asked.
  const auto answer_with = [world = world_, term = term_](auto take) {
    world->network.Send([world, term, take] {
      if (world->term == term) take(*world->session);
    });
  };
  if (const auto* load = std::get_if<v1::LoadSlicesRequest>(&command.request)) {
    if (load->identity().lineage() < lineage_) return;
    if (load->identity().lineage() > lineage_) Load(*load);
    answer_with([&network, command](TrainingSession& session) {
      session.OnLoadAnswer(network.now(), command, v1::LoadSlicesResponse());
    });
  } else if (const auto* withhold = std::get_if<v1::WithholdBatchRequest>(&command.request)) {
    if (!IsMine(withhold->identity().lineage())) return;
    const WithholdAnswer answer = store_->Withhold(KeyOf(withhold->batch()), withhold->number());
    v1::WithholdBatchResponse response;
    response.set_ignored(answer.ignored);
    response.set_all_have(answer.all_have);
    response.set_none_has(answer.none_has);
    answer_with([&network, command, response](TrainingSession& session) {
      session.OnWithholdAnswer(network.now(), command, response);
    });
  } else if (const auto* decide = std::get_if<v1::DecideBatchRequest>(&command.request)) {
    if (!IsMine(decide->identity().lineage())) return;
    store_->Decide(KeyOf(decide->batch()), decide->number(), decide->skip());
    Drain();
    answer_with([command](TrainingSession& session) { session.OnDecideAnswer(command); });
  } else if (const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request)) {
    if (!IsMine(cut->identity().lineage())) return;
    const CutAnswer answer = store_->RequestCut(cut->version());
    v1::RequestCutResponse response;
    response.set_passed(answer.passed);
    response.set_newest_version(answer.newest_version);
    Drain();
    answer_with(
        [command, response](TrainingSession& session) { session.OnCutAnswer(command, response); });
  } else {
    answer_with([command](TrainingSession& session) { session.OnFinishAnswer(command); });
  }
}

void SimulatedPs::Load(const v1::LoadSlicesRequest& request) {
  const bool stays = world_->scenario.broken.loads_only_the_lost && store_ != nullptr;
  serving_ = true;
  lineage_ = request.identity().lineage();
  parked_.clear();  // their callers ask again under the new lineage
  if (stays) return;
  unsent_steps_.clear();
  norms_.clear();
  cuts_.clear();

  const StepPlan plan = *StepPlan::FromProto(request.plan());
  if (store_ == nullptr) {
    SliceStoreOptions options = *SliceStoreOptionsFrom(request.run(), plan);
    options.staging_bytes = world_->scenario.staging_bytes;
    options.broken = world_->scenario.broken.store;
    const std::vector<uint32_t> owner(request.shard_map().owner().begin(),
                                      request.shard_map().owner().end());
    store_ = *SliceStore::Create(options, world_->model.variables(), world_->model.table(),
                                 SlicesOwnedBy(index_, owner));
  }
  const v1::Manifest* manifest = world_->disk.FindManifest(request.checkpoint());
  SliceStore::LoadOptions options{lineage_, manifest == nullptr ? 0 : manifest->step(), plan,
                                  KeysOf(request.skipped())};
  InitialValues initial(world_->model.variables(), world_->model.table(), request.run().seed());
  DiskSource disk(world_->disk, request.checkpoint());
  const absl::Status status =
      request.checkpoint().empty() ? store_->Load(options, initial) : store_->Load(options, disk);
  if (!status.ok())
    world_->Fail(absl::StrCat("ps/", index_, " cannot load: ", std::string(status.message())));
  Drain();
}

// The bulk path.

void SimulatedPs::OnExchange(const ExchangeMessage& message, const Reply& reply) {
  ExchangeReply answer;
  if (!alive_ || message.ps_incarnation != incarnation_) return;
  if (!serving_) {
    answer.code = ExchangeReply::kUnavailable;
    return reply(answer);
  }
  if (message.lineage != lineage_ && !world_->scenario.broken.lineage) {
    answer.code = ExchangeReply::kMoved;
    return reply(answer);
  }
  if (message.exchange.push) Push(message, &answer);
  const bool all_taken =
      std::all_of(answer.outcomes.begin(), answer.outcomes.end(), [](PushOutcome outcome) {
        return outcome == PushOutcome::kAccepted || outcome == PushOutcome::kDuplicate;
      });
  Drain();
  if (!message.exchange.pull || TryPull(message, &answer) || !all_taken) return reply(answer);
  const double wait = std::min(2.0, absl::ToDoubleSeconds(message.exchange.park));
  parked_.push_back({message, answer, reply, world_->network.now() + absl::Seconds(wait)});
  After(wait + 0.001, [this] { AnswerParked(); });
}

void SimulatedPs::Push(const ExchangeMessage& message, ExchangeReply* reply) {
  for (size_t i = 0; i < message.slices.size(); ++i) {
    SlicePush push;
    push.slice = message.slices[i];
    const uint32_t variable = world_->model.table()[push.slice].variable;
    const bool is_gradient =
        world_->model.variables()[variable].update() == v1::UPDATE_KIND_OPTIMIZER;
    push.kind = is_gradient ? ContributionKind::kDense : ContributionKind::kStatistic;
    push.batch = message.exchange.batch;
    push.step = message.exchange.step;
    push.position = message.exchange.position;
    push.examples = message.exchange.batch_examples;
    push.data = message.payloads[i].data();
    push.bytes = message.payloads[i].size() * sizeof(float);
    push.report = &message.exchange.report;
    reply->outcomes.push_back(store_->Push(push));
  }
}

// True: there is nothing to wait for.
bool SimulatedPs::TryPull(const ExchangeMessage& message, ExchangeReply* reply) const {
  reply->pulls.clear();
  reply->payloads.clear();
  reply->missing_positions.clear();
  bool is_complete = true;
  for (uint32_t slice : message.slices) {
    PulledSlice& pulled = reply->pulls.emplace_back();
    std::vector<float>& payload = reply->payloads.emplace_back();
    pulled.version = store_->newest_version(slice);
    if (message.exchange.versions_only) continue;
    const PullAnswer answer = store_->TryPull(slice, message.exchange.pull_version);
    if (answer.state == PullAnswer::kNotYet) {
      if (is_complete) store_->AppendMissingPositions(slice, &reply->missing_positions);
      is_complete = false;
    }
    if (answer.state != PullAnswer::kValue) continue;
    pulled.has_value = true;
    pulled.value_version = answer.value_version;
    payload.assign(answer.value->data(), answer.value->data() + answer.value->size());
  }
  return is_complete;
}

void SimulatedPs::AnswerParked() {
  for (size_t i = 0; i < parked_.size();) {
    const bool is_over = world_->network.now() >= parked_[i].deadline;
    if (!TryPull(parked_[i].message, &parked_[i].answer) && !is_over) {
      ++i;
      continue;
    }
    const Parked parked = std::move(parked_[i]);
    parked_.erase(parked_.begin() + static_cast<ptrdiff_t>(i));
    parked.reply(parked.answer);
  }
}

// What came of it.

void SimulatedPs::Drain() {
  SliceStoreEvents events;
  store_->TakeEvents(&events);
  if (!events.advances.empty()) {
    CheckDistance();
    AnswerParked();
  }
  for (const SliceStoreEvents::Step& step : events.steps) {
    v1::StepReport& report = unsent_steps_.emplace_back();
    report.set_step(step.step);
    report.set_loss_sum(step.loss_sum);
    report.set_regularization(step.regularization);
    report.set_correct(step.correct);
    report.set_examples(step.examples);
    report.set_learning_rate(step.learning_rate);
    report.set_epoch(step.epoch);
  }
  for (const SliceStoreEvents::Norm& norm : events.norms)
    norms_[norm.step][norm.slice] = norm.squared_norm;
  for (const SliceStoreEvents::CutPart& part : events.cuts) TakeCutPart(part);
  if (!events.steps.empty()) ReportSteps();
  if (!events.norms.empty()) ReportNorms();
}

// No slice is more than one version ahead of another, steps that are skipped whole not counted.
void SimulatedPs::CheckDistance() const {
  const StepPlan& plan = world_->session->plan()->steps;
  uint64_t lowest = kEveryVersion, highest = 0;
  for (const auto& [index, ps] : world_->ps) {
    if (!ps->serving_ || ps->lineage_ != lineage_ || ps->store_ == nullptr) continue;
    for (uint32_t slice : ps->store_->owned()) {
      const uint64_t version = ps->store_->newest_version(slice);
      if (version == kEveryVersion) continue;
      lowest = std::min(lowest, version);
      highest = std::max(highest, version);
    }
  }
  if (lowest == kEveryVersion) return;
  std::set<BatchKey> skipped;
  for (const v1::BatchId& batch : world_->session->state().skipped()) skipped.insert(KeyOf(batch));
  uint64_t distance = highest - lowest;
  for (uint64_t step = lowest; step < highest; ++step) {
    bool is_empty = true;
    for (uint32_t p = 0; p < plan.At(step).num_batches; ++p)
      is_empty &= skipped.count(plan.BatchAt(step, p)) != 0;
    if (is_empty) --distance;
  }
  if (distance > 1) world_->Fail(absl::StrCat("slices are at versions ", lowest, " to ", highest));
}

void SimulatedPs::TakeCutPart(const SliceStoreEvents::CutPart& part) {
  SimulatedDisk::Record record;
  record.value.assign(part.value->data(), part.value->data() + part.value->size());
  if (part.slots) record.slots.assign(part.slots->data(), part.slots->data() + part.slots->size());
  record.version = part.version;
  record.value_version = part.value_version;
  cuts_[part.cut][part.slice] = std::move(record);
  if (!part.completes_cut) return;
  // Writing takes a while; a lineage that ends meanwhile writes nothing.
  After(world_->network.Uniform(0.01, 0.3), [this, cut = part.cut, lineage = lineage_] {
    if (lineage != lineage_) return;
    const uint32_t checksum =
        world_->disk.WriteShard(absl::StrCat("step-", cut), index_, std::move(cuts_[cut]));
    cuts_.erase(cut);
    ReportShard(cut, checksum, lineage);
  });
}

void SimulatedPs::ReportShard(uint64_t version, uint32_t checksum, uint64_t lineage) {
  if (lineage != lineage_) return;
  v1::ReportShardRequest request;
  *request.mutable_identity() = IdentityOf(term_, v1::JOB_PS, index_, incarnation_, lineage);
  request.set_version(version);
  request.set_directory(absl::StrCat("step-", version));
  request.mutable_file()->set_name(absl::StrCat(index_));
  request.mutable_file()->set_crc32c(checksum);
  auto acknowledged = std::make_shared<bool>(false);
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.ReportShard(world->network.now(), request);
      },
      [acknowledged](const absl::Status& status) { *acknowledged = status.ok(); });
  After(1, [this, version, checksum, lineage, acknowledged] {
    if (!*acknowledged) ReportShard(version, checksum, lineage);
  });
}

void SimulatedPs::ReportSteps() {
  if (unsent_steps_.empty()) return;
  v1::ReportStepsRequest request;
  *request.mutable_identity() = IdentityOf(term_, v1::JOB_PS, index_, incarnation_, lineage_);
  for (const v1::StepReport& step : unsent_steps_) *request.add_steps() = step;
  const uint64_t last = unsent_steps_.back().step();
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.ReportSteps(world->network.now(), request);
      },
      [self = shared_from_this(), last, lineage = lineage_](const absl::Status& status) {
        if (!status.ok() || lineage != self->lineage_) return;
        while (!self->unsent_steps_.empty() && self->unsent_steps_.front().step() <= last) {
          self->unsent_steps_.pop_front();
        }
      });
}

void SimulatedPs::ReportNorms() {
  for (const auto& [step, norms] : norms_) {
    v1::ReportNormsRequest request;
    *request.mutable_identity() = IdentityOf(term_, v1::JOB_PS, index_, incarnation_, lineage_);
    request.set_step(step);
    for (const auto& [slice, squared_norm] : norms) {
      request.add_slices(slice);
      request.add_squared_norms(squared_norm);
    }
    world_->CallChief(
        [world = world_, request](TrainingSession& session) -> std::optional<double> {
          if (!session.ReportNorms(world->network.now(), request).ok()) return std::nullopt;
          return session.NormScale(request.identity().lineage(), request.step());
        },
        [self = shared_from_this(), step = step, lineage = lineage_](std::optional<double> scale) {
          if (!self->alive_ || lineage != self->lineage_ || !scale.has_value()) return;
          if (self->norms_.erase(step) == 0) return;
          self->store_->ApplyScale(step, *scale);
          self->Drain();
        });
  }
}

}  // namespace shoal
