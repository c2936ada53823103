#include "chief/ledgers/table_memory_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "base/memory_limit.h"

namespace shoal {
namespace {

// The time over which growth is measured, unless kStepsOfWindow take longer: tables grow by steps.
constexpr absl::Duration kWindow = absl::Seconds(10);
constexpr double kStepsOfWindow = 3;
// Growth over a shorter time says little: reports come about every second.
constexpr absl::Duration kShortestWindow = absl::Milliseconds(500);
// The time between lines of metrics.jsonl with the tables' figures.
constexpr absl::Duration kBetweenLines = absl::Seconds(10);
constexpr double kWarnPart = 0.9;
// The time that the run needs for its last checkpoint: until the next report, which may be late,
// and for the step under way, the two until the cut, and those that train while it is written.
constexpr double kSecondsBetweenReports = 2;
constexpr double kStepsAhead = 3;
// The rows from which on a bucket counts as full: 2^31 (RowIndex::kMostRows), less 2 % for those
// that are added until the last checkpoint. A hash gives all buckets equally many rows.
constexpr double kMostRowsOfBucket = 0.98 * (uint64_t{1} << 31);
// The tables that a message names.
constexpr size_t kMostNamed = 3;

std::string InMebibytes(double bytes) { return absl::StrFormat("%.0f MiB", bytes / (1 << 20)); }

std::vector<const v1::PsMemory::Table*> SortBySize(const v1::PsMemory& memory) {
  std::vector<const v1::PsMemory::Table*> tables;
  for (const v1::PsMemory::Table& table : memory.tables()) tables.push_back(&table);
  std::stable_sort(tables.begin(), tables.end(),
                   [](const auto* a, const auto* b) { return a->bytes() > b->bytes(); });
  return tables;
}

// "item with 1200000 rows (310 MiB), user with 40000 rows (12 MiB) and 24 more"
std::string LargestTables(const v1::PsMemory& memory) {
  const std::vector<const v1::PsMemory::Table*> tables = SortBySize(memory);
  std::vector<std::string> named;
  for (size_t i = 0; i < std::min(kMostNamed, tables.size()); ++i) {
    named.push_back(absl::StrFormat("%s with %d rows (%s)", tables[i]->name(), tables[i]->rows(),
                                    InMebibytes(static_cast<double>(tables[i]->bytes()))));
  }
  std::string text = absl::StrJoin(named, ", ");
  if (tables.size() > kMostNamed)
    absl::StrAppend(&text, " and ", tables.size() - kMostNamed, " more");
  return text;
}

std::string DescribeUse(const v1::PsMemory& memory) {
  return absl::StrCat(InMebibytes(static_cast<double>(memory.used())), " of the ",
                      InMebibytes(static_cast<double>(memory.limit())), " that ",
                      memory.limit_set_by(), " allows");
}

}  // namespace

void TableMemoryLedger::SetBuckets(uint32_t num_ps, std::map<std::string, uint32_t> buckets) {
  num_ps_ = num_ps;
  buckets_ = std::move(buckets);
}

void TableMemoryLedger::OnStep(absl::Time now, uint64_t step) {
  // The time before the first step is that of the start.
  const bool is_new = newest_step_.has_value() && step > *newest_step_;
  if (newest_step_.has_value() && step < *newest_step_) steps_.clear();  // The run was rolled back.
  newest_step_ = step;
  if (!is_new) return;
  steps_.push_back({now, step});
  while (now - steps_.front().time > kWindow && steps_.size() > 2) steps_.pop_front();
}

double TableMemoryLedger::SecondsPerStep() const {
  if (steps_.size() < 2) return 0;
  return absl::ToDoubleSeconds(steps_.back().time - steps_.front().time) /
         static_cast<double>(steps_.back().step - steps_.front().step);
}

absl::Duration TableMemoryLedger::Window() const {
  return std::max(kWindow, absl::Seconds(kStepsOfWindow * SecondsPerStep()));
}

double TableMemoryLedger::SecondsAhead() const {
  return kSecondsBetweenReports + kStepsAhead * SecondsPerStep();
}

void TableMemoryLedger::OnReport(absl::Time now, uint32_t ps, uint64_t lineage,
                                 const v1::PsMemory& memory, absl::string_view host) {
  Ps& known = ps_[ps];
  known.host = std::string(host);
  if (known.lineage != lineage) known.samples.clear();
  known.lineage = lineage;
  known.memory = memory;
  newest_report_ = now;
  Sample& sample = known.samples.emplace_back();
  sample.time = now;
  sample.used = memory.used();
  sample.limit = memory.limit();
  for (const v1::PsMemory::Table& table : memory.tables()) sample.rows[table.name()] = table.rows();
  while (now - known.samples.front().time > Window() && known.samples.size() > 2) {
    known.samples.pop_front();
  }
  uint64_t of_host = memory.limit();
  for (const auto& [index, other] : ps_) {
    if (index != ps && other.host == known.host) of_host += other.memory.used();
  }
  known.most_of_host = std::max(known.most_of_host, of_host);
  // The reports in which a shortage begins and ends may be late.
  const double ahead = SecondsAhead() + absl::ToDoubleSeconds(Patience()) + kSecondsBetweenReports;
  known.short_since = known.IsFull(ahead) && IsTakenByOthers(known)
                          ? std::min(known.short_since, now)
                          : absl::InfiniteFuture();
}

bool TableMemoryLedger::IsTakenByOthers(const Ps& ps) const {
  if (ps.memory.limit_set_by() != kFreeMemory) return false;
  uint64_t used = 0;
  for (const auto& [index, other] : ps_) {
    if (other.host != ps.host) continue;
    used += other.memory.used();
  }
  return static_cast<double>(used) < kWarnPart * static_cast<double>(ps.most_of_host);
}

double TableMemoryLedger::Ps::BytesPerSecond() const {
  const absl::Duration time = samples.back().time - samples.front().time;
  if (time < kShortestWindow) return 0;
  const auto room = [](const Sample& sample) {
    return static_cast<double>(sample.limit) - static_cast<double>(sample.used);
  };
  return std::max(room(samples.front()) - room(samples.back()), 0.0) / absl::ToDoubleSeconds(time);
}

double TableMemoryLedger::Ps::RowsPerSecond(const std::string& table) const {
  const absl::Duration time = samples.back().time - samples.front().time;
  const auto first = samples.front().rows.find(table);
  const auto last = samples.back().rows.find(table);
  if (time < kShortestWindow || first == samples.front().rows.end() ||
      last == samples.back().rows.end()) {
    return 0;
  }
  return (static_cast<double>(last->second) - static_cast<double>(first->second)) /
         absl::ToDoubleSeconds(time);
}

double TableMemoryLedger::Ps::part() const {
  if (memory.limit() == 0) return 0;
  return static_cast<double>(memory.used()) / static_cast<double>(memory.limit());
}

bool TableMemoryLedger::Ps::IsFull(double seconds_ahead) const {
  if (memory.limit() == 0 || part() < kWarnPart) return false;
  const double soon = static_cast<double>(memory.used()) + seconds_ahead * BytesPerSecond();
  return soon > static_cast<double>(memory.limit());
}

const std::pair<const uint32_t, TableMemoryLedger::Ps>& TableMemoryLedger::Fullest() const {
  return *std::max_element(ps_.begin(), ps_.end(), [](const auto& a, const auto& b) {
    return a.second.part() < b.second.part();
  });
}

std::string TableMemoryLedger::Warning() const {
  if (ps_.empty()) return "";
  const auto& [index, ps] = Fullest();
  if (ps.part() < kWarnPart) return "";
  const double growth = ps.BytesPerSecond();
  const double room =
      static_cast<double>(ps.memory.limit()) - static_cast<double>(ps.memory.used());
  const std::string when =
      growth > 0 ? absl::StrFormat(
                       "its room shrinks by %.1f MiB per second, and it will be full in about %s",
                       growth / (1 << 20),
                       absl::FormatDuration(absl::Trunc(
                           absl::Seconds(std::max(room, 0.0) / growth) + absl::Seconds(1),
                           absl::Seconds(1))))
                 : "its room does not shrink now";
  return absl::StrFormat(
      "ps/%d uses %s: %s; %s. When it is full, the run makes a checkpoint and ends: %s", index,
      DescribeUse(ps.memory), LargestTables(ps.memory), when, Remedy(ps.memory));
}

std::string TableMemoryLedger::Remedy(const v1::PsMemory& memory) const {
  const std::string memory_remedy = memory.limit_set_by() == "cluster.ps_memory"
                                        ? "raise --ps_memory"
                                    : memory.limit_set_by() == kFreeMemory
                                        ? "use machines with more memory or fewer other processes"
                                        : "use machines with more memory";
  const std::vector<const v1::PsMemory::Table*> tables = SortBySize(memory);
  const auto buckets = tables.empty() ? buckets_.end() : buckets_.find(tables[0]->name());
  if (buckets == buckets_.end() || buckets->second > num_ps_) {
    return absl::StrCat("use more ps (--num_ps_tasks), ", memory_remedy,
                        ", or begin a new run whose tables have `expiry` or `admission` "
                        "(--init_state --init_from=DIRECTORY of this run keep rows, slots and "
                        "counts)");
  }
  return absl::StrFormat(
      "%s. Or begin a new run with --init_state --init_from=DIRECTORY of this run, which keep "
      "rows, "
      "slots and counts, and give table %s more than %d buckets, so that more ps (--num_ps_tasks) "
      "can share it, or give the tables "
      "`expiry` or `admission`",
      memory_remedy, buckets->first, buckets->second);
}

absl::Status TableMemoryLedger::CheckRows() const {
  std::map<std::string, uint64_t> rows;
  for (const auto& [index, ps] : ps_) {
    for (const v1::PsMemory::Table& table : ps.memory.tables()) rows[table.name()] += table.rows();
  }
  for (const auto& [table, count] : rows) {
    const auto buckets = buckets_.find(table);
    if (buckets == buckets_.end()) continue;
    if (static_cast<double>(count) < kMostRowsOfBucket * buckets->second) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "table %s is full: it has %d rows in %d buckets, and a bucket can have 2^31. To continue "
        "from the last checkpoint, begin a new run with --init_state --init_from=DIRECTORY of this "
        "run, which keep rows, slots and counts, and set the table's buckets to %d",
        table, count, buckets->second, 2 * uint64_t{buckets->second}));
  }
  return absl::OkStatus();
}

