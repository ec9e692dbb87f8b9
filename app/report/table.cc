#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/report/format.h"
#include "app/report/html.h"

namespace laconic::app::report {
namespace {

using nlohmann::json;
using Number = std::optional<double>;

enum class Verdict { kNone, kBetter, kSame, kWorse };

constexpr const char* kClasses[] = {"", "better", "same", "worse"};
constexpr const char* kMissing = "<span class=\"missing\">–</span>";

// A value, and below it how it stands to the baseline's.
struct Cell {
  std::string value;
  std::string note;
  Verdict verdict = Verdict::kNone;
};

std::string to_html(const Cell& cell) {
  std::string html = "<td>" + (cell.value.empty() ? kMissing : cell.value);
  if (!cell.note.empty())
    html += fmt::format("<small class=\"{}\">{}</small>",
                        kClasses[static_cast<std::size_t>(cell.verdict)], cell.note);
  return html + "</td>";
}

Verdict judge(double gain, double noise) {
  if (std::abs(gain) <= noise) return Verdict::kSame;
  return gain > 0 ? Verdict::kBetter : Verdict::kWorse;
}

const char* word(Verdict verdict) {
  return verdict == Verdict::kSame     ? "within spread"
         : verdict == Verdict::kBetter ? "better"
                                       : "worse";
}

std::string with_spread(const std::string& value, Number spread, double factor, int decimals) {
  return spread ? fmt::format("{}<span class=\"spread\"> ± {:.{}f}</span>", value, *spread * factor,
                              decimals)
                : value;
}

// How a mean over seeds is shown and compared.
struct Quality {
  const char *mean, *spread;
  bool larger_is_better, percent;
};

Cell quality_cell(const Quality& quality, const json& arm, const json* baseline) {
  const Number value = number_of(arm, quality.mean);
  if (!arm.contains(quality.mean)) return {};
  if (!value) return {"<strong class=\"worse\">not finite</strong>", "", Verdict::kWorse};
  const double factor = quality.percent ? 100 : 1;
  const int decimals = quality.percent ? 2 : *value < 10 ? 4 : 2;
  const Number spread = number_of(arm, quality.spread);
  Cell cell{
      with_spread(fmt::format("{:.{}f}{}", *value * factor, decimals, quality.percent ? " %" : ""),
                  spread, factor, decimals),
      "", Verdict::kNone};
  const Number other = baseline != nullptr ? number_of(*baseline, quality.mean) : Number();
  if (!other || &arm == baseline) return cell;
  const double more = *value - *other;
  cell.verdict =
      judge(quality.larger_is_better ? more : -more,
            std::max(spread.value_or(0), number_of(*baseline, quality.spread).value_or(0)));
  const double shown = 100 * (quality.percent ? more : more / *other);
  const std::string difference = fmt::format("{}{:.2f} {}", shown < 0 ? "−" : "+", std::abs(shown),
                                             quality.percent ? "points" : "%");
  cell.note = fmt::format("{}<br>{}", difference, word(cell.verdict));
  return cell;
}

// A cost, smaller is better: "31.7× less".
Cell cost_cell(const char* field, const json& arm, const json* baseline,
               std::string (*show)(double), const char* less, const char* more) {
  const Number value = number_of(arm, field);
  if (!value) return {};
  Cell cell{show(*value), "", Verdict::kNone};
  const Number other = baseline != nullptr ? number_of(*baseline, field) : Number();
  if (!other || &arm == baseline || !(*value > 0) || !(*other > 0)) return cell;
  const double ratio = *other / *value;
  cell.verdict = judge(std::log(ratio), std::log(1.005));
  cell.note = cell.verdict == Verdict::kSame ? "the same"
              : ratio > 1                    ? fmt::format("{:.3g}× {}", ratio, less)
                                             : fmt::format("{:.3g}× {}", 1 / ratio, more);
  return cell;
}

Number time_to_quality(const json& arm) { return number_of(arm, "seconds_to_baseline"); }

Cell time_cell(const json& arm, const json* baseline) {
  if (baseline == nullptr) return {};
  if (const Number seconds = time_to_quality(arm)) return {human_seconds(*seconds), "", {}};
  return {"<span class=\"worse\">not reached</span>", "", {}};
}

Cell steps_cell(const json& arm) {
  const Number steps = number_of(arm, "steps"), seconds = number_of(arm, "training_seconds");
  return {steps ? human_number(*steps) : "", seconds ? "in " + human_seconds(*seconds) : "", {}};
}

Cell target_cell(const json& arm) {
  const Number seconds = number_of(arm, "seconds_to_target"),
               steps = number_of(arm, "steps_to_target");
  if (!seconds || !steps) return {"<span class=\"worse\">not reached</span>", "", {}};
  return {human_seconds(*seconds), human_number(*steps) + " steps", {}};
}

bool equal_time(const Section& section) {
  return number_of(section.summary, "seconds_asked").has_value();
}
bool has_target(const Section& section) {
  return number_of(section.summary, "target_loss") || number_of(section.summary, "target_metric");
}

Cell speed_up_cell(const json& arm, const json* baseline) {
  const Number mine = time_to_quality(arm);
  if (baseline == nullptr || !mine || !(*mine > 0)) return {};
  const Number theirs =
      time_to_quality(*baseline) ? time_to_quality(*baseline) : number_of(*baseline, "seconds");
  if (!theirs) return {};
  const double ratio = *theirs / *mine;
  const Verdict verdict =
      &arm == baseline ? Verdict::kNone : judge(std::log(ratio), std::log(1.005));
  return {fmt::format("<strong class=\"{}\">{:.3g}×</strong>",
                      kClasses[static_cast<std::size_t>(verdict)], ratio),
          verdict == Verdict::kWorse ? "slower" : "", verdict};
}

// What a reader must not miss, beside the name.
std::string badge(const json& arm, const json* baseline, const Cell& loss) {
  if (!number_of(arm, "final_loss_mean")) return "<span class=\"badge bad\">not finite</span>";
  if (&arm == baseline) return "<span class=\"badge\">baseline</span>";
  return loss.verdict == Verdict::kWorse ? "<span class=\"badge bad\">worse than baseline</span>"
                                         : "";
}

// The rate that was chosen, and the budget of the choice.
std::string tuning(const json& arm) {
  const auto found = arm.find("tuning");
  if (found == arm.end() || !found->is_object()) return "";
  const Number lr = number_of(*found, "lr"), steps = number_of(*found, "steps");
  const auto tried = found->find("tried");
  if (!lr || !steps || tried == found->end()) return "";
  return fmt::format("<small>rate {:g}, the best of {} tried for {} steps</small>", *lr,
                     tried->size(), human_number(*steps));
}

std::string row(const Section& section, std::size_t index, bool accuracy) {
  const json* baseline = section.baseline ? &section.arms[*section.baseline].summary : nullptr;
  const json& arm = section.arms[index].summary;
  const Cell loss =
      quality_cell({"final_loss_mean", "final_loss_spread", false, false}, arm, baseline);
  std::string html = fmt::format(
      "<tr><th scope=\"row\"><span class=\"swatch\" data-arm=\"{}\"></span>{} {}{}</th>", index,
      escape_html(section.arms[index].name), badge(arm, baseline, loss), tuning(arm));
  if (equal_time(section)) html += to_html(steps_cell(arm));
  for (const Cell& cell : {
           loss,
           quality_cell({"final_metric_mean", "final_metric_spread", accuracy, accuracy}, arm,
                        baseline),
           cost_cell("bits_per_parameter_per_step", arm, baseline, human_number, "less", "more"),
           cost_cell("rounds", arm, baseline, human_number, "fewer", "more"),
           cost_cell("bytes_sent_per_rank", arm, baseline, human_bytes, "less", "more"),
           cost_cell("step_seconds", arm, baseline, human_seconds, "faster", "slower"),
           cost_cell("exposed_seconds", arm, baseline, human_seconds, "less", "more"),
       })
    html += to_html(cell);
  if (has_target(section)) html += to_html(target_cell(arm));
  if (baseline != nullptr)
    html += to_html(time_cell(arm, baseline)) + to_html(speed_up_cell(arm, baseline));
  return html + "</tr>\n";
}

}  // namespace

std::string render_table(const Section& section) {
  const bool accuracy =
      !section.arms.empty() && text_of(section.arms.front().summary, "metric") == "accuracy";
  std::string html = fmt::format(
      "<thead><tr><th scope=\"col\">Optimizer</th>{}<th scope=\"col\">Final loss"
      "<small>validation</small></th><th scope=\"col\">{}<small>validation</small></th>"
      "<th scope=\"col\">Bits a step<small>per parameter</small></th><th scope=\"col\">Rounds</th>"
      "<th scope=\"col\">Sent<small>per rank</small></th>"
      "<th scope=\"col\">Step time<small>median</small></th>"
      "<th scope=\"col\">Exposed<small>median</small></th>{}{}</tr></thead>\n<tbody>\n",
      equal_time(section) ? "<th scope=\"col\">Steps</th>" : "",
      accuracy ? "Accuracy" : "Perplexity",
      has_target(section) ? "<th scope=\"col\">Time<small>to target</small></th>" : "",
      section.baseline ? "<th scope=\"col\">Time<small>to baseline’s<br>quality</small></th>"
                         "<th scope=\"col\">Speed-up</th>"
                       : "");
  for (std::size_t i = 0; i < section.arms.size(); ++i) html += row(section, i, accuracy);
  return "<table>\n" + html + "</tbody>\n</table>";
}

}  // namespace laconic::app::report
