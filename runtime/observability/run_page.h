// The page of a run for browsers: what it does, how far it is, its curves, tasks and checkpoints,
// and what happened to it.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_H_
#define SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "runtime/observability/curve.h"

namespace shoal {

// All that the page shows. Texts may hold anything: they are escaped when the page is made.
struct RunPage {
  enum class State { kStarting, kTraining, kWaiting, kStopping, kFinished, kStopped, kFailed };

  struct Task {
    enum class State { kWorks, kSlow, kMissing };

    std::string name;  // "worker/1"
    State state = State::kWorks;
    std::string activity;  // Its work or what it waits for, in words.
    std::string trouble;   // The reason why it probably delays the others; may be empty.
    uint64_t step = 0;
    std::optional<uint64_t> computed;  // Batches of this process; workers only.
    std::optional<double> seconds_since_heartbeat;
    std::string place;  // "process 4711 on host, serves at host:port"; empty for a missing task.
  };

  struct Checkpoint {
    enum class State { kDurable, kFailed, kVoid };

    absl::Time time;
    uint64_t step = 0;
    State state = State::kDurable;
    bool is_exported = false;  // It has a model.safetensors.
    std::string text;          // Its directory, or why it failed.
  };

  struct Event {
    absl::Time time;
    uint64_t number = 0;  // Counted from 1, as in the charts.
    uint64_t step = 0;
    bool is_trouble = false;
    std::string text;
  };

  struct Curves {
    std::vector<CurvePoint> loss;
    std::vector<CurvePoint> accuracy;
    std::vector<CurvePoint> test_loss;
    std::vector<CurvePoint> test_accuracy;
    std::vector<CurvePoint> examples_per_second;
  };

  // A metric of the model beside loss and accuracy.
  struct Metric {
    std::string name;
    std::optional<double> value, test_value;
    std::vector<CurvePoint> train, test;
  };

  // A table of embeddings.
  struct Embeddings {
    std::string name;
    uint64_t rows = 0;
    uint64_t bytes = 0;
    double rows_per_second = 0;
    std::optional<double> found;  // The part of the reads that found a row.
  };

  std::string run_name;
  std::string run_directory;
  std::string description;  // "synchronous, 2 ps, 2 workers"
  std::string program;      // "shoal 2.5, process 4711 on host"
  // A chief answers, and a browser asks it again; else the page is a report in a file.
  bool is_live = true;
  State state = State::kStarting;
  std::string activity;   // "trains without worker/1", or why it failed.
  std::string waits_for;  // May be empty.
  double seconds_waiting = 0;
  uint64_t step = 0;
  uint64_t last_step = 0;            // 0: unknown
  std::optional<uint32_t> epoch;     // Counted from 0.
  uint32_t num_epochs = 0;           // 0: unknown
  double steps_per_second = 0;       // The rate of the last seconds; 0: there was no step.
  double mean_steps_per_second = 0;  // The mean since training began.
  double examples_per_second = 0;    // The rate of the last seconds.
  // The mean since training began in this chief's process, as in summary.json.
  double mean_examples_per_second = 0;
  double uptime_seconds = 0;  // The age of this chief's process: the time since the last start.
  std::optional<double> loss, accuracy;  // The last step's.
  std::optional<double> test_loss, test_accuracy;
  absl::Time now;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<Task> tasks;
  std::vector<Embeddings> tables;       // Empty if the model has none.
  std::vector<Checkpoint> checkpoints;  // The newest first, as the events are.
  std::vector<Event> events;
  uint64_t num_events = 0;  // All since the chief began; only the newest are kept.
  Curves curves;
  std::vector<Metric> named;
};

// Returns whether a run in this state has ended.
bool IsOver(RunPage::State state);

// Returns the whole page: one document without references to others. With is_live its script asks
// for it again and shows what is new; without scripts the browser loads it again.
std::string RunPageHtml(const RunPage& page);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_RUN_PAGE_H_
