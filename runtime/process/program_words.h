// A worker logs these words about a compute program that has not ended; launchers look for them.
#ifndef SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
#define SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_

namespace shoal {

// They follow the name of the program.
inline constexpr char kRunsAfterRun[] = " continues after the end of the run";
inline constexpr char kKilledAfterRun[] = " was killed";

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROGRAM_WORDS_H_
