#include "runtime/observability/run_page.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "runtime/observability/chart.h"
#include "runtime/observability/html.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/run_page_assets.h"

namespace shoal {
namespace {

constexpr size_t kMostMarks = 12;

// The words and the sign of a state; colors only repeat them.
struct Look {
  const char* words;
  const char* color;
};

Look ChooseLook(RunPage::State state) {
  switch (state) {
    case RunPage::State::kStarting:
      return {"… starting", "soft"};
    case RunPage::State::kTraining:
      return {"▶ training", "good"};
    case RunPage::State::kWaiting:
      return {"⚠ waiting", "bad"};
    case RunPage::State::kStopping:
      return {"… stopping", "soft"};
    case RunPage::State::kFinished:
      return {"✓ finished", "good"};
    case RunPage::State::kStopped:
      return {"■ stopped", "soft"};
    case RunPage::State::kFailed:
      return {"✗ failed", "bad"};
  }
  return {"", ""};
}

Look ChooseLook(RunPage::Task::State state) {
  switch (state) {
    case RunPage::Task::State::kWorks:
      return {"✓ works", "good"};
    case RunPage::Task::State::kSlow:
      return {"⚠ slow", "bad"};
    case RunPage::Task::State::kMissing:
      return {"✗ missing", "bad"};
  }
  return {"", ""};
}

Look ChooseLook(RunPage::Checkpoint::State state) {
  switch (state) {
    case RunPage::Checkpoint::State::kDurable:
      return {"✓ durable", "good"};
    case RunPage::Checkpoint::State::kFailed:
      return {"✗ failed", "bad"};
    case RunPage::Checkpoint::State::kVoid:
      return {"↶ rolled back", "soft"};
  }
  return {"", ""};
}

std::string Words(const Look& look) {
  return absl::StrCat("<span class=\"", look.color, "\">", look.words, "</span>");
}

std::string ClockTime(double seconds) {
  // Longer times are not known so exactly, and a broken rate must not become a broken number.
  return FormatClockTime(absl::Seconds(std::clamp(std::round(seconds), 0.0, 3.2e7)));
}

// The time of day, with the date if it is another one than that of the page.
std::string TimeCell(absl::Time time, absl::Time now) {
  const absl::TimeZone utc = absl::UTCTimeZone();
  const bool today =
      absl::FormatTime("%Y-%m-%d", time, utc) == absl::FormatTime("%Y-%m-%d", now, utc);
  return absl::StrCat(
      "<td class=\"short\"><time datetime=\"", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, utc),
      "\">", absl::FormatTime(today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", time, utc), "</time></td>");
}

std::string LongCell(absl::string_view text, const char* classes = "long") {
  return absl::StrCat("<td class=\"", classes, "\">", EscapeHtml(text), "</td>");
}

std::string NumberCell(absl::string_view text) {
  return absl::StrCat("<td class=\"number\">", text, "</td>");
}

// A table that scrolls sideways where the screen is too narrow. A head that begins with '#' is of
// numbers.
std::string Table(absl::string_view name, const std::vector<absl::string_view>& heads,
                  const std::string& rows) {
  std::string html =
      absl::StrCat("<div class=\"card scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", name,
                   "\"><table><thead><tr>");
  for (absl::string_view head : heads) {
    const bool is_number = head[0] == '#';
    if (is_number) head.remove_prefix(1);
    absl::StrAppend(&html, "<th scope=\"col\"", is_number ? " class=\"number\">" : ">", head,
                    "</th>");
  }
  return absl::StrCat(html, "</tr></thead><tbody>", rows, "</tbody></table></div>");
}

std::string Section(absl::string_view title, const std::string& content) {
  return absl::StrCat("<section><h2>", title, "</h2>", content, "</section>\n");
}

std::string Empty(absl::string_view words) {
  return absl::StrCat("<div class=\"card\"><p class=\"empty\">", words, "</p></div>");
}

std::string Heading(const RunPage& page) {
  const Look look = ChooseLook(page.state);
  return absl::StrCat("<header><h1>", EscapeHtml(page.run_name), "</h1><span class=\"badge ",
                      look.color, "\">", look.words, "</span><p class=\"about\">",
                      EscapeHtml(page.description), " · ", EscapeHtml(page.run_directory),
                      "</p></header>\n");
}

// Returns the box above everything else: whatever needs attention.
std::string Notice(const RunPage& page) {
  const auto notice = [](const std::string& text) {
    return absl::StrCat("<p class=\"card notice\" role=\"status\">", EscapeHtml(text), "</p>\n");
  };
  if (page.state == RunPage::State::kFailed) return notice(page.activity);
  if (page.waits_for.empty()) return "";
  std::string text = absl::StrCat("The run waits for ", page.waits_for);
  if (page.seconds_waiting >= 1) {
    absl::StrAppend(&text, ", for ", ClockTime(page.seconds_waiting), " now");
  }
  return notice(absl::StrCat(text, "."));
}

std::string TimeLeft(const RunPage& page) {
  // An earlier start of the run has taken time that this chief does not know.
  if (IsOver(page.state)) {
    return absl::StrCat("ended ", ClockTime(page.uptime_seconds), " after its last start");
  }
  // The rate of the last seconds is far off around an evaluation.
  const double rate =
      page.mean_steps_per_second > 0 ? page.mean_steps_per_second : page.steps_per_second;
  if (rate <= 0 || page.last_step <= page.step) return "time left: not known yet";
  return absl::StrCat("about ", ClockTime(static_cast<double>(page.last_step - page.step) / rate),
                      " left");
}

std::string Progress(const RunPage& page) {
  std::string done = absl::StrCat("step ", page.step);
  std::string bar;
  if (page.last_step > 0) {
    const double percent = std::min(
        100.0, 100.0 * static_cast<double>(page.step) / static_cast<double>(page.last_step));
    absl::StrAppendFormat(&done, " of %d (%.1f %%)", page.last_step, percent);
    bar = absl::StrFormat(
        "<div class=\"bar\" role=\"progressbar\" aria-label=\"steps\" aria-valuemin=\"0\" "
        "aria-valuemax=\"%d\" aria-valuenow=\"%d\"><span style=\"width:%.2f%%\"></span></div>",
        page.last_step, std::min(page.step, page.last_step), percent);
  }
  std::string epoch;
  if (page.epoch.has_value()) {
    epoch = absl::StrCat("epoch ", *page.epoch + 1);
    if (page.num_epochs > 0) absl::StrAppend(&epoch, " of ", page.num_epochs);
  }
  return absl::StrCat("<section class=\"card progress\" aria-label=\"Progress\"><p><strong>", done,
                      "</strong><span>", epoch, "</span><span>", TimeLeft(page), "</span></p>", bar,
                      "</section>\n");
}

std::string Figures(const RunPage& page) {
  std::string html = "<dl class=\"figures\">";
  const auto add = [&html](absl::string_view name, const std::string& value) {
    absl::StrAppend(&html, "<div class=\"card\"><dt>", name, "</dt><dd>",
                    value.empty() ? "–" : value, "</dd></div>");
  };
  const auto add_number = [&add](absl::string_view name, const std::optional<double>& value) {
    add(name, value.has_value() && std::isfinite(*value) ? absl::StrFormat("%.4f", *value) : "");
  };
  add_number("training loss, last step", page.loss);
  if (page.accuracy.has_value()) add_number("training accuracy, last step", page.accuracy);
  add_number("test loss", page.test_loss);
  if (page.accuracy.has_value() || page.test_accuracy.has_value()) {
    add_number("test accuracy", page.test_accuracy);
  }
  for (const RunPage::Metric& metric : page.named) {
    const std::string name = EscapeHtml(metric.name);
    add_number(absl::StrCat("training ", name, ", last step"), metric.value);
    if (metric.test_value.has_value()) {
      add_number(absl::StrCat("test ", name), metric.test_value);
    }
  }
  const auto rate = [](double value, int digits) {
    return value > 0 ? absl::StrFormat("%.*f", digits, value) : std::string();
  };
  if (IsOver(page.state)) {
    add("examples/s since the last start", rate(page.mean_examples_per_second, 0));
  } else {
    add("examples/s now", rate(page.examples_per_second, 0));
    add("steps/s now", rate(page.steps_per_second, 1));
    add("since the last start", ClockTime(page.uptime_seconds));
  }
  return absl::StrCat(html, "</dl>\n");
}

std::vector<Chart::Mark> ListMarks(const RunPage& page) {
  std::vector<Chart::Mark> marks;
  for (const RunPage::Event& event : page.events) {
    if (event.is_trouble && marks.size() < kMostMarks) marks.push_back({event.step, event.number});
  }
  std::reverse(marks.begin(), marks.end());
  std::stable_sort(marks.begin(), marks.end(),
                   [](const Chart::Mark& a, const Chart::Mark& b) { return a.step < b.step; });
  return marks;
}

std::string Charts(const RunPage& page) {
  const std::vector<Chart::Mark> marks = ListMarks(page);
  const RunPage::Curves& curves = page.curves;
  std::string html = "<div class=\"charts\">";
  const auto add = [&html, &marks](Chart chart) {
    chart.marks = marks;
    absl::StrAppend(&html, ChartHtml(chart));
  };
  add({"loss", "Loss", "mean loss per example", curves.loss, curves.test_loss, {}, false});
  if (!curves.accuracy.empty() || !curves.test_accuracy.empty()) {
    add({"accuracy",
         "Accuracy",
         "correct / examples",
         curves.accuracy,
         curves.test_accuracy,
         {},
         false});
  }
  for (size_t m = 0; m < page.named.size(); ++m) {
    const RunPage::Metric& metric = page.named[m];
    add({absl::StrCat("metric", m),
         metric.name,
         metric.name,
         metric.train,
         metric.test,
         {},
         false});
  }
  add({"speed", "Speed", "examples per second", curves.examples_per_second, {}, {}, true});
  return Section("Curves", absl::StrCat(html, "</div>"));
}

std::string Events(const RunPage& page) {
  std::string rows;
  for (const RunPage::Event& event : page.events) {
    absl::StrAppend(&rows, "<tr><th scope=\"row\" class=\"number\">", event.number, "</th>",
                    TimeCell(event.time, page.now), NumberCell(absl::StrCat(event.step)),
                    "<td class=\"long\">", event.is_trouble ? "<span class=\"bad\">⚠</span> " : "",
                    EscapeHtml(event.text), "</td></tr>\n");
  }
  if (rows.empty()) return Section("What happened", Empty("Nothing worth mentioning yet."));
  std::string html =
      Table("What happened", {"#no.", "time (UTC)", "#step", "event, the newest first"}, rows);
  if (page.num_events > page.events.size()) {
    absl::StrAppend(&html, "<p class=\"empty\">The ", page.num_events - page.events.size(),
                    " earlier ones are in the chief's log.</p>");
  }
  return Section("What happened", html);
}

std::string Tasks(const RunPage& page) {
  std::string rows;
  for (const RunPage::Task& task : page.tasks) {
    std::string activity = task.activity;
    if (!task.trouble.empty()) {
      absl::StrAppend(&activity, activity.empty() ? "" : "; ", task.trouble);
    }
    const bool is_missing = task.state == RunPage::Task::State::kMissing;
    absl::StrAppend(&rows, "<tr><th scope=\"row\">", EscapeHtml(task.name),
                    "</th><td class=\"short\">", Words(ChooseLook(task.state)), "</td>",
                    LongCell(activity, "long half"),
                    NumberCell(is_missing ? "–" : absl::StrCat(task.step)),
                    NumberCell(task.computed.has_value() ? absl::StrCat(*task.computed) : "–"),
                    NumberCell(task.seconds_since_heartbeat.has_value()
                                   ? absl::StrFormat("%.1f s", *task.seconds_since_heartbeat)
                                   : "–"),
                    LongCell(task.place, "long half"), "</tr>\n");
  }
  if (rows.empty()) return Section("Tasks", Empty("No task has registered yet."));
  return Section("Tasks", Table("Tasks",
                                {"task", "state", "activity or wait", "#step", "#batches",
                                 "#last heartbeat", "where"},
                                rows));
}

std::string Tables(const RunPage& page) {
  std::string rows;
  for (const RunPage::Embeddings& table : page.tables) {
    absl::StrAppend(
        &rows, "<tr><th scope=\"row\">", EscapeHtml(table.name), "</th>",
        NumberCell(absl::StrCat(table.rows)),
        NumberCell(absl::StrFormat("%.1f", static_cast<double>(table.bytes) / (1 << 20))),
        NumberCell(absl::StrFormat("%.0f", table.rows_per_second)),
        NumberCell(table.found.has_value() ? absl::StrFormat("%.1f %%", 100 * *table.found) : "–"),
        "</tr>\n");
  }
  if (rows.empty()) return "";
  return Section(
      "Tables",
      Table("Tables", {"table", "#rows", "#MiB", "#new rows/s", "#reads that found a row"}, rows));
}

std::string Checkpoints(const RunPage& page) {
  std::string rows;
  for (const RunPage::Checkpoint& checkpoint : page.checkpoints) {
    const bool is_durable = checkpoint.state == RunPage::Checkpoint::State::kDurable;
    absl::StrAppend(&rows, "<tr>", NumberCell(absl::StrCat(checkpoint.step)),
                    TimeCell(checkpoint.time, page.now), "<td class=\"short\">",
                    Words(ChooseLook(checkpoint.state)), "</td><td class=\"short\">",
                    !is_durable              ? "–"
                    : checkpoint.is_exported ? "✓ yes"
                                             : "no",
                    "</td>", LongCell(checkpoint.text), "</tr>\n");
  }
  if (rows.empty()) return Section("Checkpoints", Empty("There is no checkpoint yet."));
  return Section(
      "Checkpoints",
      Table("Checkpoints",
            {"#step", "time (UTC)", "state", "exported", "directory, or why it failed"}, rows));
}

std::string Settings(const RunPage& page) {
  std::string rows;
  for (const auto& [name, value] : page.settings) {
    absl::StrAppend(&rows, "<tr><th scope=\"row\">", EscapeHtml(name), "</th>", LongCell(value),
                    "</tr>\n");
  }
  if (rows.empty()) return "";
  return Section("Settings", absl::StrCat(Table("Settings", {"setting", "value"}, rows),
                                          "<p class=\"empty\">All of them: ",
                                          EscapeHtml(page.run_directory), "/run.textproto</p>"));
}

std::string Footer(const RunPage& page) {
  std::string text = absl::StrCat(
      "<footer><p>", EscapeHtml(page.program), " · as of <time>",
      absl::FormatTime("%Y-%m-%d %H:%M:%S", page.now, absl::UTCTimeZone()), "</time> UTC");
  if (page.is_live) {
    absl::StrAppend(&text,
                    " · <a href=\"/metrics\">metrics</a> · <a href=\"/statusz\">status</a> · <a "
                    "href=\"/readyz\">readiness</a> · This page changes nothing.");
  }
  return absl::StrCat(text, "</p></footer>\n");
}

std::string Head(const RunPage& page) {
  const Look look = ChooseLook(page.state);
  std::string head = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri "
      "'none'; form-action 'none'\">\n<link rel=\"icon\" href=\"data:,\">\n");
  if (page.is_live && !IsOver(page.state)) {
    absl::StrAppend(&head, "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\n");
  }
  return absl::StrCat(head, "<title>", EscapeHtml(page.run_name), ": ", look.words,
                      "</title>\n<style>", kRunPageStyle, "</style>\n</head>\n");
}

}  // namespace

bool IsOver(RunPage::State state) {
  return state == RunPage::State::kFinished || state == RunPage::State::kStopped ||
         state == RunPage::State::kFailed;
}

std::string RunPageHtml(const RunPage& page) {
  std::string html = Head(page);
  absl::StrAppend(&html, "<body", page.is_live ? " data-live=\"1\"" : "", ">\n");
  if (page.is_live) {
    absl::StrAppend(&html,
                    "<p id=\"offline\" class=\"card notice\" role=\"alert\" hidden>The chief has "
                    "not answered since <time></time>. This is the last state that it sent; a run "
                    "that is over leaves report.html in ",
                    EscapeHtml(page.run_directory), ".</p>\n");
  }
  absl::StrAppend(&html, "<main", IsOver(page.state) ? " data-over=\"1\"" : "", ">\n",
                  Heading(page), Notice(page), Progress(page), Figures(page), Charts(page),
                  Events(page), Tasks(page), Tables(page), "<div class=\"pair\">",
                  Checkpoints(page), Settings(page), "</div>", Footer(page), "</main>\n<script>",
                  kRunPageScript, "</script>\n</body>\n</html>\n");
  return html;
}

}  // namespace shoal
