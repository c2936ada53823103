// (testonly) An asynchronous session whose tasks a test plays.
#ifndef SHOAL_CHIEF_SESSION_ASYNC_RUN_TESTING_H_
#define SHOAL_CHIEF_SESSION_ASYNC_RUN_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "chief/session/session_options_testing.h"
#include "chief/session/session_records_testing.h"
#include "chief/session/training_session.h"
#include "chief/session/training_session_testing.h"
#include "runtime/config/run_config.h"

namespace shoal {

// The number of batches of an epoch.
inline constexpr uint32_t kBatches = 4;

inline v1::BatchId Batch(uint64_t index) {
  v1::BatchId batch;
  batch.set_index(index);
  return batch;
}

// A session with two ps and one worker, and the calls that these would make.
class AsyncRunTest : public ::testing::Test {
 protected:
  static TrainingSession::Options OptionsOf(uint64_t save_every, uint32_t num_epochs = 1) {
    TrainingSession::Options options = TestSessionOptions();
    options.run_id = "run";
    options.num_ps_tasks = 2;
    options.run.mutable_sync()->set_sync_replicas(false);
    options.run.mutable_deployment()->set_num_ps_tasks(2);
    options.run.mutable_deployment()->set_num_replicas(1);
    options.run.mutable_checkpoint()->set_save_every(save_every);
    options.run.set_batch_size(10);
    options.run.set_num_epochs(num_epochs);
    options.run.mutable_cluster()->set_slice_bytes(64);
    ResolveDefaults(TaskCounts(), &options.run);
    return options;
  }

  explicit AsyncRunTest(uint64_t save_every = 100, uint32_t num_epochs = 1)
      : session_(std::make_unique<TrainingSession>(OptionsOf(save_every, num_epochs))) {}

  uint64_t Register(v1::Job job, uint32_t index, const std::string& nonce) {
    const auto response =
        session_->Register(now_, RegistrationOf(job, index, nonce, 10 * kBatches));
    EXPECT_TRUE(response.ok()) << response.status();
    return incarnations_[{job, index}] = response->incarnation();
  }

  void FillIdentity(v1::Job job, uint32_t index, v1::Identity* identity) {
    identity->set_run_id("run");
    identity->set_term(term_);
    identity->mutable_member()->set_job(job);
    identity->mutable_member()->set_index(index);
    identity->set_incarnation(incarnations_[{job, index}]);
    identity->set_lineage(session_->state().lineage());
    identity->set_view(session_->state().view());
  }

  void Stop() {
    v1::RequestStopRequest stop;
    stop.set_stop(true);
    EXPECT_TRUE(session_->RequestStop(now_, stop).ok());
    Settle();
  }

  // Starts another chief, which resumes from the checkpoint.
  void BeginAgain() {
    TrainingSession::Options options = OptionsOf(100);
    options.term = term_ = 2;
    options.manifest = manifest_;
    options.manifest_directory = "cut";
    session_ = std::make_unique<TrainingSession>(options);
  }

