#include "app/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/report/curve.h"
#include "app/report/format.h"
#include "app/report/frontier.h"
#include "app/report/verdict.h"

namespace laconic::app::report {

// Generated from the files under app/report/page.
extern const std::string_view kPage, kStyle, kScript, kFrontierScript;

namespace {

using nlohmann::json;

constexpr double kSmoothShare = 0.03;
// Two points a column of pixels would be seen; the lines of single seeds are thin anyway.
constexpr std::size_t kMeanPoints = 500, kRunPoints = 250;

using Texts = std::vector<std::pair<std::string_view, std::string>>;

// Each {{name}} of `form` becomes its text; what the texts hold is left alone.
std::string fill(std::string_view form, const Texts& texts) {
  std::string result;
  while (!form.empty()) {
    const std::size_t begin = form.find("{{"), end = form.find("}}", begin);
    result += form.substr(0, begin);
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    for (const auto& [name, text] : texts)
      if (name == form.substr(begin + 2, end - begin - 2)) result += text;
    form.remove_prefix(end + 2);
  }
  return result;
}

// Six figures are more than can be seen.
json rounded(double value) {
  return std::isfinite(value) ? json(std::stod(fmt::format("{:.6g}", value))) : json();
}

json to_json(const Curve& curve) {
  json columns = {{"step", json::array()},
                  {"bytes", json::array()},
                  {"seconds", json::array()},
                  {"value", json::array()}};
  for (const Point& point : curve) {
    columns["step"].push_back(rounded(point.step));
    columns["bytes"].push_back(rounded(point.bytes));
    columns["seconds"].push_back(rounded(point.seconds));
    columns["value"].push_back(rounded(point.value));
  }
  return columns;
}

// The mean first, then each seed where there are several.
json lines_of(const std::vector<Curve>& curves) {
  json lines = {{"mean", to_json(thin(mean(curves), kMeanPoints))}, {"runs", json::array()}};
  if (curves.size() > 1)
    for (const Curve& curve : curves) lines["runs"].push_back(to_json(thin(curve, kRunPoints)));
  return lines;
}

json or_null(std::optional<double> value) { return value ? rounded(*value) : json(); }

// What an arm reached and cost, as a point of the frontier.
json cost_of(const json& arm) {
  return {{"loss", or_null(number_of(arm, "final_loss_mean"))},
          {"spread", or_null(number_of(arm, "final_loss_spread"))},
          {"bits", or_null(number_of(arm, "bits_per_parameter_per_step"))},
          {"rounds", or_null(number_of(arm, "rounds"))},
          {"seconds", or_null(time_of(arm))},
          {"lr", or_null(number_of(arm, "lr"))}};
}

json data_of(const Arm& arm) {
  std::vector<Curve> raw, smoothed, loss, metric;
  for (const Run& run : arm.runs) {
    raw.push_back(loss_curve(run.records));
    smoothed.push_back(smooth(raw.back(), kSmoothShare));
    loss.push_back(validation_curve(run.records, &StepRecord::validation_loss));
    metric.push_back(validation_curve(run.records, &StepRecord::validation_metric));
  }
  return {{"name", arm.name},     {"cost", cost_of(arm.summary)}, {"training", lines_of(smoothed)},
          {"raw", lines_of(raw)}, {"validation", lines_of(loss)}, {"metric", lines_of(metric)}};
}

bool has_frontier(const Section& section) {
  return section.summary.contains("frontier") && section.summary.contains("arms");
}

// The chart, below the curves; arms that diverged have no point in it, so they are named.
std::string frontier_figure(const Section& section, std::size_t index, const std::string& title) {
  if (!has_frontier(section)) return "";
  std::string html = fmt::format(
      "<h2>What it reached for its cost</h2>\n<figure class=\"chart\" data-frontier=\"{}\" "
      "aria-label=\"Frontier of {}\"></figure>\n",
      index, title);
  const auto diverged = section.summary.find("diverged");
  if (diverged == section.summary.end() || !diverged->is_object()) return html;
  for (const auto& [arm, why] : diverged->items())
    html += fmt::format("<p class=\"hint\">{} diverged: {}</p>\n", escape_html(arm),
                        escape_html(why.is_string() ? why.get<std::string>() : ""));
  return html;
}

json data_of(const Section& section) {
  json data = {
      {"metric", section.arms.empty() ? "" : text_of(section.arms.front().summary, "metric")},
      {"emulate", text_of(section.summary, "emulate")},
      {"baseline", section.baseline ? json(*section.baseline) : json()},
      {"equal_time", number_of(section.summary, "seconds_asked").has_value()},
      {"network", text_of(section.summary, "network")},
      {"arms", json::array()}};
  for (const Arm& arm : section.arms) data["arms"].push_back(data_of(arm));
  if (has_frontier(section)) data["frontier"] = frontier_of(section.summary["arms"]);
  return data;
}

// JSON inside a script element: nothing in it can end the element or open a comment.
std::string to_script(const json& data) {
  std::string text = data.dump(-1, ' ', false, json::error_handler_t::replace), result;
  for (const char c : text)
    if (c == '<')
      result += "\\u003c";
    else
      result += c;
  return result;
}

std::string title_of(const Section& section) {
  return fmt::format("{} on {}", text_of(section.summary, "model"),
                     text_of(section.summary, "task"));
}

std::string facts_of(const json& summary) {
  std::string html;
  const auto fact = [&](const std::string& text) {
    html += fmt::format("<li>{}</li>", escape_html(text));
  };
  const auto count = [&](const char* field, const char* one, const char* many) {
    if (const auto n = number_of(summary, field))
      fact(fmt::format("{} {}", human_number(*n), *n == 1 ? one : many));
  };
  count("parameters", "parameter", "parameters");
  count("ranks", "rank", "ranks");
  count("steps", "step", "steps");
  if (const auto seconds = number_of(summary, "seconds_asked"))
    fact(human_seconds(*seconds) + " of training each");
  if (const auto seeds = summary.find("seeds"); seeds != summary.end() && seeds->is_array())
    fact(seeds->size() == 1 ? "1 seed" : fmt::format("{} seeds", seeds->size()));
  const std::string emulate = text_of(summary, "emulate");
  fact(emulate.empty() ? "no emulated network" : "emulated network " + emulate);
  return html;
}

// What was run, and where: each text once, with the arms it is of.
std::string evidence_of(const Section& section) {
  std::string html = "<h3>What ran</h3>\n<dl class=\"arms\">\n";
  for (const Arm& arm : section.arms)
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_html(arm.name),
                        escape_html(text_of(arm.summary, "describe")));
  std::vector<std::string> commands, versions;
  const auto once = [](std::vector<std::string>& texts, const std::string& text) {
    if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end())
      texts.push_back(text);
  };
  const auto take = [&](const json& summary) {
    once(commands, text_of(summary, "command"));
    std::string version;
    for (const auto& [field, label] : {std::pair{"version", "laconic"}, {"torch", "LibTorch"}})
      if (const std::string text = text_of(summary, field); !text.empty())
        version += fmt::format("{} {} · ", label, text);
    if (const auto threads = number_of(summary, "threads"))
      version += fmt::format("{:.0f} torch thread{} a rank · ", *threads, *threads == 1 ? "" : "s");
    once(versions, version + text_of(summary, "machine"));
  };
  take(section.summary);
  if (!section.summary.contains("arms"))
    for (const Arm& arm : section.arms) take(arm.summary);
  html += "</dl>\n<h3>Command</h3>\n";
  for (const std::string& text : commands)
    html += fmt::format("<pre tabindex=\"0\"><code>{}</code></pre>\n", escape_html(text));
  html += "<h3>Made with</h3>\n";
  for (const std::string& text : versions) html += fmt::format("<p>{}</p>\n", escape_html(text));
  return html;
}

