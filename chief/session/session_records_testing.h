// (testonly) Makes reports of steps, and shows the records of a session as short texts.
#ifndef SHOAL_CHIEF_SESSION_SESSION_RECORDS_TESTING_H_
#define SHOAL_CHIEF_SESSION_SESSION_RECORDS_TESTING_H_

#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "chief/session/session_records.h"

namespace shoal {

inline v1::StepReport Report(uint64_t step) {
  v1::StepReport report;
  report.set_step(step);
  report.set_examples(10);
  return report;
}

// "3": a line, "3e": one with an evaluation, "<2": lines above 2 are void, "m5": a manifest.
inline std::vector<std::string> ToText(const std::vector<SessionRecord>& records) {
  std::vector<std::string> text;
  for (const SessionRecord& record : records) {
    if (const auto* line = std::get_if<StepLine>(&record)) {
      text.push_back(std::to_string(line->report.step()) +
                     (line->evaluation.has_value() ? "e" : ""));
    } else if (const auto* back = std::get_if<RolledBack>(&record)) {
      EXPECT_TRUE(back->lines_only);
      text.push_back("<" + std::to_string(back->version));
    } else if (const auto* write = std::get_if<ManifestToWrite>(&record)) {
      text.push_back("m" + std::to_string(write->manifest.step()));
    }
  }
  return text;
}

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_RECORDS_TESTING_H_
