// A compute program in C++ (docs/compute_program.md): a linear model of four inputs, computed by
// hand. In modes that begin with "tables" the loss of example e is larger by the first number of
// row e % 7 of a table; "tables_ahead" names the keys of an announced batch, and "tables_only" has
// no variables and no other loss. Its argument, if any, is the way in which it misbehaves; see
// compute_program_test.cc.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/random.h"
#include "runtime/variables/score_histogram.h"
#include "worker/program/program_messages.h"

namespace shoal {
namespace {

constexpr uint64_t kTrainExamples = 240;
constexpr uint64_t kTestExamples = 50;
constexpr uint32_t kFeatures = 4;
constexpr float kTrueWeights[kFeatures] = {1, -2, 0.5f, 3};

enum Variable : uint32_t { kWeights, kBias, kMean, kConstant, kNumVariables };

struct Arrays {
  uint64_t parameters[2];
  uint64_t contributions[2];
};

struct Work {
  bool evaluates = false;
  uint64_t number = 0;
  uint64_t batch = 0;
  uint32_t parameter_set = 0;
  uint32_t contribution_set = 0;
  std::vector<uint64_t> examples;
};

std::string Mode(int argc, char** argv) { return argc > 1 ? argv[1] : ""; }

class ToyProgram {
 public:
  explicit ToyProgram(std::string mode)
      : mode_(std::move(mode)),
        speaks_version_1_(mode_ == "speaks_version_1"),
        has_tables_(absl::StartsWith(mode_, "tables")),
        socket_(Descriptor("SHOAL_PROGRAM_SOCKET")) {}

  int Run() {
    if (mode_ == "ends_at_once") return 3;
    if (mode_ == "is_no_program") {
      const std::string text = "GET / HTTP/1.1\r\n\r\n";
      output_ += text;
      Send();
      return Await();
    }
    Hello();
    if (mode_ == "fails_before_ready") {
      Error(1, "toy.cc:1: there is no data", "Traceback:\n  line 1");
      return 1;
    }
    if (mode_ == "lacks_something") {
      Error(3, "toy.cc:2: a library is not there", "");
      return 1;
    }
    if (mode_ == "ends_before_ready") return 0;
    if (mode_ == "hangs_before_ready") return Await();
    Declare();
    if (!Take()) return 0;
    if (type_ == ProgramMessage::kFinish) return 0;
    if (mode_ == "forks" && fork() == 0) pause();
    MapMemory();
    if (!arrays_.empty()) WriteInitialValues();
    { MessageWriter writer(ProgramMessage::kReady, &output_); }
    Send();
    while (Take() && type_ != ProgramMessage::kFinish) {
      if (type_ == ProgramMessage::kAnnounce) continue;
      mode_ == "tables_only" ? ComputeRows(TakeWork()) : Compute(TakeWork());
    }
    if (mode_ == "explains_a_refusal") ExplainRefusal();
    if (mode_ == "continues") usleep(2500000);
    if (mode_ == "continues_for_ever") pause();
    if (mode_ == "continues") std::puts("the work behind the run is done");
    return 0;
  }

 private:
  static int Descriptor(const char* name) {
    const char* const text = std::getenv(name);
    if (text == nullptr) {
      std::fprintf(stderr, "toy_program: %s is not set; shoal starts this program\n", name);
      std::exit(64);
    }
    return std::atoi(text);
  }

  // Does nothing until the worker is gone.
  int Await() {
    while (Take()) {
    }
    return 0;
  }

  void Send() {
    size_t sent = 0;
    while (sent < output_.size()) {
      const ssize_t now = send(socket_, output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) std::exit(0);  // The worker is gone.
      sent += static_cast<size_t>(now);
    }
    output_.clear();
  }

  bool Receive(char* to, size_t bytes) const {
    while (bytes > 0) {
      const ssize_t now = recv(socket_, to, bytes, 0);
      if (now <= 0) return false;
      to += now;
      bytes -= static_cast<size_t>(now);
    }
    return true;
  }

