// SPDX-License-Identifier: Apache-2.0
// The page that `feedrace top` draws.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/view/latency.h"
#include "feedrace/view/top.h"

namespace feedrace::view {
namespace {

using Json = nlohmann::ordered_json;

// Narrower ones have no room for a bar beside its name and its number.
constexpr std::size_t kWidthForBars = 40;
constexpr std::size_t kWidestBar = 40;
// Sentences are not broken into narrower lines than that, but cut.
constexpr std::size_t kLeastForWords = 16;
// Of a loader's further lines, behind the name.
constexpr const char* kIndent = "           ";
// Of the table of devices with all its columns.
constexpr std::size_t kWidthForTable = 78;
// More are not looked at; the busiest come first, and idle ones not at all.
constexpr std::size_t kShownDevices = 6;

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

/// Characters, of which names may have some of several bytes.
std::size_t cells(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

/// The first `width` characters of a line.
std::string fit(const std::string& line, std::size_t width) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (begins_character(line[i]) && ++count > width) return line.substr(0, i);
  }
  return line;
}

std::string bytes_a_second(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(std::max(0.0, bytes))) + "/s";
}

std::string count_text(double value) {
  return with_commas(static_cast<std::uint64_t>(std::max(0.0, value) + 0.5));
}

/// "[||||||    ]".
std::string bar(double share, std::size_t width) {
  const auto filled =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) + 0.5);
  return "[" + std::string(filled, '|') + std::string(width - filled, ' ') + "]";
}

/// The lines, which know how wide they may be.
class Page {
 public:
  Page(std::size_t width, std::size_t height) : width_(width), height_(height) {}

  void line(const std::string& text) {
    if (lines_ < height_) out_ += fit(text, width_) + "\n";
    ++lines_;
  }
  /// A sentence, over as many lines as it takes, all but the first further in.
  void sentence(const std::string& text, const std::string& indent) {
    const std::size_t room = std::max(width_, kLeastForWords);
    std::string row;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(' ', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      if (!row.empty() && cells(row) + 1 + cells(word) > room) {
        line(row);
        row = indent + word;
      } else {
        row += (begin == 0 ? "" : " ") + word;
      }
      begin = end + 1;
    }
    line(row);
  }
  /// A name, how much of it, and what to say of it.
  void share(const std::string& name, double share, const std::string& rest) {
    const std::string number = fmt::format("{:3.0f} %", share * 100);
    if (width_ < kWidthForBars) return line(fmt::format("{:<9}{} {}", name, number, rest));
    const std::size_t bar_width = std::min(kWidestBar, width_ / 3);
    line(fmt::format("  {:<9}{} {}  {}", name, bar(share, bar_width), number, rest));
  }

  std::size_t width() const noexcept { return width_; }
  const std::string& text() const noexcept { return out_; }

 private:
  const std::size_t width_;
  const std::size_t height_;
  std::size_t lines_ = 0;
  std::string out_;
};

double number(const Json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_number() ? found->get<double>() : 0;
}

void draw_machine(Page& page, const Json& top) {
  const Json& cpu = top["cpu"];
  if (!cpu.is_null()) {
    page.line(fmt::format("cpu {:.0f} % busy, {:.0f} % wait for I/O, {:.0f} % stolen",
                          number(cpu, "busy_share") * 100, number(cpu, "io_wait_share") * 100,
                          number(cpu, "stolen_share") * 100));
  }
  std::string pressure;
  for (const auto& item : top["pressure"].items()) {
    pressure += fmt::format("  {} {:.1f} %", item.key(), item.value().get<double>());
  }
  if (!pressure.empty()) page.line("pressure" + pressure + "  (somebody waited, last 10 s)");
}

std::string milliseconds(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : "-";
}

std::string kilobytes(const Json& value) {
  return value.is_number() ? fmt::format("{:.0f}", value.get<double>() * 1e-3) : "-";
}

