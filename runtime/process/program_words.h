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
// The chief's error has them if the loss or the variables of a run are not finite.
inline constexpr char kDiverges[] = "training diverges";

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