  // Receives the next message; false: the worker is gone.
  bool Take() {
    std::array<char, kMessageHeadBytes> head;
    if (!Receive(head.data(), head.size())) return false;
    MessageReader reader(absl::string_view(head.data(), head.size()));
    payload_.resize(reader.U32());
    type_ = static_cast<ProgramMessage>(reader.U32());
    return Receive(payload_.data(), payload_.size());
  }

  void Hello() {
    MessageWriter(ProgramMessage::kHello, &output_)
        .U64(kComputeMagic)
        .U32(mode_ == "is_too_new" ? kComputeProtocol + 1 : 1)
        .U32(speaks_version_1_ ? 1 : kComputeProtocol + 1)
        .Text("toy");
    Send();
    Take();
  }

  // The metrics beside accuracy.
  void DeclareMetrics(MessageWriter* writer) const {
    const uint32_t others = speaks_version_1_ ? 1 : mode_ == "declares_17_metrics" ? 16 : 2;
    writer->U32(1 + others).Text("accuracy");
    if (speaks_version_1_) {
      writer->Text("mean_error");
      return;
    }
    writer->U32(mode_ == "accuracy_is_auc" ? 2 : 1);
    writer->Text(mode_ == "odd_metric_name"        ? "mean error"
                 : mode_ == "reserved_metric_name" ? "loss"
                                                   : "mean_error");
    writer->U32(mode_ == "unknown_metric_kind" ? 3 : 1);
    writer->Text("auc").U32(2);
    for (uint32_t m = 2; m < others; ++m) writer->Text(absl::StrCat("m", m)).U32(1);
  }

  void DeclareVariables(MessageWriter* writer) const {
    if (mode_ == "tables_only") {
      writer->U32(0);
      return;
    }
    writer->U32(kNumVariables);
    writer->Text("linear.weight").U32(1).U32(2);
    writer->U64(mode_ == "empty_dimension" ? 0 : 1).U64(kFeatures);
    writer->Text(mode_ == "one_name_twice" ? "linear.weight" : "linear.bias").U32(1).U32(1).U64(1);
    writer->Text("input_mean").U32(2).U32(0);
    writer->Text("constant").U32(mode_ == "unknown_kind" ? 9 : 3).U32(1).U64(2);
  }

  std::string DescribeTables() const {
    if (!has_tables_) return "";
    if (mode_ == "tables_named_bad") return "table { name: 'a/b' dim: 2 }";
    if (mode_ == "tables_of_adam") {
      return "table { name: 'item' dim: 2 optimizer { adam { learning_rate: 0.5 } } "
             "admission { min_count: 3 } }";
    }
    return "table { name: 'item' dim: 2 }";
  }

  void Declare() {
    {
      MessageWriter writer(ProgramMessage::kDeclare, &output_);
      writer.U64(kTrainExamples).U64(kTestExamples).U64(17).U32(2).Text("toy on a CPU");
      writer.Text(mode_ == "other_settings" ? "out: '/tmp'" : "num_epochs: 2 batch_size: 24");
      DeclareMetrics(&writer);
      DeclareVariables(&writer);
      if (!speaks_version_1_) writer.Text(DescribeTables());
    }
    Send();
  }

  void Error(uint32_t kind, absl::string_view message, absl::string_view traceback) {
    MessageWriter(ProgramMessage::kError, &output_).U32(kind).Text(message).Text(traceback);
    Send();
  }

  // Answers a FINISH that says that the run refuses the declaration.
  void ExplainRefusal() {
    MessageReader reader(payload_);
    if (reader.U32() != static_cast<uint32_t>(FinishReason::kRefused)) return;
    Error(1, absl::StrCat("toy.cc:9: ", reader.Text(payload_.size())), "");
  }

  static char* Map(const char* name, uint64_t bytes, int protection) {
    void* const memory = mmap(nullptr, bytes, protection, MAP_SHARED, Descriptor(name), 0);
    if (memory == MAP_FAILED) {
      std::perror("toy_program: mmap");
      std::exit(65);
    }
    return static_cast<char*>(memory);
  }

