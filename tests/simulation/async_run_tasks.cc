// What the ps and workers of an AsyncRunWorld do.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "chief/training_session_testing.h"
#include "tests/simulation/async_run_world.h"

namespace shoal {

v1::Identity AsyncRunWorld::IdentityOf(v1::Job job, uint32_t index, uint64_t incarnation) const {
  v1::Identity identity;
  identity.set_run_id("run");
  identity.set_term(term_);
  *identity.mutable_member() = MemberOf(job, index);
  identity.set_incarnation(incarnation);
  identity.set_lineage(session_->state().lineage());
  return identity;
}

v1::RegisterTaskRequest AsyncRunWorld::Registration(v1::Job job, uint32_t index,
                                                    const std::string& nonce) const {
  v1::RegisterTaskRequest request = RegistrationOf(job, index, nonce, 10 * batches_);
  if (job != v1::JOB_WORKER) return request;
  v1::ModelDeclaration* model = request.mutable_model();
  model->set_evaluation_blocks(evaluation_blocks_);
  for (const char* name : {"c", "d", "e"}) {
    const v1::VariableSpec first = model->variables(0);
    *model->add_variables() = first;
    model->mutable_variables(model->variables_size() - 1)->set_name(name);
  }
  return request;
}

// Comes to life, registers, or renews its lease, which may have ended. True: it has a lease.
template <typename Task>
bool AsyncRunWorld::Beat(v1::Job job, uint32_t index, Task* task) {
  if (!task->is_alive) {
    if (!OneIn(20)) return false;
    *task = Task();
    task->is_alive = true;
    task->nonce = absl::StrCat("nonce", ++nonces_);
  }
  if (task->incarnation == 0) {
    const auto response = session_->Register(now_, Registration(job, index, task->nonce));
    if (response.ok()) task->incarnation = response->incarnation();
    return response.ok();
  }
  v1::HeartbeatRequest request;
  *request.mutable_identity() = IdentityOf(job, index, task->incarnation);
  task->is_alive = session_->Heartbeat(now_, request).ok();
  return task->is_alive;
}

void AsyncRunWorld::PsBeats(uint32_t index) { Beat(v1::JOB_PS, index, &ps_[index]); }

void AsyncRunWorld::WorkerBeats(uint32_t index) {
  Worker& worker = workers_[index];
  if (!Beat(v1::JOB_WORKER, index, &worker) || OneIn(2)) return;
  const v1::RunState& state = session_->state();
  worker.view = state.view();
  worker.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
}

// --- A ps.

bool AsyncRunWorld::CountsSteps(uint32_t ps) const {
  const RunPlan* plan = session_->plan();
  return plan->shard_map.owner(static_cast<int>(plan->table.report_slice())) == ps;
}

bool AsyncRunWorld::HasSlices(uint32_t ps) const {
  const auto& owner = session_->plan()->shard_map.owner();
  return std::find(owner.begin(), owner.end(), ps) != owner.end();
}

void AsyncRunWorld::PsActs(uint32_t index) {
  Ps& ps = ps_[index];
  const bool serves = ps.is_alive && ps.incarnation != 0;
  if (!ps.commands.empty()) {
    const bool loads = std::holds_alternative<v1::LoadSlicesRequest>(ps.commands.front().request);
    if (serves && loads && !OneIn(loaded_)) return;
    const PsCommand command = std::move(ps.commands.front());
    ps.commands.pop_front();
    if (serves && command.incarnation == ps.incarnation) return Obey(index, command);
    return session_->OnUndelivered(now_, command);
  }
  if (!serves) return;
  if (!ps.steps.empty() && OneIn(reported_)) return ReportSteps(index);
  if (!ps.writes.empty() && OneIn(3)) WriteShard(index);
}

void AsyncRunWorld::Obey(uint32_t index, const PsCommand& command) {
  Ps& ps = ps_[index];
  std::function<void()> answer = [this, command] { session_->OnFinishAnswer(command); };
  if (const auto* load = std::get_if<v1::LoadSlicesRequest>(&command.request)) {
    if (ps.lineage != load->identity().lineage()) Load(index, *load);
    v1::LoadSlicesResponse response;
    const uint64_t steps = broken_.loaded_steps ? ps.shard.updates : ps.loaded_updates;
    if (CountsSteps(index)) response.set_reported_steps(steps);
    answer = [=] { session_->OnLoadAnswer(now_, command, response); };
  } else if (const auto* asked = std::get_if<v1::GetAppliedRequest>(&command.request)) {
    const v1::GetAppliedResponse response = Applied(index, asked->epoch());
    answer = [=] { session_->OnAppliedAnswer(now_, command, response); };
  } else if (const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request)) {
    if (ps.lineage == 0) return;
    ForgetEpochsBefore(cut->first_kept_epoch(), &ps);
    const bool is_new = HasSlices(index) && ps.cuts.insert(cut->version()).second;
    if (is_new) ps.writes.push_back({cut->version(), ps.shard});
    answer = [=] { session_->OnCutAnswer(command, v1::RequestCutResponse()); };
  } else if (const auto* decide = std::get_if<v1::DecideBatchRequest>(&command.request)) {
    if (ps.lineage == 0) return;
    ps.skipped.insert(KeyOf(decide->batch()));
    answer = [=] { session_->OnDecideAnswer(command); };
  }
  if (!Happens(15)) answers_.push_back(answer);
  if (Happens(15)) answers_.push_back(answer);
}

