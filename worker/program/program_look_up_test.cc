#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/program/program_conversation.h"
#include "worker/program/program_declaration.h"
#include "worker/program/program_layout.h"
#include "worker/program/program_messages.h"
#include "worker/program/program_talk_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The declaration of version 3 with these tables; its only variable is w.
std::string DeclareTables(const std::string& tables, const std::string& behind = "") {
  std::string out;
  {
    MessageWriter writer(ProgramMessage::kDeclare, &out);
    writer.U64(100).U64(10).U64(7).U32(2).Text("cpu").Text("").U32(0);
    writer.U32(1).Text("w").U32(1).U32(0).Text(tables);
    out += behind;
  }
  return out;
}

constexpr char kTwoTables[] =
    "table { name: 'item' dim: 3 optimizer { sgd { learning_rate: 0.5 } } } "
    "table { name: 'user' dim: 16 admission { min_count: 2 } }";

// Brings a conversation of this version with two tables to work 1.
void StartWithTables(Talk* talk, bool evaluates = false, uint32_t version = 3) {
  ASSERT_EQ(talk->Say(Hello(1, version) + DeclareTables(kTwoTables)), absl::OkStatus());
  const ProgramDeclaration& declaration = talk->conversation.declaration();
  talk->conversation.SendLayout(LayOut(declaration.variables, /*has_tables=*/true));
  ASSERT_EQ(talk->Say(Ready()), absl::OkStatus());
  talk->Start(evaluates);
}

using Keys = std::vector<uint64_t>;

std::string LookUp(uint64_t work, const std::vector<std::pair<uint32_t, Keys>>& tables,
                   const std::string& behind = "") {
  std::string out;
  {
    MessageWriter writer(ProgramMessage::kLookUp, &out);
    writer.U64(work).U32(static_cast<uint32_t>(tables.size()));
    for (const auto& [table, keys] : tables) {
      writer.U32(table).U64(keys.size());
      for (const uint64_t key : keys) writer.U64(key);
    }
    out += behind;
  }
  return out;
}

std::string LookAhead(uint64_t work, uint64_t epoch, uint64_t index,
                      const std::vector<std::pair<uint32_t, Keys>>& tables) {
  std::string out;
  {
    MessageWriter writer(ProgramMessage::kLookAhead, &out);
    writer.U64(work).U64(epoch).U64(index).U32(static_cast<uint32_t>(tables.size()));
    for (const auto& [table, keys] : tables) {
      writer.U32(table).U64(keys.size());
      for (const uint64_t key : keys) writer.U64(key);
    }
  }
  return out;
}

// Returns the numbers of a ROWS, without its work.
std::vector<uint64_t> TakeRows(Talk* talk) {
  std::vector<uint64_t> numbers;
  MessageReader sent(*talk->conversation.output());
  const uint32_t bytes = sent.U32();
  EXPECT_EQ(sent.U32(), static_cast<uint32_t>(ProgramMessage::kRows));
  EXPECT_EQ(sent.U64(), 1u);
  for (uint32_t i = 8; i < bytes; i += 8) numbers.push_back(sent.U64());
  EXPECT_TRUE(sent.is_at_end());
  talk->conversation.output()->clear();
  return numbers;
}

TEST(ProgramLookUpTest, LooksUpRowsInVersion3) {
  Talk talk;
  StartWithTables(&talk);
  const std::vector<v1::TableConfig>& tables = talk.conversation.declaration().tables;
  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_EQ(tables[0].optimizer().sgd().learning_rate(), 0.5);
  EXPECT_EQ(tables[1].admission().min_count(), 2u);
  talk.conversation.output()->clear();
  ASSERT_EQ(talk.Say(LookUp(1, {{1, {4, UINT64_MAX}}, {0, {0}}})), absl::OkStatus());
  ASSERT_EQ(talk.conversation.phase(), Phase::kAsking);
  ASSERT_THAT(talk.conversation.look_ups(), SizeIs(2));
  EXPECT_EQ(talk.conversation.look_ups()[0].table, 1u);
  EXPECT_THAT(talk.conversation.look_ups()[0].keys, ElementsAre(4, UINT64_MAX));
  talk.conversation.SendRows();
  EXPECT_EQ(talk.conversation.phase(), Phase::kWorking);
  // Two sets of one page each come before the rows; two rows of 16 floats, then one of 3.
  EXPECT_THAT(TakeRows(&talk), ElementsAre(8192, 8192, 8192 + 128, 8192 + 128));
  ASSERT_EQ(talk.Say(LookUp(1, {{0, {7, 8}}})), absl::OkStatus());
  talk.conversation.SendRows();
  EXPECT_THAT(TakeRows(&talk), ElementsAre(8192 + 192, 8192 + 192));
  std::string done;
  MessageWriter(ProgramMessage::kDone, &done).U64(1).F64(2);
  ASSERT_EQ(talk.Say(Final(1, {0}) + done), absl::OkStatus());
  EXPECT_EQ(talk.conversation.phase(), Phase::kIdle);
}