  void MapMemory() {
    MessageReader reader(payload_);
    const uint64_t parameter_bytes = reader.U64();
    const uint64_t contribution_bytes = reader.U64();
    arrays_.resize(reader.U32());
    for (Arrays& arrays : arrays_) {
      for (uint64_t& offset : arrays.parameters) offset = reader.U64();
      for (uint64_t& offset : arrays.contributions) offset = reader.U64();
    }
    parameters_ = Map("SHOAL_PROGRAM_PARAMETERS", parameter_bytes, PROT_READ);
    contributions_ = Map("SHOAL_PROGRAM_CONTRIBUTIONS", contribution_bytes, PROT_READ | PROT_WRITE);
    if (mode_ == "maps_parameters_writable" &&
        mmap(nullptr, parameter_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
             Descriptor("SHOAL_PROGRAM_PARAMETERS"), 0) != MAP_FAILED) {
      std::exit(66);
    }
    if (mode_ == "truncates" && ftruncate(Descriptor("SHOAL_PROGRAM_CONTRIBUTIONS"), 0) == 0) {
      std::exit(67);
    }
  }

  const float* Parameter(uint32_t set, uint32_t variable) const {
    return reinterpret_cast<const float*>(parameters_ + arrays_[variable].parameters[set]);
  }
  float* Contribution(uint32_t set, uint32_t variable) const {
    return reinterpret_cast<float*>(contributions_ + arrays_[variable].contributions[set]);
  }

  Work TakeWork() const {
    MessageReader reader(payload_);
    Work work;
    work.evaluates = type_ == ProgramMessage::kEvaluate;
    work.number = reader.U64();
    reader.U64();  // The step.
    const uint64_t epoch = reader.U64();
    work.batch = epoch * 1000 + reader.U64();
    reader.U64();  // The seed.
    work.parameter_set = reader.U32();
    work.contribution_set = reader.U32();
    work.examples.resize(reader.U64());
    for (uint64_t& example : work.examples) example = reader.U64();
    return work;
  }

  // Computes for eight seconds, in pieces of 100 ms.
  void EvaluateSlowly(const Work& work) {
    for (int piece = 0; piece < 80; ++piece) {
      usleep(100000);
      ReportProgress(work.number);
    }
  }

  void ReportProgress(uint64_t work) {
    MessageWriter(ProgramMessage::kProgress, &output_).U64(work);
    Send();
  }

  void Final(const Work& work, uint32_t variable) {
    MessageWriter(ProgramMessage::kFinal, &output_).U64(work.number).U32(variable);
    Send();
  }

  // Names the keys of an announced batch.
  void LookAhead(const Work& work, const std::string& announced) {
    MessageReader reader(announced);
    const uint64_t epoch = reader.U64();
    const uint64_t index = reader.U64();
    std::set<uint64_t> keys;
    for (uint64_t left = reader.U64(); left > 0; --left) keys.insert(reader.U64() % 7);
    {
      MessageWriter writer(ProgramMessage::kLookAhead, &output_);
      writer.U64(work.number).U64(epoch).U64(index).U32(1).U32(0).U64(keys.size());
      for (const uint64_t key : keys) writer.U64(key);
    }
    Send();
  }