std::string render_section(const Section& section, std::size_t index) {
  const std::string title = escape_html(title_of(section));
  const json& first = section.arms.empty() ? section.summary : section.arms.front().summary;
  json facts = section.summary;
  if (!facts.contains("parameters") && first.contains("parameters"))
    facts["parameters"] = first["parameters"];
  std::string verdicts;
  for (const std::string& sentence :
       {verdict(section.summary), time_to_target(section.summary), frontier_text(section.summary)})
    if (!sentence.empty())
      verdicts += fmt::format("<p class=\"verdict\">{}</p>\n", escape_html(sentence));
  return fmt::format(
      "<section aria-labelledby=\"s{0}\">\n<h1 id=\"s{0}\">{1}</h1>\n{6}<ul "
      "class=\"facts\">{2}</ul>\n"
      "<figure class=\"chart\" data-section=\"{0}\" aria-label=\"Curves of {1}\"></figure>\n{7}"
      "<h2>What it reached, and what it cost</h2>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of "
      "{1}\">\n{3}\n</div>\n"
      "{4}<div class=\"evidence\">\n{5}</div>\n</section>\n",
      index, title, facts_of(facts), render_table(section),
      section.baseline ? "<p class=\"hint\">± is the spread over seeds. Notes compare with the "
                         "baseline; a difference no larger than the spread is called so.</p>\n"
                       : "",
      evidence_of(section), verdicts, frontier_figure(section, index, title));
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\'': result += "&#39;"; break;
      default: result += c;
    }
  return result;
}

std::string render(const std::vector<std::filesystem::path>& folders) {
  const std::vector<Section> sections = read_results(folders);
  std::string html;
  json data = json::array();
  for (const Section& section : sections) {
    html += render_section(section, data.size());
    data.push_back(data_of(section));
  }
  const std::string title = sections.size() == 1 ? title_of(sections.front())
                                                 : fmt::format("{} results", sections.size());
  return fill(kPage, {{"title", escape_html(title) + " · laconic"},
                      {"style", std::string(kStyle)},
                      {"sections", html},
                      {"data", to_script(data)},
                      {"script", std::string(kScript) + std::string(kFrontierScript)}});
}

}  // namespace laconic::app::report
