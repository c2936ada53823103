// Tasks log these words about compute programs; launchers look for them.
#ifndef SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
#define SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_

namespace shoal {

// A worker logs them about a program that has not ended. They follow the name of the program.
inline constexpr char kRunsAfterRun[] = " continues after the end of the run";
inline constexpr char kKilledAfterRun[] = " was killed";
// The chief's warning begins with them if a worker's program gave other values than the first
// one's.
inline constexpr char kInitialValuesOf[] = "the initial values of worker/";

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
