// A compute program as a stranger would write it: any bytes in the socket, at any point of the
// conversation, and any bytes in the memory that it shares with its worker. The worker's side ends
// the conversation or continues it, and hands no number over as finite that is not.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "ml/data/batch_plan.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/metric_sums.h"
#include "tests/fuzz/fuzz_target.h"
#include "worker/program/external_program.h"
#include "worker/program/program_conversation.h"
#include "worker/program/program_messages.h"
#include "worker/replica/replica.h"

namespace shoal {
namespace {

using Phase = ProgramConversation::Phase;

constexpr uint32_t kElements = 6;

std::string Greeting(uint32_t version) {
  std::string out;
  MessageWriter(ProgramMessage::kHello, &out)
      .U64(kComputeMagic)
      .U32(version)
      .U32(version)
      .Text("fuzzed");
  return out;
}

// The metrics are accuracy and, since version 2, auc; version 3 has two tables.
std::string Declaration(uint32_t version) {
  std::string out;
  MessageWriter writer(ProgramMessage::kDeclare, &out);
  writer.U64(8).U64(4).U64(0).U32(2).Text("fuzzed").Text("batch_size: 4");
  if (version == 1) {
    writer.U32(1).Text("accuracy");
  } else {
    writer.U32(2).Text("accuracy").U32(1).Text("auc").U32(2);
  }
  writer.U32(2).Text("weight").U32(1).U32(1).U64(kElements).Text("statistic").U32(2).U32(0);
  if (version > 2) writer.Text("table { name: 'item' dim: 2 } table { name: 'wide' dim: 4096 }");
  return out;
}

// The results computed from accepted input are in range or have no value.
void CheckMetrics(MetricSums metrics) {
  CheckFuzzed(metrics.size() <= kMostMetrics);
  for (const MetricSum& metric : metrics) {
    CheckFuzzed(std::isfinite(metric.sum) && std::isfinite(metric.weight) && metric.weight >= 0);
    for (const ScoreCount& count : metric.histogram) CheckFuzzed(count.bin < kNumScoreBins);
  }
  if (metrics.size() < 2) return;
  FinishHistograms(&metrics);
  const std::optional<double> area = MetricValue(metrics[1]);
  CheckFuzzed(!area.has_value() || (*area >= 0 && *area <= 1));
}

// The rows that were accepted fit into their area and are named once.
void CheckKeys(const ProgramConversation& conversation, const std::vector<ProgramKeys>& look_ups) {
  const std::vector<v1::TableConfig>& tables = conversation.declaration().tables;
  for (const ProgramKeys& look_up : look_ups) {
    CheckFuzzed(look_up.table < tables.size() && !look_up.keys.empty());
    const uint64_t bytes = look_up.keys.size() * tables[look_up.table].dim() * sizeof(float);
    CheckFuzzed(look_up.offset + bytes <= ProgramLayout::kRowBytes);
    for (size_t k = 1; k < look_up.keys.size(); ++k) {
      CheckFuzzed(look_up.keys[k - 1] < look_up.keys[k]);
    }
  }
}

std::string Ready() {
  std::string out;
  MessageWriter(ProgramMessage::kReady, &out);
  return out;
}

// Ends the conversation wherever it is, or brings it as far as the input does.
void Talk(absl::string_view input, bool from_the_start, bool evaluates, uint32_t version = 1) {
  ProgramConversation conversation("fuzzed", ProgramWelcome(), /*has_started_before=*/false);
  const auto on_final = [&](uint32_t variable) {
    CheckFuzzed(variable < conversation.declaration().variables.size());
  };
  const std::vector<int64_t> examples = {1, 2};
  ProgramWork work;
  work.evaluates = evaluates;
  work.examples = examples;
  if (!from_the_start) {
    CheckFuzzed(conversation.Receive(Greeting(version) + Declaration(version), on_final).ok());
  }
  while (!input.empty()) {
    if (conversation.phase() == Phase::kLayout) {
      conversation.SendLayout(
          LayOut(conversation.declaration().variables, !conversation.declaration().tables.empty()));
      if (!from_the_start) CheckFuzzed(conversation.Receive(Ready(), on_final).ok());
    }
    if (conversation.phase() == Phase::kIdle) conversation.Start(work);
    if (conversation.phase() == Phase::kAsking) {
      CheckKeys(conversation, conversation.look_ups());
      conversation.SendRows();
    }
    const size_t bytes = std::min<size_t>(input.size(), 1 + input.size() % 40);
    if (!conversation.Receive(input.substr(0, bytes), on_final).ok()) return;
    if (const auto ahead = conversation.TakeLookAhead(); ahead.has_value()) {
      CheckKeys(conversation, ahead->tables);
    }
    input.remove_prefix(bytes);
    if (!from_the_start && version > 1) CheckMetrics(conversation.result().metrics);
  }
}

// A program whose messages are right, and whose contributions are the input.
class ScriptedChannel : public ProgramChannel {
 public:
  ScriptedChannel(ProgramMemory* memory, absl::string_view numbers)
      : memory_(memory), numbers_(numbers) {}

