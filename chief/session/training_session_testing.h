// (testonly) A TrainingSession with two ps and two workers.
#ifndef SHOAL_CHIEF_SESSION_TRAINING_SESSION_TESTING_H_
#define SHOAL_CHIEF_SESSION_TRAINING_SESSION_TESTING_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "chief/session/session_options_testing.h"
#include "chief/session/training_session.h"
#include "runtime/config/run_config.h"
#include "runtime/process/protocol_version.h"

namespace shoal {

inline v1::Member MemberOf(v1::Job job, uint32_t index) {
  v1::Member member;
  member.set_job(job);
  member.set_index(index);
  return member;
}

// Returns a task's registration. A worker's model has the variables "a" and "b" of four floats.
inline v1::RegisterTaskRequest RegistrationOf(v1::Job job, uint32_t index, const std::string& nonce,
                                              uint64_t train_examples) {
  v1::RegisterTaskRequest request;
  *request.mutable_identity()->mutable_member() = MemberOf(job, index);
  request.set_nonce(nonce);
  request.set_protocol(kProtocolVersion);
  request.set_address("address");
  if (job != v1::JOB_WORKER) return request;
  for (const char* name : {"a", "b"}) {
    v1::VariableSpec* variable = request.mutable_model()->add_variables();
    variable->set_name(name);
    variable->add_shape(4);
    variable->set_dtype(v1::DATA_TYPE_FLOAT32);
    variable->set_trainable(true);
    variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
  }
  request.mutable_model()->set_train_examples(train_examples);
  return request;
}

// Plays the two ps and two workers of a session. Time passes in PassTime.
class TrainingSessionTest : public ::testing::Test {
 protected:
  static TrainingSession::Options DefaultOptions() {
    TrainingSession::Options options = TestSessionOptions();
    options.run_id = "run";
    options.num_ps_tasks = 2;
    options.run.mutable_deployment()->set_num_ps_tasks(2);
    options.run.mutable_deployment()->set_num_replicas(2);
    options.run.mutable_sync()->set_replicas_to_aggregate(2);
    options.run.mutable_optimizer()->set_clip_by_global_norm(1);
    options.run.set_batch_size(10);
    options.run.set_num_epochs(1);
    options.run.mutable_cluster()->set_slice_bytes(64);
    ResolveDefaults(TaskCounts(), &options.run);
    return options;
  }

  explicit TrainingSessionTest(TrainingSession::Options options = DefaultOptions())
      : session_(std::make_unique<TrainingSession>(std::move(options))) {}

  v1::RegisterTaskRequest RequestOf(v1::Job job, uint32_t index, const std::string& nonce) const {
    v1::RegisterTaskRequest request = RegistrationOf(job, index, nonce, /*train_examples=*/80);
    if (job != v1::JOB_WORKER) return request;
    request.mutable_model()->set_evaluation_blocks(evaluation_blocks_);
    if (b_is_a_table_) {
      v1::TableSpec* const table = request.mutable_model()->mutable_variables(1)->mutable_table();
      table->set_buckets(2);
      table->mutable_optimizer()->set_learning_rate(rate_of_b_);
    }
    if (initial_values_ != 0) request.mutable_model()->set_initial_values(initial_values_ + index);
    return request;
  }

  void Register(v1::Job job, uint32_t index, const std::string& nonce = "first") {
    const auto response = session_->Register(now_, RequestOf(job, index, nonce));
    ASSERT_TRUE(response.ok()) << response.status();
    v1::Identity& identity = tasks_[{job, index}];
    identity.set_run_id("run");
    identity.set_term(1);
    *identity.mutable_member() = MemberOf(job, index);
    identity.set_incarnation(response->incarnation());
  }

  v1::Identity IdentityOf(v1::Job job, uint32_t index) const {
    v1::Identity identity = tasks_.at({job, index});
    identity.set_lineage(session_->state().lineage());
    return identity;
  }

  absl::Status Beat(v1::Job job, uint32_t index) {
    v1::HeartbeatRequest request;
    if (job == v1::JOB_WORKER) request = activities_[index];
    *request.mutable_identity() = IdentityOf(job, index);
    return session_->Heartbeat(now_, request);
  }

  void Leave(v1::Job job, uint32_t index, bool asked_to_leave = false) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = IdentityOf(job, index);
    request.set_leaving(true);
    request.set_asked_to_leave(asked_to_leave);
    ASSERT_TRUE(session_->Heartbeat(now_, request).ok());
  }

