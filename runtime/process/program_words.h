// Tasks use these words in logs and errors; launchers and other tasks look for them.
#ifndef SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
#define SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_

namespace shoal {

// A worker logs them about a program that has not ended. They follow the name of the program.
inline constexpr char kRunsAfterRun[] = " continues after the end of the run";
inline constexpr char kKilledAfterRun[] = " was killed";
// The chief's refusal of a worker begins with them if the worker computes on another device, or
// with other libraries, than the first one.
inline constexpr char kOtherComputation[] = "computation: ";
// The chief's warning begins with them if a worker's program gave other values than the first
// one's.
inline constexpr char kInitialValuesOf[] = "the initial values of worker/";
// The chief's error has them if the variables of a run are not finite, or many batches. In the
// first case the name of a variable and kNotFiniteAfterUpdate come before them, the update, and ":
// "; what lowers the learning rate follows kLower. In the second kLimitOfBadBatches comes before
// them.
inline constexpr char kDiverges[] = "training diverges";
inline constexpr char kNotFiniteAfterUpdate[] = " is not finite after the update of step ";
inline constexpr char kLower[] = "; lower ";
inline constexpr char kLimitOfBadBatches[] = " batches in a row that are not finite is reached: ";

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