  // Lets the session, ps and the disk act until nothing more comes of it.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      session_->Tick(now_);
      for (const PsCommand& command : session_->TakeCommands(now_)) Answer(command);
      const std::vector<SessionRecord> records = session_->TakeRecords();
      for (std::string& text : ToText(records)) written_.push_back(std::move(text));
      for (const SessionRecord& record : records) {
        if (const auto* note = std::get_if<SessionNote>(&record)) notes_.push_back(note->text);
        const auto* write = std::get_if<ManifestToWrite>(&record);
        if (write == nullptr) continue;
        manifest_ = write->manifest;
        if (holds_manifests_) {
          held_manifests_.push_back(*write);
        } else {
          session_->OnManifestWritten(now_, *write, absl::OkStatus());
        }
      }
    }
  }

  void Answer(const PsCommand& command) {
    if (std::holds_alternative<v1::LoadSlicesRequest>(command.request)) {
      loads_.push_back(command.ps);
      first_kept_epoch_ = std::get<v1::LoadSlicesRequest>(command.request).first_kept_epoch();
      v1::LoadSlicesResponse response;
      response.set_reported_steps(loaded_steps_);
      session_->OnAnswer(now_, command, response);
    } else if (std::holds_alternative<v1::GetAppliedRequest>(command.request)) {
      v1::GetAppliedResponse response;
      if (applied_ > 0) {
        response.add_begin(0);
        response.add_end(applied_);
      }
      session_->OnAnswer(now_, command, response);
    } else if (const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request)) {
      if (ignores_cuts_) return;
      session_->OnAnswer(now_, command, v1::RequestCutResponse());
      first_kept_epoch_ = cut->first_kept_epoch();
      if (holds_shards_) return;
      EXPECT_TRUE(ReportShard(command.ps, cut->version()).ok());
    } else if (const auto* decide = std::get_if<v1::DecideBatchRequest>(&command.request)) {
      decisions_.push_back(std::to_string(command.ps) + (decide->skip() ? " skips " : " takes ") +
                           std::to_string(decide->batch().index()));
      if (!ignores_decisions_) session_->OnAnswer(now_, command, v1::DecideBatchResponse());
    } else {
      session_->OnAnswer(now_, command, v1::FinishResponse());
    }
  }

  absl::Status ReportShard(uint32_t ps, uint64_t version) {
    v1::ReportShardRequest shard;
    FillIdentity(v1::JOB_PS, ps, shard.mutable_identity());
    shard.set_version(version);
    shard.set_directory("cut-" + std::to_string(version));
    shard.mutable_file()->set_name("shard");
    if (ps == 0) shard.set_reported_steps(steps_in_shard_);
    return session_->ReportShard(now_, shard);
  }

  void Start() {
    Register(v1::JOB_PS, 0, "p0");
    Register(v1::JOB_PS, 1, "p1");
    Register(v1::JOB_WORKER, 0, "w0");
    Settle();
    ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
    loads_.clear();
  }

  // Reports lines from the ps that counts them.
  void ReportLines(uint64_t first, uint64_t last) {
    v1::ReportStepsRequest request;
    FillIdentity(v1::JOB_PS, 0, request.mutable_identity());
    for (uint64_t step = first; step <= last; ++step) *request.add_steps() = Report(step);
    EXPECT_TRUE(session_->ReportSteps(now_, request).ok());
  }

  void Leave(v1::Job job, uint32_t index) {
    v1::HeartbeatRequest leaving;
    FillIdentity(job, index, leaving.mutable_identity());
    leaving.set_leaving(true);
    ASSERT_TRUE(session_->Heartbeat(now_, leaving).ok());
  }

  void ReportNonFinite(uint64_t index) {
    v1::ReportBadBatchRequest bad;
    FillIdentity(v1::JOB_WORKER, 0, bad.mutable_identity());
    bad.mutable_batch()->set_index(index);
    bad.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
    ASSERT_TRUE(session_->ReportBadBatch(now_, bad).ok());
  }

  void RestartPs(uint32_t index) {
    Leave(v1::JOB_PS, index);
    Register(v1::JOB_PS, index, "again " + std::to_string(++restarts_));
  }

  // Lets a second pass in which all tasks send heartbeats.
  void PassASecond() {
    now_ += absl::Seconds(1);
    for (const auto& [task, incarnation] : incarnations_) {
      v1::HeartbeatRequest heartbeat;
      FillIdentity(task.first, task.second, heartbeat.mutable_identity());
      ASSERT_TRUE(session_->Heartbeat(now_, heartbeat).ok());
    }
    Settle();
  }

  v1::LeaseBatchesResponse Lease(const std::vector<v1::BatchId>& finished, uint32_t worker = 0) {
    v1::LeaseBatchesRequest request;
    FillIdentity(v1::JOB_WORKER, worker, request.mutable_identity());
    request.set_number(++calls_);
    request.set_want(1);
    for (const v1::BatchId& batch : finished) *request.add_finished() = batch;
    auto response = session_->LeaseBatches(now_, request);
    EXPECT_TRUE(response.ok()) << response.status();
    return *std::move(response);
  }

  // Finishes batches one by one, as many as it gets, up to `most`.
  int Work(int most) {
    std::vector<v1::BatchId> finished;
    int done = 0;
    while (true) {
      const v1::LeaseBatchesResponse response = Lease(finished);
      if (response.leases_size() == 0 || done == most) return done;
      finished = {response.leases(0).batch()};
      ++done;
    }
  }

  absl::Time now_ = absl::UnixEpoch();
  std::unique_ptr<TrainingSession> session_;
  std::map<std::pair<v1::Job, uint32_t>, uint64_t> incarnations_;
  uint64_t term_ = 1;
  uint64_t calls_ = 0;
  uint64_t applied_ = 0;            // the number of batches that loaded ps have
  bool holds_shards_ = false;       // no ps gets a shard written
  bool ignores_cuts_ = false;       // no ps answers a request for a cut
  bool ignores_decisions_ = false;  // no ps answers a decision
  bool holds_manifests_ = false;    // the disk is slow
  std::vector<ManifestToWrite> held_manifests_;
  // "1 skips 2": the decision that ps 1 received about batch 2.
  std::vector<std::string> decisions_;
  uint64_t loaded_steps_ = 0;      // the number of updates that a loaded ps 0 has counted
  uint64_t steps_in_shard_ = 0;    // the number of updates in its shard of a cut
  uint32_t first_kept_epoch_ = 0;  // The value in the last command to a ps.
  int restarts_ = 0;
  std::vector<std::string> written_;  // set by Settle
  std::vector<std::string> notes_;
  std::vector<uint32_t> loads_;
  v1::Manifest manifest_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ASYNC_RUN_TESTING_H_