  Event Wait(absl::Time deadline, std::string* output, std::string* input) override {
    output->clear();
    if (deadline == absl::InfinitePast()) return Event::kTimeout;  // It says nothing by itself.
    switch (turn_++) {
      case 0:
        *input = Greeting(1);
        break;
      case 1:
        *input = Declaration(1);
        break;
      case 2:
        *input = Ready();
        break;
      case 3:
        CopyTo(memory_->contributions(0, 0), kElements);
        CopyTo(memory_->contributions(0, 1), 1);
        MessageWriter(ProgramMessage::kFinal, input).U64(1).U32(0);
        MessageWriter(ProgramMessage::kDone, input).U64(1).F64(1).F64(2).F64(4);
        break;
      default:
        return Event::kEnded;
    }
    return Event::kReceived;
  }
  bool AwaitEnd(absl::Time /*deadline*/) override { return true; }
  ProgramEnd End(absl::Time /*deadline*/) override { return ProgramEnd(); }

 private:
  void CopyTo(float* to, size_t count) {
    const size_t bytes = std::min(numbers_.size(), count * sizeof(float));
    std::memcpy(to, numbers_.data(), bytes);
    numbers_.remove_prefix(bytes);
  }

  ProgramMemory* const memory_;
  absl::string_view numbers_;
  int turn_ = 0;
};

void Compute(absl::string_view input) {
  auto memory = ProgramMemory::Create();
  CheckFuzzed(memory.ok());
  ProgramMemory* const shared = memory->get();
  ExternalProgram::Options options;
  options.patience = absl::Minutes(1);
  const RealClock clock;
  options.clock = &clock;
  auto program = ExternalProgram::Create(options, *std::move(memory),
                                         std::make_unique<ScriptedChannel>(shared, input));
  CheckFuzzed(program.ok());
  BatchPlanOptions plan;
  plan.num_examples = 8;
  plan.batch_size = 4;
  CheckFuzzed((*program)->MakeReady(*BatchPlan::Create(plan), std::nullopt).ok());
  const auto table = SliceTable::Create((*program)->variables(), 64);
  CheckFuzzed(table.ok());
  const std::vector<ExchangeGroup> groups =
      MakeExchangeGroups(*table, std::vector<uint32_t>(table->size(), 0));
  Replica replica(program->get(), &*table, &groups);
  LoadedBatch batch;
  batch.num_examples = 4;
  const auto trained =
      replica.Train(batch, 0, 0, [&](uint32_t group, bool finite, const BatchReport& /*report*/) {
        bool is_finite = true;
        for (size_t s = 0; s < groups[group].slices.size(); ++s) {
          const auto* const values = static_cast<const float*>(replica.push_data(0, group)[s]);
          for (uint64_t i = 0; i < (*table)[groups[group].slices[s]].num_elements; ++i) {
            is_finite = is_finite && std::isfinite(values[i]);
          }
        }
        CheckFuzzed(finite == is_finite);
      });
  CheckFuzzed(trained.ok());
}

}  // namespace
}  // namespace shoal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view input(reinterpret_cast<const char*>(data), size);
  switch (shoal::TakeChoice(&input, 14)) {
    case 0:
      shoal::Talk(input, /*from_the_start=*/true, /*evaluates=*/false);
      break;
    case 1:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/false);
      break;
    case 2:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/true);
      break;
    case 3:
      (void)shoal::DecodeDeclaration(input, 1);
      break;
    case 5:
      (void)shoal::DecodeDeclaration(input, 2);
      break;
    case 6:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/false, /*version=*/2);
      break;
    case 7:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/true, /*version=*/2);
      break;
    case 8:
      (void)shoal::DecodeDeclaration(input, 3);
      break;
    case 9:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/false, /*version=*/3);
      break;
    case 10:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/true, /*version=*/3);
      break;
    case 11:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/false, /*version=*/4);
      break;
    case 12:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/false, /*version=*/5);
      break;
    case 13:
      shoal::Talk(input, /*from_the_start=*/false, /*evaluates=*/true, /*version=*/5);
      break;
    default:
      shoal::Compute(input);
  }
  return 0;
}