TEST(ProgramLookUpTest, AnEvaluationLooksUpRowsWithoutGradients) {
  Talk talk;
  StartWithTables(&talk, /*evaluates=*/true);
  talk.conversation.output()->clear();
  ASSERT_EQ(talk.Say(LookUp(1, {{0, {5}}})), absl::OkStatus());
  talk.conversation.SendRows();
  EXPECT_THAT(TakeRows(&talk), ElementsAre(8192, 0));
}

TEST(ProgramLookUpTest, RefusesLookUpsThatCannotBe) {
  const Keys key = {5};
  const std::pair<std::string, std::string> wrong[] = {
      {LookUp(2, {{0, key}}), "a LOOK_UP of 1 tables for work 2 while it computes work 1"},
      {LookUp(1, {}), "a LOOK_UP of 0 tables"},
      {LookUp(1, {{0, key}, {1, key}, {0, key}}), "a LOOK_UP of 3 tables"},
      {LookUp(1, {{2, key}}), "of table 2, but it has only 2"},
      {LookUp(1, {{0, key}, {0, key}}), "with table item twice"},
      {LookUp(1, {{0, {}}}), "a LOOK_UP of 0 keys of table item"},
      {LookUp(1, {{0, {5, 5}}}), "key 5 of table item after key 5; keys must rise"},
      {LookUp(1, {{1, {UINT64_MAX, 5}}}), "key 5 of table user after key 18446744073709551615"},
      {LookUp(1, {{0, key}}, "x"), "bytes behind its end"},
      {Final(1, {0}) + LookUp(1, {{0, key}}), "a LOOK_UP after a FINAL"},
      {LookUp(1, {{0, key}}) + Final(1, {0}), "sent FINAL (type 4) where it is not allowed"},
      {std::string("\x01\0\0\x04\x07\0\0\0", 8), "LOOK_UP with 67108865 bytes; at most 67108864"}};
  for (const auto& [bytes, why] : wrong) {
    Talk talk;
    StartWithTables(&talk);
    const absl::Status status = talk.Say(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  // One number more than the message has keys for.
  Talk talk;
  StartWithTables(&talk);
  std::string bytes;
  MessageWriter(ProgramMessage::kLookUp, &bytes).U64(1).U32(1).U32(0).U64(uint64_t{1} << 62).U64(4);
  EXPECT_THAT(std::string(talk.Say(bytes).message()), HasSubstr("has room for 1 to 1"));
}

// The declaration of version 3 is that of later ones.
TEST(ProgramLookUpTest, ReportsProgressInVersion5) {
  for (const bool evaluates : {false, true}) {
    Talk talk;
    StartWithTables(&talk, evaluates, /*version=*/5);
    EXPECT_FALSE(talk.conversation.TakeProgress());
    talk.conversation.output()->clear();
    ASSERT_EQ(talk.Say(Progress(1) + Progress(1)), absl::OkStatus());
    EXPECT_EQ(talk.conversation.phase(), Phase::kWorking);
    EXPECT_TRUE(talk.conversation.output()->empty()) << "there is no answer";
    EXPECT_TRUE(talk.conversation.TakeProgress());
    EXPECT_FALSE(talk.conversation.TakeProgress());
  }
  const std::pair<std::string, std::string> wrong[] = {
      {Progress(2), "a PROGRESS that is damaged or for work 2 while it computes work 1"},
      {Progress(1, "x"), "a PROGRESS that is damaged"},
      {LookUp(1, {{0, {5}}}) + Progress(1), "sent PROGRESS (type 9) where it is not allowed"}};
  for (const auto& [bytes, why] : wrong) {
    Talk talk;
    StartWithTables(&talk, /*evaluates=*/false, /*version=*/5);
    const absl::Status status = talk.Say(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  Talk old;
  StartWithTables(&old, /*evaluates=*/false, /*version=*/4);
  EXPECT_THAT(std::string(old.Say(Progress(1)).message()),
              HasSubstr("sent PROGRESS (type 9) where it is not allowed"));
}

TEST(ProgramLookUpTest, LooksAheadInVersion4) {
  Talk talk;
  StartWithTables(&talk, /*evaluates=*/false, /*version=*/4);
  EXPECT_FALSE(talk.conversation.TakeLookAhead().has_value());
  talk.conversation.output()->clear();
  ASSERT_EQ(talk.Say(LookAhead(1, 0, 7, {{0, {1}}}) +
                     LookAhead(1, 2, 9, {{1, {4, UINT64_MAX}}, {0, {0}}})),
            absl::OkStatus());
  EXPECT_EQ(talk.conversation.phase(), Phase::kWorking);
  EXPECT_TRUE(talk.conversation.output()->empty()) << "there is no answer";
  const auto ahead = talk.conversation.TakeLookAhead();
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->batch, (BatchKey{2, 9})) << "the newest counts";
  ASSERT_THAT(ahead->tables, SizeIs(2));
  EXPECT_EQ(ahead->tables[0].table, 1u);
  EXPECT_THAT(ahead->tables[0].keys, ElementsAre(4, UINT64_MAX));
  EXPECT_FALSE(talk.conversation.TakeLookAhead().has_value());
  // It takes no part of the area of rows, and may come after a FINAL.
  ASSERT_EQ(talk.Say(LookUp(1, {{0, {7}}})), absl::OkStatus());
  talk.conversation.SendRows();
  EXPECT_THAT(TakeRows(&talk), ElementsAre(8192, 8192));
  ASSERT_EQ(talk.Say(Final(1, {0}) + LookAhead(1, 2, 9, {{0, {1}}})), absl::OkStatus());
}

TEST(ProgramLookUpTest, RefusesLookAheadsThatCannotBe) {
  const Keys key = {5};
  const std::pair<std::string, std::string> wrong[] = {
      {LookAhead(2, 0, 0, {{0, key}}), "in work 2 while it computes work 1"},
      {LookAhead(1, uint64_t{1} << 32, 0, {{0, key}}), "for a batch of epoch 4294967296"},
      {LookAhead(1, 0, 0, {}), "a LOOK_AHEAD of 0 tables"},
      {LookAhead(1, 0, 0, {{2, key}}), "a LOOK_AHEAD that is damaged or of table 2"},
      {LookAhead(1, 0, 0, {{0, {5, 5}}}), "a LOOK_AHEAD with key 5 of table item after key 5"},
      {LookUp(1, {{0, key}}) + LookAhead(1, 0, 0, {{0, key}}),
       "sent LOOK_AHEAD (type 8) where it is not allowed"}};
  for (const auto& [bytes, why] : wrong) {
    Talk talk;
    StartWithTables(&talk, /*evaluates=*/false, /*version=*/4);
    const absl::Status status = talk.Say(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  Talk evaluates;
  StartWithTables(&evaluates, /*evaluates=*/true, /*version=*/4);
  EXPECT_THAT(std::string(evaluates.Say(LookAhead(1, 0, 0, {{0, key}})).message()),
              HasSubstr("while it computes evaluation 1"));
  Talk old;
  StartWithTables(&old);
  EXPECT_THAT(std::string(old.Say(LookAhead(1, 0, 0, {{0, key}})).message()),
              HasSubstr("sent LOOK_AHEAD (type 8) where it is not allowed"));
}

TEST(ProgramLookUpTest, RefusesMoreRowsThanThereIsRoomFor) {
  Talk talk;
  ASSERT_EQ(talk.Say(Hello(1, 3) + DeclareTables("table { name: 'wide' dim: 4096 }")),
            absl::OkStatus());
  talk.conversation.SendLayout(LayOut(talk.conversation.declaration().variables, true));
  ASSERT_EQ(talk.Say(Ready()), absl::OkStatus());
  talk.Start();
  Keys keys(ProgramLayout::kRowBytes / (4096 * sizeof(float)));
  for (size_t k = 0; k < keys.size(); ++k) keys[k] = k;
  ASSERT_EQ(talk.Say(LookUp(1, {{0, keys}})), absl::OkStatus());
  talk.conversation.SendRows();
  EXPECT_THAT(std::string(talk.Say(LookUp(1, {{0, {1}}})).message()),
              HasSubstr("the request for 1 rows of table wide exceeds the limit of 4294967296: "
                        "make batch_size or data.evaluation_block smaller"));
}

TEST(ProgramLookUpTest, NoTablesNoLookUps) {
  Talk old;
  old.MakeIdle();
  old.Start();
  EXPECT_THAT(std::string(old.Say(LookUp(1, {{0, {1}}})).message()),
              HasSubstr("sent LOOK_UP (type 7) where it is not allowed"));
}

TEST(ProgramLookUpTest, RefusesTablesThatCannotBe) {
  const std::pair<std::string, std::string> wrong[] = {
      {"table { dim: 3 }", "a table is named \"\""},
      {"table { name: '../a' dim: 3 }", "a table is named \"../a\""},
      {"table { name: 'c*' dim: 3 }", "a table is named \"c*\""},
      {"table { name: 'w' dim: 3 }", "table w has the name of another table or of a variable"},
      {"table { name: 'a' dim: 3 } table { name: 'a' dim: 3 }", "table a has the name of another"},
      {"table { name: 'a' }", "table a: dim: must be 1 to 4096, is 0"},
      {"table { name: 'a' dim: 2 optimizer { sgd { learning_rate: -1 } } }", "table a: optimizer:"},
      {"table { name: 'a' dim: 2 } batch_size: 4", "its tables have other fields than `table`"},
      {"table { nam", "the program's tables"}};
  for (const auto& [tables, why] : wrong) {
    Talk talk;
    const absl::Status status = talk.Say(Hello(3, 3) + DeclareTables(tables));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << why << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  const std::string whole = DeclareTables(kTwoTables).substr(kMessageHeadBytes);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(DecodeDeclaration(whole.substr(0, bytes), 3).ok()) << bytes;
  }
  EXPECT_TRUE(DecodeDeclaration(whole, 3).ok());
}

}  // namespace
}  // namespace shoal
