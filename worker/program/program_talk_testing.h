// The program's side of a conversation in tests.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_TALK_TESTING_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_TALK_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "worker/program/program_conversation.h"
#include "worker/program/program_layout.h"
#include "worker/program/program_messages.h"

namespace shoal {

using Phase = ProgramConversation::Phase;

inline std::string Hello(uint32_t lowest = 1, uint32_t highest = 1,
                         uint64_t magic = kComputeMagic) {
  std::string out;
  MessageWriter(ProgramMessage::kHello, &out).U64(magic).U32(lowest).U32(highest).Text("test 1");
  return out;
}

struct Declared {
  struct Variable {
    std::string name;
    uint32_t kind;
    std::vector<uint64_t> shape;
  };
  uint64_t train = 100;
  uint64_t test = 10;
  uint32_t ahead = 2;
  std::string settings = "batch_size: 5";
  std::vector<std::string> metrics = {"accuracy", "top_5"};
  std::vector<Variable> variables = {{"w", 1, {2, 3}}, {"mean", 2, {}}, {"fixed", 3, {4}}};
  std::string behind;
};

inline std::string Declare(const Declared& declared) {
  std::string out;
  {
    MessageWriter writer(ProgramMessage::kDeclare, &out);
    writer.U64(declared.train).U64(declared.test).U64(7).U32(declared.ahead).Text("cpu");
    writer.Text(declared.settings).U32(static_cast<uint32_t>(declared.metrics.size()));
    for (const std::string& metric : declared.metrics) writer.Text(metric);
    writer.U32(static_cast<uint32_t>(declared.variables.size()));
    for (const Declared::Variable& variable : declared.variables) {
      writer.Text(variable.name).U32(variable.kind);
      writer.U32(static_cast<uint32_t>(variable.shape.size()));
      for (const uint64_t size : variable.shape) writer.U64(size);
    }
    out += declared.behind;
  }
  return out;
}

inline std::string Ready() {
  std::string out;
  MessageWriter(ProgramMessage::kReady, &out);
  return out;
}

inline std::string Final(uint64_t work, const std::vector<uint32_t>& variables) {
  std::string out;
  MessageWriter writer(ProgramMessage::kFinal, &out);
  writer.U64(work);
  for (const uint32_t variable : variables) writer.U32(variable);
  return out;
}

inline std::string Done(uint64_t work, double loss, double correct = 1, double weight = 5) {
  std::string out;
  MessageWriter(ProgramMessage::kDone, &out)
      .U64(work)
      .F64(loss)
      .F64(correct)
      .F64(weight)
      .F64(0)
      .F64(0);
  return out;
}

inline std::string Progress(uint64_t work, const std::string& behind = "") {
  std::string out;
  {
    MessageWriter writer(ProgramMessage::kProgress, &out);
    writer.U64(work);
    out += behind;
  }
  return out;
}

inline std::string Error(uint32_t kind) {
  std::string out;
  MessageWriter(ProgramMessage::kError, &out).U32(kind).Text("train.py:3: no").Text("Trace\nback");
  return out;
}

// A conversation and the variables that the program declared final.
struct Talk {
  explicit Talk(bool has_started_before = false)
      : conversation("train.py", Welcome(), has_started_before) {}
  static ProgramWelcome Welcome() {
    ProgramWelcome welcome;
    welcome.run_file = "seed: 3";
    return welcome;
  }

  absl::Status Say(const std::string& bytes) {
    return conversation.Receive(bytes, [this](uint32_t v) { finals.push_back(v); });
  }
  void MakeIdle() {
    ASSERT_EQ(Say(Hello()), absl::OkStatus());
    ASSERT_EQ(Say(Declare({})), absl::OkStatus());
    ASSERT_EQ(conversation.phase(), Phase::kLayout);
    conversation.SendLayout(LayOut(conversation.declaration().variables));
    ASSERT_EQ(Say(Ready()), absl::OkStatus());
    ASSERT_EQ(conversation.phase(), Phase::kIdle);
  }
  void Start(bool evaluates = false) {
    const std::vector<int64_t> examples = {4, 2};
    ProgramWork work;
    work.evaluates = evaluates;
    work.batch = {1, 9};
    work.examples = examples;
    conversation.output()->clear();
    conversation.Start(work);
  }

  ProgramConversation conversation;
  std::vector<uint32_t> finals;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_TALK_TESTING_H_
