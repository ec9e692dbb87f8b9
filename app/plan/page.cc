#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "app/plan/text.h"
#include "app/units.h"

namespace laconic::app::plan {
namespace {

constexpr double kLeft = 70, kTop = 20, kWidth = 760, kHeight = 380;
constexpr const char* kColors[] = {"#1f6feb", "#54aeff", "#8250df", "#bf3989", "#cf222e",
                                   "#bc4c00", "#9a6700", "#1a7f37", "#57606a", "#0a3069"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

// Both axes are logarithmic.
class Axes {
 public:
  Axes(const std::vector<Point>& points) : from_(points.front().rate), to_(points.back().rate) {
    least_ = most_ = points.front().seconds.front();
    for (const Point& point : points)
      for (const double seconds : point.seconds) {
        least_ = std::min(least_, seconds);
        most_ = std::max(most_, seconds);
      }
    least_ /= 1.1;
    most_ *= 1.1;
  }

  double x(double rate) const {
    return kLeft + kWidth * std::log(rate / from_) / std::log(to_ / from_);
  }
  double y(double seconds) const {
    return kTop + kHeight * (1 - std::log(seconds / least_) / std::log(most_ / least_));
  }

  std::string grid() const {
    std::string out =
        fmt::format("<rect x='{}' y='{}' width='{}' height='{}' fill='none' stroke='#8c959f'/>",
                    kLeft, kTop, kWidth, kHeight);
    decades(8 * from_, 8 * to_, [&](double bits) {
      const double at = x(bits / 8);
      out += fmt::format(
          "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' class='g'/><text x='{0:.1f}' y='{3}' "
          "text-anchor='middle'>{4}</text>",
          at, kTop, kTop + kHeight, kTop + kHeight + 18, rate_text(bits / 8));
    });
    decades(least_, most_, [&](double seconds) {
      const double at = y(seconds);
      out += fmt::format(
          "<line x1='{1}' x2='{2}' y1='{0:.1f}' y2='{0:.1f}' class='g'/><text x='{3}' y='{4:.1f}' "
          "text-anchor='end'>{5}</text>",
          at, kLeft, kLeft + kWidth, kLeft - 6, at + 4, time_text(seconds));
    });
    return out;
  }

 private:
  template <typename Work>
  static void decades(double from, double to, const Work& work) {
    for (double at = std::pow(10, std::floor(std::log10(from))); at <= to; at *= 10)
      for (const double factor : {1.0, 2.0, 5.0})
        if (at * factor >= from && at * factor <= to && (factor == 1 || to / from < 100))
          work(at * factor);
  }

  double from_, to_, least_, most_;
};

std::string plot(const Plan& plan) {
  const Axes axes(plan.sweep);
  std::string out =
      fmt::format("<svg viewBox='0 0 1100 {}' role='img'>{}", kTop + kHeight + 50, axes.grid());
  for (std::size_t i = 0; i < plan.best.size(); ++i) {
    const char* color = kColors[i % std::size(kColors)];
    std::string points;
    for (const Point& point : plan.sweep)
      points += fmt::format("{:.1f},{:.1f} ", axes.x(point.rate), axes.y(point.seconds[i]));
    const double at = kTop + 14 + 18 * static_cast<double>(i);
    out += fmt::format(
        "<polyline points='{0}' fill='none' stroke='{1}' stroke-width='2'{4}/><rect x='{5}' "
        "y='{2}' width='14' height='4' fill='{1}'/><text x='{6}' y='{7}'>{3}</text>",
        points, color, at, escaped(plan.best[i].name() + ", " + plan.best[i].exchange),
        plan.best[i].dense() ? " stroke-dasharray='6 3'" : "", kLeft + kWidth + 14,
        kLeft + kWidth + 34, at + 6);
  }
  const double rate = plan.scenario.cluster.inter.bytes_per_second;
  if (rate >= plan.sweep.front().rate && rate <= plan.sweep.back().rate)
    out += fmt::format(
        "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' stroke='#24292f' "
        "stroke-dasharray='2 3'/>",
        axes.x(rate), kTop, kTop + kHeight);
  return out +
         fmt::format("<text x='{}' y='{}' text-anchor='middle'>rate between nodes</text></svg>",
                     kLeft + kWidth / 2, kTop + kHeight + 40);
}

std::string table(const Plan& plan) {
  std::string out =
      "<table><tr><th>optimizer<th>exchange<th>ms/step<th>x fp32<th>x bf16<th>exposed ms<th>coding "
      "ms<th>MB inside<th>MB between<th>GB per rank<th>dense/coded/local %</tr>";
  for (const Arm& arm : plan.best) {
    const laconic::plan::Forecast& mean = arm.cost.mean;
    out += fmt::format(
        "<tr><td>{}<td>{}<td>{:.2f}<td>{:.2f}<td>{:.2f}<td>{:.2f}<td>{:.2f}<td>{:.3f}<td>{:.3f}<td>"
        "{:.2f}<td>{:.0f}/{:.0f}/{:.0f}</tr>",
        escaped(arm.name()), arm.exchange, 1e3 * mean.seconds, arm.over_fp32, arm.over_bf16,
        1e3 * mean.exposed, 1e3 * mean.coding, mean.bytes_inside / 1e6, mean.bytes_between / 1e6,
        arm.memory / 1e9, 100 * arm.cost.dense_share, 100 * arm.cost.coded_share,
        100 * arm.cost.silent_share);
  }
  return out + "</table>";
}

}  // namespace

std::string to_page(const Plan& plan) {
  const laconic::plan::Cluster& cluster = plan.scenario.cluster;
  std::string notes;
  for (const std::string& note : plan.notes) notes += "<li>" + escaped(note) + "</li>";
  return fmt::format(
      "<!doctype html><html lang='en'><meta charset='utf-8'><title>laconic plan: {0}</title>\n"
      "<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 "
      "1em;color:#24292f}}svg{{width:100%}}svg "
      "text{{font-size:12px;fill:#24292f}}.g{{stroke:#d0d7de}}"
      "table{{border-collapse:collapse}}td,th{{padding:.2em .6em;border-bottom:1px solid "
      "#d0d7de;text-align:right}}td:first-child,th:first-child{{text-align:left}}</style>\n"
      "<h1>{0} on {1} nodes of {2} ranks</h1><p><b>{3}</b></p>\n{4}\n{5}\n<h2>From</h2><ul><li>{6} "
      "parameters, {7:.1f} ms forward and backward</li><li>{8}, {9} between nodes; {10}, {11} "
      "inside</li>{12}</ul><p>The dotted line is the rate between nodes of this plan; dashed "
      "curves "
      "are dense.</p></html>\n",
      escaped(plan.model), cluster.nodes, cluster.per_node, escaped(plan.advice), plot(plan),
      table(plan), plan.scenario.work.parameters, 1e3 * plan.scenario.work.step_seconds,
      rate_text(cluster.inter.bytes_per_second), time_text(cluster.inter.latency_seconds),
      rate_text(cluster.intra.bytes_per_second), time_text(cluster.intra.latency_seconds), notes);
}

}  // namespace laconic::app::plan
