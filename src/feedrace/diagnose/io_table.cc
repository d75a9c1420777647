// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kColumns = 120;

/// The lines that say why there are no figures: the reason stands in the line where it fits, else
/// in a note below the table.
class Reasons {
 public:
  std::string line(const IoLine& line, const std::string& reason) {
    std::string text = fmt::format("{:<14} {:<5} n/a: ", line.name(), line.state());
    const std::string shown = printable(reason);
    text += text.size() + shown.size() <= kColumns ? shown
                                                   : fmt::format("see note {}", number_of(shown));
    return text + '\n';
  }
  std::string notes() const {
    std::string text;
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text += fmt::format("note {}: {}\n", i + 1, notes_[i]);
    }
    return text;
  }

 private:
  std::size_t number_of(const std::string& note) {
    const auto found = std::find(notes_.begin(), notes_.end(), note);
    const auto index = static_cast<std::size_t>(found - notes_.begin());
    if (found == notes_.end()) notes_.push_back(note);
    return index + 1;
  }

  std::vector<std::string> notes_;
};

/// Of small blocks one at a time, two digits would be none.
std::string rate_text(double gb_per_second) {
  return fmt::format("{:.{}f}", gb_per_second, gb_per_second < 0.1 ? 4 : 2);
}

/// The lowest and the highest rate, as wide as its heading.
std::string range_of(const std::vector<IoFigures>& rounds) {
  const std::vector<double> rates = values_of(rounds, &IoFigures::gb_per_second);
  return fmt::format(" {:>6}-{:<6}", rate_text(quantile_of(rates, 0)),
                     rate_text(quantile_of(rates, 1)));
}

std::string middle_half(const std::vector<double>& ratios) {
  if (ratios.empty()) return "n/a";
  return fmt::format("{:.3f} ({:.3f}-{:.3f})", quantile_of(ratios, 0.5), quantile_of(ratios, 0.25),
                     quantile_of(ratios, 0.75));
}

std::string figures_line(const IoLine& line, bool has_range) {
  const IoFigures figures = median_of(line.rounds);
  return fmt::format(
      "{:<14} {:<5} {:>6}{} {:>7.0f} {:>7.0f} {:>7.0f} {:>8.0f} {:>8.4f} {:>9.0f} {:>8.0f} "
      "{:>6.2f} {:>10}\n",
      line.name(), line.state(), rate_text(figures.gb_per_second),
      has_range ? range_of(line.rounds) : std::string(), figures.reads_per_second, figures.p50_us,
      figures.p99_us, figures.max_us, figures.cpu_seconds_per_gb, figures.context_switches_per_gb,
      figures.system_calls_per_gb, figures.copies_per_byte,
      figures.pages_left ? fmt::format("{:.0f}", *figures.pages_left) : "n/a");
}

/// What "copies" leaves out.
std::string device_note(const std::vector<IoLine>& lines) {
  std::string copied;
  std::string direct;
  std::string device;
  for (const IoLine& line : lines) {
    if (!line.path.device_read || !line.reason.empty() || !line.is_cold) continue;
    const bool is_copied = median_of(line.rounds).device_copies_per_byte > 0;
    std::string& names = is_copied ? copied : direct;
    names += (names.empty() ? "" : ", ") + line.name();
    device = line.path.target.name;
  }
  std::string text;
  if (!copied.empty()) text += fmt::format("{} copies each byte once more: {}\n", device, copied);
  if (!direct.empty()) text += fmt::format("{} copies no byte: {}\n", device, direct);
  return text;
}

}  // namespace

std::vector<IoLine> lines_of(const std::vector<IoPath>& paths) {
  std::vector<IoLine> lines;
  for (const IoPath& path : paths) {
    IoLine& line = lines.emplace_back();
    line.path = path;
    if (!path.uses_page_cache()) continue;
    IoLine warm = line;
    warm.is_cold = false;
    lines.push_back(std::move(warm));
  }
  return lines;
}

std::string io_table(const std::vector<IoLine>& lines) {
  const bool has_range = std::any_of(lines.begin(), lines.end(),
                                     [](const IoLine& line) { return line.rounds.size() > 1; });
  std::string text =
      fmt::format("{:<14} {:<5} {:>6}{} {:>7} {:>7} {:>7} {:>8} {:>8} {:>9} {:>8} {:>6} {:>10}\n",
                  "path", "state", "GB/s", has_range ? "    low-high  " : "", "IOPS", "p50 us",
                  "p99 us", "max us", "CPU s/GB", "switch/GB", "calls/GB", "copies", "pages left");
  Reasons reasons;
  std::string pages_reason;
  for (const IoLine& line : lines) {
    text += line.reason.empty() ? figures_line(line, has_range) : reasons.line(line, line.reason);
    if (line.reason.empty() && !line.pages_reason.empty()) pages_reason = line.pages_reason;
  }
  text += reasons.notes() + device_note(lines);
  if (!pages_reason.empty()) text += fmt::format("pages left: {}\n", printable(pages_reason));
  return text;
}

std::string fio_table(const std::vector<IoLine>& lines, const std::string& fio) {
  std::string text = fmt::format(
      "Feedrace / {}: the median of the pairs, taken in turns, and the middle half of them\n"
      "{:<14} {:<5} {:<22} {:<22} {:>5}\n",
      fio, "path", "state", "rate", "CPU per GB", "pairs");
  Reasons reasons;
  for (const IoLine& line : lines) {
    if (!line.fio) continue;
    if (!line.fio->reason.empty()) {
      text += reasons.line(line, line.fio->reason);
      continue;
    }
    text += fmt::format("{:<14} {:<5} {:<22} {:<22} {:>5}\n", line.name(), line.state(),
                        middle_half(line.fio->ratios), middle_half(line.fio->cpu_ratios),
                        line.fio->ratios.size());
  }
  return text + reasons.notes() +
         "fio's memory is aligned and asks for huge pages, as ours; fio 3.33 and later use "
         "DEFER_TASKRUN in every row that can.\nIts CPU is that of its job; where threads of the "
         "kernel read, that of its process less its start. --json: its arguments\n";
}

}  // namespace feedrace::diagnose