/// As `iostat -xm` has it, MB of a million bytes.
std::string device_row(const Json& device) {
  return fmt::format(
      "{:<10}{:>7} {:>7.1f} {:>7} {:>7} {:>6} {:>7.1f} {:>7} {:>6.1f} {:>4.0f} %",
      device["name"].get<std::string>(), count_text(number(device, "reads_per_second")),
      number(device, "read_bytes_per_second") * 1e-6, milliseconds(device["read_latency_ms"]),
      kilobytes(device["read_size_bytes"]), count_text(number(device, "writes_per_second")),
      number(device, "written_bytes_per_second") * 1e-6, milliseconds(device["write_latency_ms"]),
      number(device, "queue"), number(device, "busy_share") * 100);
}

std::string narrow_device_row(const Json& device) {
  return fmt::format("{} {} in {} ms, {:.0f} %", device["name"].get<std::string>(),
                     bytes_a_second(number(device, "read_bytes_per_second")),
                     milliseconds(device["read_latency_ms"]), number(device, "busy_share") * 100);
}

void draw_devices(Page& page, const Json& top) {
  if (top["devices"].empty()) return;
  const bool has_room = page.width() >= kWidthForTable;
  page.line("");
  if (has_room) {
    page.line(fmt::format("{:<10}{:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>7} {:>6} {:>6}", "device",
                          "r/s", "rMB/s", "r ms", "r kB", "w/s", "wMB/s", "w ms", "queue", "busy"));
  }
  std::size_t shown = 0;
  for (const Json& each : top["devices"]) {
    const bool is_idle = number(each, "reads_per_second") + number(each, "writes_per_second") == 0;
    if (shown == kShownDevices || (is_idle && shown > 0)) break;
    ++shown;
    page.line(has_room ? device_row(each) : narrow_device_row(each));
  }
  page.sentence(
      "  busy: time with any request; a drive that serves many at once is not full at 100 %", "  ");
}

/// Of all processes' reads, where the kernel tells.
void draw_block_latency(Page& page, const Json& top) {
  const Json& told = top["block_latency"];
  if (!told.is_object()) return;
  if (told.contains("missing")) return;  // Said below.
  for (const auto& item : told["devices"].items()) {
    const Json& latency = item.value();
    page.line(fmt::format("  {:<9}{}  {:.2f} ms middle, {:.2f} ms 99th percentile, all reads",
                          item.key(), latency_columns(latency), 1e3 * number(latency, "p50"),
                          1e3 * number(latency, "p99")));
  }
  if (number(told, "lost_events") > 0) {
    page.line(fmt::format("  {} events of the block layer were lost",
                          count_text(number(told, "lost_events"))));
  }
}

void draw_gpus(Page& page, const Json& top) {
  const Json& gpus = top["gpus"];
  if (!gpus.is_object()) return;
  if (gpus.contains("missing")) return;  // Said below.
  int number_of_gpu = 0;
  for (const Json& each : gpus.value("devices", Json::array())) {
    if (!each.is_object()) continue;
    const auto name = each.find("name");
    page.share(
        fmt::format("gpu {}", number_of_gpu++), number(each, "busy_share"),
        fmt::format(
            "busy, {} of {} used, {} received  {}",
            human_bytes(static_cast<std::uint64_t>(number(each, "memory_used_bytes"))),
            human_bytes(static_cast<std::uint64_t>(number(each, "memory_total_bytes"))),
            bytes_a_second(number(each, "pcie_received_bytes_per_second")),
            name != each.end() && name->is_string() ? printable(name->get<std::string>()) : ""));
  }
}

std::string queues_text(const Json& loader) {
  std::string text;
  for (const auto& item : loader["queues"].items()) {
    std::string name = item.key();
    std::replace(name.begin(), name.end(), '_', ' ');
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count_text(item.value()), name);
  }
  return text;
}