absl::Status TableMemoryLedger::WhyFull() const {
  absl::Status rows = CheckRows();
  if (!rows.ok()) return rows;
  for (const auto& [index, ps] : ps_) {
    if (IsTakenByOthers(ps) || !ps.IsFull(SecondsAhead())) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "ps/%d is full, with %s: %s. To continue from the last checkpoint, %s", index,
        DescribeUse(ps.memory), LargestTables(ps.memory), Remedy(ps.memory)));
  }
  for (const auto& [index, ps] : ps_) {
    if (ps.samples.back().time - ps.short_since < Patience()) continue;
    return absl::UnavailableError(absl::StrFormat(
        "ps/%d lacks memory for more rows, with %s: %s. Other processes of its machine have taken "
        "the rest. End some of them, use machines with more memory, or use more ps "
        "(--num_ps_tasks). If the run is started again, it continues from its last checkpoint",
        index, DescribeUse(ps.memory), LargestTables(ps.memory)));
  }
  return absl::OkStatus();
}

std::vector<v1::GetRunStatusResponse::Table> TableMemoryLedger::Tables() const {
  std::map<std::string, v1::GetRunStatusResponse::Table> tables;
  for (const auto& [index, ps] : ps_) {
    for (const v1::PsMemory::Table& part : ps.memory.tables()) {
      v1::GetRunStatusResponse::Table& table = tables[part.name()];
      table.set_name(part.name());
      table.set_rows(table.rows() + part.rows());
      table.set_bytes(table.bytes() + part.bytes());
      table.set_rows_per_second(table.rows_per_second() + ps.RowsPerSecond(part.name()));
      table.set_keys_read(table.keys_read() + part.keys_read());
      table.set_rows_found(table.rows_found() + part.rows_found());
    }
  }
  std::vector<v1::GetRunStatusResponse::Table> in_order;
  for (auto& [name, table] : tables) in_order.push_back(std::move(table));
  return in_order;
}

std::vector<v1::GetRunStatusResponse::Table> TableMemoryLedger::TakeForLine(bool is_evaluated) {
  if (ps_.empty() || (!is_evaluated && newest_report_ - in_line_ < kBetweenLines)) return {};
  in_line_ = newest_report_;
  return Tables();
}

void TableMemoryLedger::Describe(v1::GetRunStatusResponse* response) const {
  for (v1::GetRunStatusResponse::Table& table : Tables()) {
    *response->add_tables() = std::move(table);
  }
  response->set_memory_warning(Warning());
}

}  // namespace shoal
