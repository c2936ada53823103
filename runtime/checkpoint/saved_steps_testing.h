// Short forms for the checkpoints of SaveTestRun.
#ifndef SHOAL_RUNTIME_CHECKPOINT_SAVED_STEPS_TESTING_H_
#define SHOAL_RUNTIME_CHECKPOINT_SAVED_STEPS_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_testing.h"

namespace shoal {

inline constexpr auto kEverything = Checkpoint::Verify::kEverything;

inline SaveOptions Step(uint64_t step, uint64_t term = 1) {
  SaveOptions options;
  options.step = step;
  options.term = term;
  return options;
}

inline std::unique_ptr<CheckpointDirectory> Directory(FileSystem& disk) {
  return CheckpointDirectory::Open(disk, "checkpoints").value();
}

inline std::unique_ptr<Checkpoint> OpenLatest(FileSystem& disk,
                                              std::vector<std::string>* rejected) {
  auto checkpoint = Directory(disk)->OpenLatestValid(kEverything, rejected);
  EXPECT_OK(checkpoint);
  return *std::move(checkpoint);
}

inline std::string PathOf(const SaveOptions& options, const std::string& file) {
  return "checkpoints/" + TestName(options).ToString() + "/" + file;
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SAVED_STEPS_TESTING_H_
