// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/stats.h"
#include "feedrace/view/html.h"
#include "feedrace/view/report_parts.h"
#include "feedrace/view/report_style.h"
#include "feedrace/view/report_verdict.h"

namespace feedrace::view {
namespace {

using Json = nlohmann::ordered_json;

double counter(const Report& report, const char* name) {
  const auto counters = report.told.find("counters");
  return counters == report.told.end() ? 0 : number_of(*counters, name);
}

std::string fact(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"fact\"><b>{}</b><span class=\"soft\">{}</span></div>",
                     escaped(value), escaped(what));
}

std::string facts_of(const Report& report) {
  const Json& latency = report.told["counters"]["read_latency_seconds"];
  std::string out = "<div class=\"facts\">";
  out += fact(count_text(number_of(report.whole, "samples_per_second")), "images a second");
  out += fact(fmt::format("{:.2f} s", report.first_batch_seconds), "to the first batch");
  out += fact(fmt::format("{:.2f} s", report.cpu_seconds_per_1000), "CPU for 1,000 images");
  out += fact(fmt::format("{:.1f}", counter(report, "copies_per_byte")), "CPU copies a byte read");
  out +=
      fact(fmt::format("{:.2f} ms", 1e3 * number_of(latency, "p99")), "99th percentile of a read");
  out += fact(count_text(counter(report, "bad_samples")), "bad samples");
  return out + "</div>\n";
}

std::vector<double> seconds_of(const Report& report) {
  std::vector<double> seconds;
  seconds.reserve(report.stretches.size());
  for (const Json& each : report.stretches) seconds.push_back(number_of(each, "seconds"));
  return seconds;
}

std::string throughput(const Report& report) {
  LineChart chart;
  chart.title = "Images a second over the run";
  chart.unit = "images/s";
  chart.seconds = seconds_of(report);
  chart.is_area = true;
  LineChart::Line line{"images/s", "s1", {}};
  for (const Json& each : report.stretches) {
    line.values.push_back(number_of(each, "samples_per_second"));
  }
  chart.lines = {line};
  return card("Throughput over time", to_svg(chart));
}

std::string stage_lines(const Report& report) {
  LineChart chart;
  chart.title = "Busy share of each stage over the run";
  chart.unit = "% busy";
  chart.seconds = seconds_of(report);
  chart.highest = 100;
  std::string key = "<div class=\"key\">";
  for (const auto& [stage, colour] : kReportStages) {
    if (!report.whole["stages"].contains(stage)) continue;
    LineChart::Line line{stage, colour, {}};
    for (const Json& each : report.stretches) {
      const bool is_there = each["stages"].contains(stage);
      line.values.push_back(is_there ? 100 * number_of(each["stages"][stage], "busy_share") : 0);
    }
    chart.lines.push_back(line);
    key += fmt::format("<span><i class=\"{}\"></i>{}</span>", colour, stage);
  }
  return card("Stages over time", to_svg(chart) + key + "</div>");
}

std::string stage_bars(const Report& report) {
  std::string out;
  for (const auto& [stage, colour] : kReportStages) {
    const auto found = report.whole["stages"].find(stage);
    if (found == report.whole["stages"].end()) continue;
    const double busy = 100 * number_of(*found, "busy_share");
    const double threads = number_of(*found, "threads");
    out += fmt::format(
        "<div class=\"stage\"><span>{}</span><div class=\"track\"><div "
        "class=\"{}\" style=\"width:{:.1f}%\"></div>"
        "</div><span>{:.0f} % of {:.0f} thread{}</span></div>",
        stage, colour, busy, busy, threads, threads == 1 ? "" : "s");
  }
  return card("Stages: busy, the rest waits",
              out +
                  "<p class=\"soft\">A consumer that waits is what costs: its bar should be full. "
                  "The stage before the first one that waits for work is what limits.</p>");
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.0f} s", seconds);
}

std::string latencies(const Report& report) {
  const Json& latency = report.told["counters"]["read_latency_seconds"];
  BarChart chart;
  chart.title = "How long reads took";
  chart.unit = "reads";
  double below = 0;
  for (const Json& bucket : latency["buckets"]) {
    const auto count = bucket[1].get<double>();
    chart.names.push_back("≤ " + time_text(bucket[0].get<double>()));
    chart.values.push_back(count - below);
    below = count;
  }
  // Buckets of nothing at both ends say nothing.
  while (chart.values.size() > 1 && chart.values.back() == 0) {
    chart.values.pop_back();
    chart.names.pop_back();
  }
  while (chart.values.size() > 1 && chart.values.front() == 0) {
    chart.values.erase(chart.values.begin());
    chart.names.erase(chart.names.begin());
  }
  return card(
      "Latency of reads",
      to_svg(chart) +
          fmt::format("<p class=\"soft\">{} reads; {:.2f} ms in the middle, {:.2f} ms at the "
                      "99th percentile, {:.2f} ms the longest.</p>",
                      count_text(number_of(latency, "count")), 1e3 * number_of(latency, "p50"),
                      1e3 * number_of(latency, "p99"), 1e3 * number_of(latency, "max")));
}