  // Looks up the rows of a batch. Returns the sum over the examples of the first numbers of their
  // rows, after it has written the gradients: the share of the examples that have the key, and 1.
  double LookUpRows(const Work& work) {
    std::map<uint64_t, double> count_of;
    for (const uint64_t example : work.examples) ++count_of[example % 7];
    if (mode_ == "tables_finish_first" && !work.evaluates) Final(work, kBias);
    {
      MessageWriter writer(ProgramMessage::kLookUp, &output_);
      writer.U64(work.number).U32(1).U32(mode_ == "tables_unknown" ? 1 : 0).U64(count_of.size());
      for (const auto& [key, count] : count_of) writer.U64(mode_ == "tables_fall" ? 9 - key : key);
    }
    Send();
    std::string announced;  // The first announcement during this work.
    while (Take() && type_ == ProgramMessage::kAnnounce) {
      if (announced.empty()) announced = payload_;
    }
    if (type_ != ProgramMessage::kRows) std::exit(0);
    if (mode_ == "tables_ahead" && !announced.empty()) LookAhead(work, announced);
    MessageReader reader(payload_);
    reader.U64();  // The work.
    const auto* const rows = reinterpret_cast<const float*>(parameters_ + reader.U64());
    auto* const gradients = reinterpret_cast<float*>(contributions_ + reader.U64());
    double loss = 0;
    size_t row = 0;
    for (const auto& [key, count] : count_of) {
      loss += count * rows[2 * row];
      if (!work.evaluates) {
        gradients[2 * row] = static_cast<float>(count / static_cast<double>(work.examples.size()));
        gradients[2 * row + 1] = mode_ == "tables_are_not_finite" ? NAN : 1;
      }
      ++row;
    }
    return loss;
  }

  void WriteInitialValues() {
    float* const weights = Contribution(0, kWeights);
    for (uint32_t i = 0; i < kFeatures; ++i) weights[i] = 0.01f * static_cast<float>(i);
    Contribution(0, kBias)[0] = mode_ == "bad_initial_value" ? NAN : 0;
    Contribution(0, kMean)[0] = 0;
    Contribution(0, kConstant)[0] = 1;
    Contribution(0, kConstant)[1] = 2;
  }

  // Computes a batch without variables.
  void ComputeRows(const Work& work) {
    const double loss = LookUpRows(work);
    const auto count = static_cast<double>(work.examples.size());
    {
      MessageWriter writer(ProgramMessage::kDone, &output_);
      writer.U64(work.number).F64(loss).F64(0).F64(count).F64(0).F64(count);
      AddHistogram({}, &writer);
    }
    Send();
  }

  void Compute(const Work& work) {
    const float* const weights = Parameter(work.parameter_set, kWeights);
    const float bias = Parameter(work.parameter_set, kBias)[0];
    const uint64_t key = work.evaluates ? 2 : 1;
    const double count = static_cast<double>(work.examples.size());
    double loss = has_tables_ ? LookUpRows(work) : 0;
    double correct = 0, mean = 0, bias_gradient = 0, error_sum = 0;
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> scores;  // Positives, negatives.
    std::array<double, kFeatures> gradient = {};
    for (const uint64_t example : work.examples) {
      std::array<float, kFeatures> x;
      FillNormal(key, example * kFeatures, absl::MakeSpan(x));
      float wanted = 0.25f;
      float got = bias;
      for (uint32_t i = 0; i < kFeatures; ++i) {
        wanted += kTrueWeights[i] * x[i];
        got += weights[i] * x[i];
      }
      const double error = got - wanted;
      loss += error * error;
      correct += std::abs(error) < 0.5 ? 1 : 0;
      error_sum += std::abs(error);
      auto& [positives, negatives] = scores[ScoreBin(1 / (1 + std::exp(-got)))];
      ++(wanted > 0.25f ? positives : negatives);
      bias_gradient += 2 * error / count;
      mean += x[0] / count;
      for (uint32_t i = 0; i < kFeatures; ++i) gradient[i] += 2 * error * x[i] / count;
    }
    if (!work.evaluates) {
      if (mode_ == "is_slow" || mode_ == "tables_slow" || mode_ == "forks") usleep(5000);
      if (!Misbehave(work)) return;
      float* const to = Contribution(work.contribution_set, kWeights);
      for (uint32_t i = 0; i < kFeatures; ++i) to[i] = static_cast<float>(gradient[i]);
      Final(work, kWeights);
      if (mode_ == "marks_twice") Final(work, kWeights);
      Contribution(work.contribution_set, kBias)[0] = static_cast<float>(
          mode_ == "gradient_is_not_finite" && work.batch == 1 ? NAN : bias_gradient);
      Contribution(work.contribution_set, kMean)[0] = static_cast<float>(mean);
      if (mode_ == "dies_between_marks" && work.number == 3) raise(SIGKILL);
    }
    if (work.evaluates && mode_ == "evaluates_slowly") EvaluateSlowly(work);
    if (work.evaluates && mode_ == "reports_progress") ReportProgress(work.number);
    if (!work.evaluates && mode_ == "reports_other_work") ReportProgress(work.number + 1);
    if (mode_ == "loss_is_not_finite" && work.batch == 1) {
      loss = std::numeric_limits<double>::infinity();
    }
    if (mode_ == "impossible_metric") correct = count + 1;
    {
      MessageWriter writer(ProgramMessage::kDone, &output_);
      writer.U64(mode_ == "other_work" ? work.number + 1 : work.number);
      writer.F64(loss).F64(correct).F64(count);
      writer.F64(mode_ == "metric_is_nan" ? NAN : error_sum);
      writer.F64(mode_ == "metric_weighs_nothing" ? 0 : count);
      if (!speaks_version_1_) AddHistogram(scores, &writer);
    }
    Send();
    if (mode_ == "ends_early" && work.number == 3) std::exit(0);
    if (mode_ == "crashes_when_idle" && work.number == 3) {
      std::signal(SIGSEGV, SIG_DFL);  // A sanitizer would end the program with a code.
      raise(SIGSEGV);
    }
    if (mode_ == "raises_when_idle" && work.number == 3) {
      Error(2, "toy.cc:6: a thread has failed", "Traceback:\n  line 6");
      std::exit(1);
    }
    if (mode_ == "closes_its_socket" && work.number == 3) {
      close(socket_);
      pause();
    }
  }