  std::vector<std::string> Lost() const {
    std::vector<std::string> names;
    const v1::GetRunStatusResponse status = session_->Status(now_);
    for (const v1::Member& member : status.lost()) {
      names.push_back(ToTaskId(member).ToString());
    }
    return names;
  }

  // Lets seconds pass in which all of `beating` renew their leases.
  void PassTime(int seconds, const std::vector<std::pair<v1::Job, uint32_t>>& beating) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      for (const auto& [job, index] : beating) Beat(job, index).IgnoreError();
      session_->Tick(now_);
      Act();
    }
  }

  // Lets the ps carry out their commands, except the one that hangs.
  void Act() {
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      if (hanging_ps_ == command.ps) continue;
      if (std::holds_alternative<v1::LoadSlicesRequest>(command.request)) {
        const auto error = load_errors_.find(command.ps);
        if (error != load_errors_.end()) {
          session_->OnLoadFailed(now_, command, error->second);
        } else {
          session_->OnAnswer(now_, command, v1::LoadSlicesResponse());
        }
      }
      if (const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request)) {
        cut_versions_.push_back(cut->version());
        if (answer_cuts_) session_->OnAnswer(now_, command, CutAnswerOf(command.ps, *cut));
      }
    }
    for (const SessionRecord& record : session_->TakeRecords()) {
      if (const auto* note = std::get_if<SessionNote>(&record)) notes_.push_back(note->text);
      if (const auto* write = std::get_if<ManifestToWrite>(&record)) manifests_.push_back(*write);
      if (const auto* cut = std::get_if<CutGivenUp>(&record)) given_up_.push_back(*cut);
    }
  }

  v1::RequestCutResponse CutAnswerOf(uint32_t ps, const v1::RequestCutRequest& request) const {
    v1::RequestCutResponse response;
    response.set_newest_version(ps_versions_[ps]);
    response.set_passed(ps_versions_[ps] > request.version());
    response.set_waits(ps_versions_[ps] < request.version());
    return response;
  }

  void StartTraining() {
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
    Act();
    ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  }

  void ReportStepsUpTo(uint64_t version) {
    v1::ReportStepsRequest steps;
    *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
    for (uint64_t step = session_->mode().newest_step() + 1; step <= version; ++step) {
      steps.add_steps()->set_step(step);
    }
    ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  }

  // Reports that both ps have passed the version and written their shards of it.
  void Cut(uint64_t version) {
    ReportStepsUpTo(version);
    for (const uint32_t ps : {0u, 1u}) {
      v1::ReportShardRequest shard;
      *shard.mutable_identity() = IdentityOf(v1::JOB_PS, ps);
      shard.set_version(version);
      shard.set_directory("cut-" + std::to_string(version));
      ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
    }
    Act();
  }

  void ManifestIsWritten(const ManifestToWrite& write) {
    session_->OnManifestWritten(now_, write, absl::OkStatus());
  }

  const std::vector<std::pair<v1::Job, uint32_t>> all_ = {
      {v1::JOB_PS, 0}, {v1::JOB_PS, 1}, {v1::JOB_WORKER, 0}, {v1::JOB_WORKER, 1}};
  const std::vector<std::pair<v1::Job, uint32_t>> ps_ = {{v1::JOB_PS, 0}, {v1::JOB_PS, 1}};
  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<TrainingSession> session_;
  std::map<std::pair<v1::Job, uint32_t>, v1::Identity> tasks_;
  std::optional<uint32_t> hanging_ps_;
  std::map<uint32_t, absl::Status> load_errors_;  // The errors with which loads fail, keyed by ps.
  bool answer_cuts_ = false;                      // The ps answer requests of cuts.
  uint64_t ps_versions_[2] = {0, 0};              // The versions of their slices in these answers.
  std::vector<uint64_t> cut_versions_;            // The versions in all requests of cuts.
  uint64_t evaluation_blocks_ = 0;
  bool b_is_a_table_ = false;
  double rate_of_b_ = 0.5;       // as a table
  uint64_t initial_values_ = 0;  // Worker 0 declares this number, worker i this number + i.
  std::map<uint32_t, v1::HeartbeatRequest> activities_;  // of workers
  std::vector<std::string> notes_;
  std::vector<ManifestToWrite> manifests_;
  std::vector<CutGivenUp> given_up_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_TRAINING_SESSION_TESTING_H_