std::string paths(const Report& report) {
  std::string rows;
  const Json& bytes = report.told["counters"]["read_bytes"];
  for (std::size_t i = 0; i < kPathCount; ++i) {
    const auto path = static_cast<Path>(i);
    const double read = number_of(bytes, to_string(path));
    if (read == 0) continue;
    rows += fmt::format(
        "<tr><td class=\"word\">{}</td><td class=\"number\">{}</td><td "
        "class=\"number\">{}</td></tr>",
        to_string(path), human_bytes(static_cast<std::uint64_t>(read)), copies_of(path));
  }
  std::string notes;
  for (const Json& each : report.told["fallbacks"]) {
    const std::string sentence = each.value("sentence", "");
    notes += fmt::format("<p>{} <span class=\"soft\">({} times)</span></p>", escaped(sentence),
                         count_text(number_of(each, "count")));
  }
  if (notes.empty()) notes = "<p class=\"soft\">Nothing that was wanted had to be replaced.</p>";
  return card("Bytes by the path they took",
              "<table><thead><tr><th>path</th><th class=\"number\">read</th>"
              "<th class=\"number\">copies a byte</th></tr></thead><tbody>" +
                  rows + "</tbody></table>" + notes);
}

std::string errors(const Report& report) {
  std::string out = "<p>No sample was bad.</p>";
  if (counter(report, "bad_samples") + counter(report, "flagged_samples") > 0)
    out = fmt::format(
        "<p>{} bad: {} replaced, {} blanked. {} delivered although the decoder complained.</p>",
        count_text(counter(report, "bad_samples")),
        count_text(counter(report, "substituted_samples")),
        count_text(counter(report, "blanked_samples")),
        count_text(counter(report, "flagged_samples")));
  std::string lines;
  for (const Json& each : report.told["complaints"])
    lines += escaped(each.get<std::string>()) + "\n";
  for (const std::string& line : report.quarantine) lines += escaped(line) + "\n";
  if (!lines.empty()) out += "<pre>" + lines + "</pre>";
  return card("Errors and quarantine", out);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += j <= count ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

std::string contact_sheet(const Report& report) {
  if (report.pictures.empty()) {
    return card("Contact sheet", "<p class=\"soft\">" + escaped(report.picture_note) + "</p>");
  }
  std::string out = "<div class=\"sheet\">";
  for (const Thumbnail& each : report.pictures) {
    out += fmt::format(
        "<figure><img alt=\"{0}\" src=\"data:image/png;base64,{1}\"/><figcaption>{0}</figcaption>"
        "</figure>",
        escaped(each.caption), base64(each.png));
  }
  return card("Contact sheet: the first batch, as the network gets it", out + "</div>");
}

std::string lines_of(const std::string& text) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out += escaped(std::string_view(text).substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return out;
}

std::string finding(const doctor::Finding& one) {
  const std::string subject = one.subject.empty() ? "" : " " + one.subject;
  std::string out = fmt::format(
      "<details><summary><span class=\"grade {0}\">{0}</span> {1}: {2}</summary>"
      "<p>wanted: {3}</p><p class=\"soft\">{4}</p>",
      to_string(one.grade), escaped(one.item + subject), escaped(one.found), escaped(one.wanted),
      escaped(one.why));
  if (!one.tip.empty()) out += "<p class=\"soft\">often advised: " + escaped(one.tip) + "</p>";
  if (!one.fix.empty()) out += "<pre>" + lines_of(one.fix) + "</pre>";
  return out + "</details>";
}

/// What there is to do first; what is well, and what can't be seen, together behind it.
std::string doctor_of(const Report& report) {
  using doctor::Grade;
  std::vector<const doctor::Finding*> to_do;
  std::string rest;
  std::size_t good = 0;
  std::size_t unknown = 0;
  for (const doctor::Finding& one : report.findings) {
    if (one.grade == Grade::kProblem || one.grade == Grade::kAdvice) {
      to_do.push_back(&one);
      continue;
    }
    rest += finding(one);
    ++(one.grade == Grade::kGood ? good : unknown);
  }
  const auto rank = [](const doctor::Finding* one) {
    return std::pair(one->grade == Grade::kProblem ? 0 : 1, -static_cast<int>(one->weight));
  };
  std::stable_sort(to_do.begin(), to_do.end(),
                   [&](const auto* a, const auto* b) { return rank(a) < rank(b); });
  std::string out;
  for (const doctor::Finding* one : to_do) out += finding(*one);
  if (to_do.empty()) out = "<p>Nothing to do.</p>";
  out += fmt::format(
      "<details><summary><span class=\"grade good\">{} good</span>, {} unknown</summary>{}"
      "</details>",
      good, unknown, rest);
  return card("What the doctor finds", out);
}

std::string machine(const Report& report) {
  std::string rows;
  for (const auto& [name, value] : report.machine) {
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
  }
  return card("Machine", "<table><tbody>" + rows + "</tbody></table>");
}

}  // namespace

bool is_report(std::string_view head) {
  return head.starts_with("<!DOCTYPE html>") &&
         head.substr(0, 1024).find("Feedrace") != std::string_view::npos;
}

std::string to_html(const Report& report) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"/>"
      "<title>Feedrace: " +
      escaped(report.title) + "</title><style>" + kReportStyle + "</style></head>\n<body><main>\n";
  out += fmt::format("<h1>{}</h1><p class=\"soft\">Feedrace report, {}</p>\n",
                     escaped(report.title), escaped(report.when));
  out += verdict_of(report);
  out += facts_of(report);
  out += evidence_of(report);
  out += "<div class=\"two\">" + throughput(report) + stage_lines(report) + "</div>\n";
  out += "<div class=\"two\">" + stage_bars(report) + latencies(report) + "</div>\n";
  out += contact_sheet(report);
  out += "<div class=\"two\">" + paths(report) + errors(report) + "</div>\n";
  out += card("Plan", "<pre>" + lines_of(report.plan) + "</pre>");
  out += doctor_of(report);
  out += machine(report);
  return out + "</main></body></html>\n";
}

}  // namespace feedrace::view