std::string reads_text(const Json& loader) {
  std::string text;
  for (const auto& item : loader["read_bytes_per_second"].items()) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", item.key(), bytes_a_second(item.value()));
  }
  if (text.empty()) text = "nothing read";
  const Json& hits = loader["page_cache_hit_share"];
  if (!hits.is_null()) text += fmt::format(", {:.0f} % page-cache hits", 100 * hits.get<double>());
  return text + fmt::format(", {:.1f} copies a byte", number(loader, "copies_per_byte"));
}

/// Of the reads since the last look.
std::string columns_text(const Json& latency) {
  const std::string columns = latency_columns(latency);
  return columns.empty() ? "" : columns + "  ";
}

void draw_loader(Page& page, const Json& loader) {
  const std::string world = loader["world_size"] == "1"
                                ? ""
                                : fmt::format(", rank {} of {}", loader["rank"].get<std::string>(),
                                              loader["world_size"].get<std::string>());
  page.line("");
  page.line(fmt::format(
      "loader {}  {} images/s  {} ({}, batch {}{})", loader["pid"].get<std::uint64_t>(),
      count_text(number(loader, "samples_per_second")), loader["data"].get<std::string>(),
      loader["backend"].get<std::string>(), loader["batch_size"].get<std::string>(), world));
  for (const auto& item : loader["stages"].items()) {
    const Json& stage = item.value();
    const double busy = number(stage, "busy_share");
    // Of a consumer the wait is what matters.
    const bool is_consumer = item.key() == "consumer";
    page.share(item.key(), busy,
               is_consumer ? fmt::format("busy; waited {:.0f} %", 100 * (1 - busy))
                           : fmt::format("busy, {:.0f} thread{}", number(stage, "threads"),
                                         number(stage, "threads") == 1 ? "" : "s"));
  }
  page.sentence("  reads    " + reads_text(loader), kIndent);
  if (const Json& cached = loader["data_cached"]; cached.contains("share")) {
    page.line(fmt::format("  cached   {:.0f} % of the data set, by {} of its samples",
                          100 * number(cached, "share"), count_text(number(cached, "samples"))));
  }
  page.line(fmt::format("  latency  {}{:.2f} ms middle, {:.2f} ms 99th percentile of the run",
                        columns_text(loader["read_latency"]),
                        number(loader["read_latency_ms"], "p50"),
                        number(loader["read_latency_ms"], "p99")));
  if (const std::string queues = queues_text(loader); !queues.empty()) {
    page.sentence("  queues   " + queues, kIndent);
  }
  if (number(loader, "bad_samples") > 0) {
    page.line(fmt::format("  bad      {} samples", count_text(number(loader, "bad_samples"))));
  }
  page.sentence("  " + loader["verdict"].get<std::string>(), "  ");
}

/// What can't be seen here, and why.
void draw_missing(Page& page, const Json& top) {
  const auto say = [&](const char* name, const char* what) {
    const Json& told = top[name];
    if (!told.is_object() || !told.contains("missing") || !told["missing"].is_string()) return;
    page.sentence(what + printable(told["missing"].get<std::string>()), "  ");
  };
  say("gpus", "note: no GPU is seen: ");
  say("block_latency", "note: ");
}

}  // namespace

std::string draw_top(const Json& top, std::size_t width, std::size_t height) {
  Page page(std::max<std::size_t>(width, 1), std::max<std::size_t>(height, 1));
  draw_machine(page, top);
  draw_devices(page, top);
  draw_block_latency(page, top);
  draw_gpus(page, top);
  if (top["loaders"].empty()) {
    page.line("");
    page.line("no loader of this user runs; one is seen while its loop does");
  }
  for (const Json& loader : top["loaders"]) draw_loader(page, loader);
  page.line("");
  for (const Json& each : top["silent"]) page.sentence("note: " + each.get<std::string>(), "  ");
  draw_missing(page, top);
  return page.text();
}

}  // namespace feedrace::view