  void AddHistogram(const std::map<uint32_t, std::pair<uint32_t, uint32_t>>& scores,
                    MessageWriter* writer) const {
    writer->U32(static_cast<uint32_t>(scores.size()));
    for (const auto& [bin, counts] : scores) {
      writer->U32(mode_ == "bin_does_not_exist" ? kNumScoreBins + 1 : bin);
      writer->U32(counts.first).U32(counts.second);
    }
  }

  // Returns false if there is nothing more to send for this batch.
  bool Misbehave(const Work& work) {
    if (mode_ == "raises_at_once") {
      Error(2, "toy.cc:7: division by zero", "Traceback:\n  line 7");
      std::exit(1);
    }
    if (mode_ == "crashes_on_a_batch" && work.batch == 3) {
      std::signal(SIGSEGV, SIG_DFL);
      raise(SIGSEGV);
    }
    if (work.number != 3) return true;
    if (mode_ == "signals_its_group") {
      for (const int signal : {SIGTERM, SIGINT, SIGHUP}) kill(0, signal);
    } else if (mode_ == "writes_parameters") {
      std::signal(SIGSEGV, SIG_DFL);  // A sanitizer would end the program with a code.
      const_cast<float*>(Parameter(work.parameter_set, kWeights))[0] = 1;
    } else if (mode_ == "marks_a_frozen_one") {
      Final(work, kConstant);
    } else if (mode_ == "marks_an_unknown_one") {
      Final(work, 1000000);
    } else if (mode_ == "raises") {
      Error(2, "toy.cc:7: division by zero", "Traceback:\n  line 7");
      std::exit(1);
    } else if (mode_ == "fails_for_good") {
      Error(1, "toy.cc:8: the data file is damaged", "Traceback:\n  line 8");
      std::exit(1);
    } else if (mode_ == "sends_garbage") {
      output_.assign(1000, '\x7f');
      Send();
      return false;
    } else if (mode_ == "sends_a_huge_message") {
      MessageWriter(ProgramMessage::kFinal, &output_).Text(std::string(1 << 20, 'x'));
      Send();
      return false;
    }
    return true;
  }

  const std::string mode_;
  const bool speaks_version_1_;
  const bool has_tables_;
  const int socket_;
  std::string output_;
  std::string payload_;
  ProgramMessage type_ = ProgramMessage::kHello;
  std::vector<Arrays> arrays_;
  char* parameters_ = nullptr;
  char* contributions_ = nullptr;
};

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) { return shoal::ToyProgram(shoal::Mode(argc, argv)).Run(); }