void AsyncRunWorld::Load(uint32_t index, const v1::LoadSlicesRequest& request) {
  Ps& ps = ps_[index];
  ps.shard = Shard();
  if (!request.checkpoint().empty()) {
    if (manifests_.FindManifest(request.checkpoint()) == nullptr) {
      Fail("a ps loads what is no checkpoint");
    }
    const auto found = shards_.find({request.checkpoint(), absl::StrCat(index)});
    if (found != shards_.end()) ps.shard = found->second;
    if (broken_.applied_on_disk) ps.shard.applied.clear();
  }
  ps.lineage = request.identity().lineage();
  ps.loaded_updates = ps.shard.updates;
  for (const v1::BatchId& skip : request.skipped()) ps.skipped.insert(KeyOf(skip));
  ForgetEpochsBefore(request.first_kept_epoch(), &ps);
}

v1::GetAppliedResponse AsyncRunWorld::Applied(uint32_t index, uint32_t epoch) const {
  const Ps& ps = ps_[index];
  v1::GetAppliedResponse response;
  for (uint64_t i = 0; i < batches_; ++i) {
    const bool has =
        epoch < ps.first_kept_epoch || !HasSlices(index) || ps.shard.applied.count({epoch, i}) > 0;
    if (!has) continue;
    const int last = response.end_size() - 1;
    if (last >= 0 && response.end(last) == i) {
      response.set_end(last, i + 1);
    } else {
      response.add_begin(i);
      response.add_end(i + 1);
    }
  }
  return response;
}

void AsyncRunWorld::ForgetEpochsBefore(uint32_t epoch, Ps* ps) {
  ps->first_kept_epoch = std::max(ps->first_kept_epoch, epoch);
  std::set<BatchKey>& applied = ps->shard.applied;
  applied.erase(applied.begin(), applied.lower_bound({ps->first_kept_epoch, 0}));
}

void AsyncRunWorld::ReportSteps(uint32_t index) {
  Ps& ps = ps_[index];
  v1::ReportStepsRequest request;
  *request.mutable_identity() = IdentityOf(v1::JOB_PS, index, ps.incarnation);
  const auto end = ps.steps.begin() + static_cast<int64_t>(std::min(ps.steps.size(), 1 + Below(5)));
  for (auto step = ps.steps.begin(); step != end; ++step) *request.add_steps() = *step;
  if (Happens(10)) return;
  session_->ReportSteps(now_, request).IgnoreError();
  if (!Happens(10)) ps.steps.erase(ps.steps.begin(), end);
}

// Writes it first, then reports it until that is answered.
void AsyncRunWorld::WriteShard(uint32_t index) {
  Ps& ps = ps_[index];
  Write& write = ps.writes.front();
  const std::string directory = absl::StrCat("cut-", write.version, "-", term_, "-", ps.lineage);
  const std::string name = absl::StrCat(index);
  if (!std::exchange(write.is_written, true)) {
    if (shards_.count({directory, name}) > 0) Fail("a shard is written over another");
    shards_[{directory, name}] = write.shard;
    if (CountsSteps(index)) steps_of_[directory] = write.shard.updates;
    return;
  }
  v1::ReportShardRequest request;
  *request.mutable_identity() = IdentityOf(v1::JOB_PS, index, ps.incarnation);
  request.set_version(write.version);
  request.set_directory(directory);
  request.mutable_file()->set_name(name);
  if (CountsSteps(index)) request.set_reported_steps(write.shard.updates);
  if (Happens(10)) return;
  session_->ReportShard(now_, request).IgnoreError();
  if (!Happens(10)) ps.writes.pop_front();
}

AsyncRunWorld::Taken AsyncRunWorld::Push(uint32_t index, const BatchKey& batch) {
  Ps& ps = ps_[index];
  if (!HasSlices(index)) return Taken::kYes;
  const bool has = batch.epoch < ps.first_kept_epoch || ps.shard.applied.count(batch) > 0;
  if (has && !broken_.dedupe) return Taken::kYes;
  if (ps.skipped.count(batch) > 0) return Taken::kSkipped;
  ++ps.shard.times[batch];
  ps.shard.applied.insert(batch);
  ++ps.shard.updates;
  if (!CountsSteps(index)) return Taken::kYes;
  v1::StepReport& report = ps.steps.emplace_back();
  report.set_step(ps.shard.updates);
  report.set_epoch(batch.epoch);
  return Taken::kYes;
}

