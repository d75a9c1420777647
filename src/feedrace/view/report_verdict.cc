// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/report_verdict.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/verdict/limiting_stage.h"
#include "feedrace/verdict/wording.h"
#include "feedrace/view/html.h"
#include "feedrace/view/report_parts.h"

namespace feedrace::view {
namespace {

using Json = nlohmann::ordered_json;

std::string list_of(const std::vector<std::string>& clauses) {
  if (clauses.empty()) return {};
  std::string out = "<ul>";
  for (const std::string& clause : clauses) out += "<li>" + escaped(clause) + "</li>";
  return out + "</ul>";
}

std::string remedy(const Remedy& one, double rate_now) {
  std::string out = "<li>" + escaped(one.action);
  if (one.images_per_second) {
    out += fmt::format(": <b>about {} images/s</b>", verdict::rounded(*one.images_per_second));
    if (rate_now > 0)
      out += fmt::format(", {:.1f} times as many", *one.images_per_second / rate_now);
  }
  if (!one.command.empty()) out += " <code>" + escaped(one.command) + "</code>";
  return out + "</li>";
}

std::string remedies(const Verdict& verdict) {
  if (verdict.remedies.empty()) return "<p class=\"soft\">Nothing that a loader could do.</p>";
  std::string out = "<ol>";
  for (const Remedy& one : verdict.remedies) out += remedy(one, verdict.images_per_second);
  return out + "</ol>";
}

std::string ceiling_row(std::string_view part, std::string_view rate, std::string_view from) {
  return fmt::format(
      "<tr><td class=\"word\">{}</td><td class=\"number\">{}</td><td class=\"soft\">{}</td></tr>",
      part, rate, from);
}

std::string ceilings(const Verdict& verdict) {
  std::string rows = ceiling_row(
      "<b>this run</b>", fmt::format("<b>{}</b>", verdict::rounded(verdict.images_per_second)),
      "all of them together");
  for (const Ceiling& one : verdict.ceilings) {
    rows +=
        ceiling_row(escaped(one.part),
                    (one.is_at_least ? "at least " : "") + verdict::rounded(one.images_per_second),
                    one.is_measured ? "measured alone" : "from this run");
  }
  return "<table class=\"ceilings\"><thead><tr><th>part</th><th class=\"number\">images/s</th>"
         "<th>known</th></tr></thead><tbody>" +
         rows + "</tbody></table>";
}

/// Of a queue, over the looks at it; nothing where it was never seen.
std::optional<double> mean_level(const Report& report, const char* queue) {
  double sum = 0;
  std::size_t count = 0;
  for (const Json& each : report.stretches) {
    const auto queues = each.find("queues");
    if (queues == each.end() || !queues->contains(queue)) continue;
    sum += number_of(*queues, queue);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

struct QueueName {
  const char* counter;
  const char* words;
};

/// What a stage takes from.
QueueName queue_of(std::string_view stage) {
  if (stage == "io") return {"reads_in_flight", "reads in flight"};
  if (stage == "decode") return {"samples_to_decode", "samples to decode"};
  if (stage == "device") return {"batches_in_work", "batches in work"};
  return {"batches_ready", "batches ready"};
}

std::string level_text(const Report& report, std::string_view stage) {
  const QueueName queue = queue_of(stage);
  const auto level = mean_level(report, queue.counter);
  return level ? fmt::format("{:.1f} {}", *level, queue.words) : "not seen";
}

/// How long one item takes a thread, or a read the device.
std::string latency_text(const Report& report, std::string_view stage, const Json& seen) {
  if (stage == "io") {
    const Json& latency = report.told["counters"]["read_latency_seconds"];
    return fmt::format("{:.2f} ms a read, {:.2f} ms at the 99th percentile",
                       1e3 * number_of(latency, "p50"), 1e3 * number_of(latency, "p99"));
  }
  const double items = number_of(seen, "items");
  if (items <= 0) return "";
  return fmt::format("{:.2f} ms a {}", 1e3 * number_of(seen, "busy_seconds") / items,
                     stage == "decode" ? "picture" : "batch");
}

/// A cell, whose heading a phone shows in front of it.
std::string cell(std::string_view heading, const std::string& text) {
  return fmt::format("<td data-head=\"{}\">{}</td>", heading, text);
}

std::string on_core_text(const Json& seen) {
  const double busy = number_of(seen, "busy_seconds");
  const double on_core = number_of(seen, "cpu_seconds");
  // A reader also takes cores between the calls that count as busy.
  const double share = busy > 0 ? std::min(1.0, on_core / busy) : 0;
  return share > 0 ? verdict::percent(share) + " of it" : "";
}

std::string stage_row(const Report& report, const char* stage, const Json& seen) {
  const char* limiting = verdict::limiting_stage(report.verdict.limit);
  const bool limits = limiting != nullptr && std::string_view(limiting) == stage;
  const double busy = number_of(seen, "busy_share");
  std::string row = limits ? "<tr class=\"limits\">" : "<tr>";
  row += fmt::format("<th>{}{}</th>", stage, limits ? " <span class=\"mark\">limits</span>" : "");
  row += cell("threads", count_text(number_of(seen, "threads")));
  row += cell("busy", verdict::percent(busy));
  row += cell("waiting", verdict::percent(1 - busy));
  row += cell("on a core", on_core_text(seen));
  row += cell("in front of it", level_text(report, stage));
  row += cell("takes", latency_text(report, stage, seen));
  return row + "</tr>";
}

}  // namespace

std::string verdict_of(const Report& report) {
  const Verdict& verdict = report.verdict;
  std::string out = "<section class=\"card verdict\">";
  if (!report.error.empty()) {
    out += "<p class=\"problem\">The run ended by an error: " + escaped(report.error) + "</p>";
  }
  out += "<p class=\"headline\">" + escaped(verdict.headline) + "</p>";
  out += list_of(verdict.evidence) + list_of(verdict.notes) + "</section>\n";
  return out + "<div class=\"two\">" + card("What to do, the best first", remedies(verdict)) +
         card("What each part could give alone", ceilings(verdict)) + "</div>\n";
}

std::string evidence_of(const Report& report) {
  std::string rows;
  for (const auto& [stage, colour] : kReportStages) {
    const auto found = report.whole["stages"].find(stage);
    if (found != report.whole["stages"].end()) rows += stage_row(report, stage, *found);
  }
  return card("Evidence: each stage over the run",
              "<table class=\"stages\"><thead><tr><th>stage</th><th>threads</th><th>busy</th>"
              "<th>waiting</th><th>on a core</th><th>in front of it</th><th>takes</th></tr></thead>"
              "<tbody>" +
                  rows +
                  "</tbody></table><p class=\"soft\">Levels of queues are means of what was seen "
                  "over the run. A queue that stays full stands before what limits; one that stays "
                  "empty, behind it.</p>");
}

}  // namespace feedrace::view
