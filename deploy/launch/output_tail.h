// Shows what a program prints into a file, while it runs.
#ifndef SHOAL_DEPLOY_LAUNCH_OUTPUT_TAIL_H_
#define SHOAL_DEPLOY_LAUNCH_OUTPUT_TAIL_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"

namespace shoal {

class FileSystem;
class ProgressReporter;

// Reads the lines that another process appends to a file. Not thread-safe.
class OutputTail {
 public:
  // Borrows the file system. Starts at the end that the file has now; a file that is not there is
  // empty.
  OutputTail(FileSystem* file_system, std::string path);

  // Returns the lines that were completed since the last call. If there is much text, it returns
  // the end and a line that says how much is missing. If `is_over`, it also returns a last line
  // that has no line end.
  std::vector<std::string> Read(bool is_over);

 private:
  FileSystem* const file_system_;
  const std::string path_;
  uint64_t offset_ = 0;
};

// Prints the lines above the progress bar, on a thread of its own, until it is destroyed.
class OutputPrinter {
 public:
  // Borrows both pointers.
  OutputPrinter(FileSystem* file_system, const std::string& path, ProgressReporter* progress);
  // Prints the rest.
  ~OutputPrinter();
  OutputPrinter(const OutputPrinter&) = delete;
  OutputPrinter& operator=(const OutputPrinter&) = delete;

 private:
  void Loop();
  void PrintNew(bool is_over);

  OutputTail tail_;  // Used by the thread.
  ProgressReporter* const progress_;
  Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_OUTPUT_TAIL_H_