// --- A worker.

void AsyncRunWorld::WorkerActs(uint32_t index) {
  const Worker& worker = workers_[index];
  if (!worker.is_alive || worker.incarnation == 0 || session_->plan() == nullptr) return;
  if (!worker.leases.empty() && !OneIn(6)) return Compute(index);
  if (!worker.blocks.empty()) return Evaluate(index);
  Lease(index);
}

void AsyncRunWorld::Compute(uint32_t index) {
  Worker& worker = workers_[index];
  const v1::LeaseBatchesResponse::Lease lease = worker.leases.front();
  const BatchKey batch = KeyOf(lease.batch());
  bool ends = false;
  if (non_finite_.count(batch) > 0) {
    v1::ReportBadBatchRequest request;
    *request.mutable_identity() = IdentityOf(v1::JOB_WORKER, index, worker.incarnation);
    *request.mutable_batch() = lease.batch();
    request.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
    ends = session_->ReportBadBatch(now_, request).ok();
  } else {
    bool is_skipped = false;
    const bool is_delivered = Deliver(lease, &worker, &is_skipped);
    if (is_delivered) worker.finished.push_back(batch);
    ends = is_delivered || is_skipped;
  }
  if (!ends) return;
  worker.delivered.erase(batch);
  worker.leases.erase(worker.leases.begin());
}

// True: every ps that wants it has it.
bool AsyncRunWorld::Deliver(const v1::LeaseBatchesResponse::Lease& lease, Worker* worker,
                            bool* is_skipped) {
  const BatchKey batch = KeyOf(lease.batch());
  const std::set<uint32_t> wanted(lease.ps().begin(), lease.ps().end());
  std::set<uint32_t>& delivered = worker->delivered[batch];
  bool all = true;
  for (uint32_t i = 0; i < ps_.size(); ++i) {
    if ((!wanted.empty() && wanted.count(i) == 0) || delivered.count(i) > 0) continue;
    const Ps& ps = ps_[i];
    const bool is_reached = ps.is_alive && ps.lineage != 0 && i < worker->ps_incarnations.size() &&
                            worker->ps_incarnations[i] == ps.incarnation && !OneIn(4);
    const bool is_taken = is_reached && Push(i, batch) == Taken::kYes;
    *is_skipped = *is_skipped || (is_reached && !is_taken);
    if (is_taken && !Happens(10)) {
      delivered.insert(i);
    } else {
      all = false;
    }
  }
  return all;
}

void AsyncRunWorld::Evaluate(uint32_t index) {
  Worker& worker = workers_[index];
  v1::ReportEvaluationRequest request;
  *request.mutable_identity() = IdentityOf(v1::JOB_WORKER, index, worker.incarnation);
  request.set_version(worker.blocks.front().version());
  request.set_block(worker.blocks.front().block());
  request.set_examples(1);
  if (session_->ReportEvaluation(now_, request).ok()) worker.blocks.erase(worker.blocks.begin());
}

void AsyncRunWorld::Lease(uint32_t index) {
  Worker& worker = workers_[index];
  if (worker.unanswered.empty()) {
    worker.unanswered = std::exchange(worker.finished, {});
    ++worker.number;
  }
  v1::LeaseBatchesRequest request;
  *request.mutable_identity() = IdentityOf(v1::JOB_WORKER, index, worker.incarnation);
  request.mutable_identity()->set_view(worker.view);
  request.set_number(worker.number);
  request.set_want(static_cast<uint32_t>(1 + Below(4)));
  for (const BatchKey& batch : worker.unanswered) *request.add_finished() = ToProto(batch);
  const auto response = session_->LeaseBatches(now_, request);
  if (!response.ok() || Happens(10)) return;
  worker.unanswered.clear();
  TakeLeases(*response, &worker);
}

void AsyncRunWorld::TakeLeases(const v1::LeaseBatchesResponse& response, Worker* worker) {
  worker->leases.clear();
  std::map<BatchKey, std::set<uint32_t>> delivered;
  for (const v1::LeaseBatchesResponse::Lease& lease : response.leases()) {
    const BatchKey batch = KeyOf(lease.batch());
    const std::vector<BatchKey>& finished = worker->finished;
    if (std::find(finished.begin(), finished.end(), batch) != finished.end()) continue;
    worker->leases.push_back(lease);
    delivered[batch] = std::move(worker->delivered[batch]);
  }
  worker->delivered = std::move(delivered);
  worker->blocks.assign(response.evaluations().begin(), response.evaluations().end());
}

}  // namespace shoal
