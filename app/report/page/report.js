"use strict";
// Draws the curves of each section from the JSON in #data: one SVG a section, no library.

const QUANTITIES = { training: "Training loss", validation: "Validation loss", metric: "Metric" };
const AXES = { step: "Steps", bytes: "Bytes sent", seconds: "Time" };
const ARM_COLORS = 6;
const MARGIN = { top: 14, right: 16, bottom: 46, left: 54 };

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes = {}, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.textContent = text;
  return node;
}

// --- numbers as people read them ---

const figures = (x, n) => String(Number(x.toPrecision(n)));

const BYTES = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]];
const TIMES = [["µs", 1e-6], ["ms", 1e-3], ["s", 1], ["min", 60], ["h", 3600]];
const UNITS = { step: [["", 1]], bytes: BYTES, seconds: TIMES };

// The largest unit of which there are at least so many.
function unit_for(axis, x, least = 1) {
  return UNITS[axis].findLast((unit) => Math.abs(x) >= least * unit[1]) ?? UNITS[axis][0];
}

const in_unit = (x, [name, size]) => `${figures(x / size, 3)}${name && "\u00a0"}${name}`;

const show_x = (axis, x) => x === 0 ? "0" : axis === "step" ? Math.round(x).toLocaleString("en") : in_unit(x, unit_for(axis, x));

// --- scales ---

function linear_ticks(low, high, wanted, size = 1) {
  const rough = (high - low) / size / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = size * power * [1, 2, 5, 10].find((m) => m * power >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-12; ++i) ticks.push(i * step);
  return ticks;
}

function log_ticks(low, high, wanted, base) {
  const within = (multiples) => {
    const ticks = [];
    for (let e = Math.floor(Math.log(low) / Math.log(base)); base ** e <= high; ++e)
      for (const m of multiples) if (m * base ** e >= low * 0.999 && m * base ** e <= high * 1.001) ticks.push(m * base ** e);
    return ticks;
  };
  let ticks = within(base === 10 ? [1, 2, 5] : [1]);
  if (ticks.length > wanted) ticks = within([1]);
  while (ticks.length > wanted) ticks = ticks.filter((_, i) => i % 2 === 0);
  return ticks.length > 2 ? ticks : linear_ticks(low, high, 5);
}

function make_scale(low, high, from, to, log) {
  const f = log ? Math.log : (x) => x;
  const a = f(low), b = f(high);
  return Object.assign((x) => from + (to - from) * (f(x) - a) / (b - a || 1), {
    low, high,
    invert: (p) => { const y = a + (b - a) * (p - from) / (to - from); return log ? Math.exp(y) : y; },
  });
}

const finite = (values) => values.filter((v) => v !== null);
// Unlike Math.min(...values), for any number of values.
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

// --- one chart ---

class Chart {
  constructor(figure, section) {
    this.figure = figure;
    this.section = section;
    this.hidden = new Set();
    this.cursor = null;
    const has = (quantity) => section.arms.some((arm) => arm[quantity].mean.step.length > 1);
    const best_known = section.equal_time && section.metric === "accuracy" ? "metric" : "validation";
    this.quantity = has(best_known) ? best_known : "training";
    this.axis = section.equal_time ? "seconds" : "step";
    this.log_x = { step: false, bytes: true, seconds: false };
    this.flags = { zoom: false, log_y: false, seeds: true, raw: false };
    this.names = { ...QUANTITIES, metric: section.metric ? section.metric[0].toUpperCase() + section.metric.slice(1) : "Metric" };
    this.axis_names = { step: "Steps", bytes: "Bytes sent per rank", seconds: section.emulate ? `Time on the emulated network (${section.emulate})` : "Training time" };
    this.build(has);
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  color(index) {
    if (index === this.section.baseline) return "var(--ink)";
    const before = this.section.baseline !== null && this.section.baseline < index ? 1 : 0;
    return `var(--arm${(index - before) % ARM_COLORS})`;
  }
  is_dashed(index) { return index - (this.section.baseline !== null && this.section.baseline < index ? 1 : 0) >= ARM_COLORS; }

  // --- what stands still ---

  build(has) {
    this.log_box = null;
    const quantities = Object.keys(QUANTITIES).filter(has);
    this.plot = element("div", { class: "plot" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.figure.append(
      element("div", { class: "controls" },
        this.radios("Quantity", quantities, this.names, () => this.quantity, (v) => { this.quantity = v; }),
        this.radios("Against", Object.keys(AXES), AXES, () => this.axis, (v) => { this.axis = v; this.log_box.checked = this.log_x[v]; }),
        this.boxes()),
      this.plot, this.legend());
    this.listen();
    for (const swatch of this.figure.closest("section").querySelectorAll(".swatch[data-arm]")) this.paint(swatch, Number(swatch.dataset.arm));
  }

  paint(swatch, index) {
    swatch.style.setProperty("--color", this.color(index));
    swatch.classList.toggle("dashed", this.is_dashed(index));
  }

  radios(title, values, names, get, set) {
    const group = element("fieldset", {}, element("legend", {}, title));
    for (const value of values) {
      const input = element("input", { type: "radio", name: `${title}-${this.figure.dataset.section}`, value });
      input.checked = value === get();
      input.addEventListener("change", () => { set(value); this.draw(); });
      group.append(element("label", { class: "pill" }, input, element("span", {}, names[value])));
    }
    return group;
  }

  boxes() {
    const group = element("fieldset", { class: "plain" }, element("legend", {}, "Options"));
    const add = (name, checked, set) => {
      const input = element("input", { type: "checkbox" });
      input.checked = checked;
      input.addEventListener("change", () => { set(input.checked); this.draw(); });
      group.append(element("label", { class: "pill" }, input, element("span", {}, name)));
      return input;
    };
    add("zoom to the end", false, (on) => { this.flags.zoom = on; });
    this.log_box = add("log x", this.log_x[this.axis], (on) => { this.log_x[this.axis] = on; });
    add("log y", false, (on) => { this.flags.log_y = on; });
    if (this.section.arms.some((arm) => arm.training.runs.length)) add("seeds", true, (on) => { this.flags.seeds = on; });
    this.raw_box = add("raw", false, (on) => { this.flags.raw = on; }).parentNode;
    return group;
  }

  legend() {
    const list = element("ul", { class: "legend", "aria-label": "Curves, press to hide or show" });
    this.section.arms.forEach((arm, index) => {
      const swatch = element("span", { class: "swatch" });
      this.paint(swatch, index);
      const button = element("button", { type: "button", "aria-pressed": "true" }, swatch, arm.name);
      button.addEventListener("click", () => {
        const now_hidden = !this.hidden.delete(index);
        if (now_hidden) this.hidden.add(index);
        button.setAttribute("aria-pressed", String(!now_hidden));
        this.draw();
      });
      list.append(element("li", {}, button));
    });
    return list;
  }

  // --- what is drawn ---

  visible() {
    const key = this.quantity === "training" && this.flags.raw ? "raw" : this.quantity;
    return this.section.arms
      .map((arm, index) => ({ index, name: arm.name, ...arm[key] }))
      .filter((arm) => !this.hidden.has(arm.index) && arm.mean.step.length > 0);
  }

  lines(arm) { return this.flags.seeds ? [...arm.runs, arm.mean] : [arm.mean]; }

  // The values to make room for: all, or those of the second half of the way.
  span_y(arms) {
    const ends = arms.flatMap((arm) => this.lines(arm)).flatMap((line) => line.value.slice(this.flags.zoom ? line.value.length >> 1 : 0));
    const ys = finite(ends);
    const low = least(ys);
    let high = most(ys);
    // An arm that runs away must not flatten the others.
    const starts = finite(arms.map((arm) => finite(arm.mean.value)[0] ?? null)).sort((a, b) => a - b);
    const start = starts[starts.length >> 1];
    if (this.quantity !== "metric" && high > 2 * start) high = 1.5 * start;
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  }

  scales(arms, width, height) {
    const xs = finite(arms.flatMap((arm) => this.lines(arm)).flatMap((line) => line[this.axis]));
    const first = least(xs.filter((x) => x > 0)), end = most(xs);
    const log_x = this.log_x[this.axis] && first < end;
    const begin = log_x ? first : 0;
    const [low, high] = this.span_y(arms);
    const log_y = this.flags.log_y && low > 0;
    const pad = log_y ? 0 : (high - low) * 0.04;
    return {
      log_x, log_y,
      x: make_scale(begin, end > begin ? end : begin + 1, MARGIN.left, width - MARGIN.right, log_x),
      y: make_scale(low - pad, high + pad, height - MARGIN.bottom, MARGIN.top, log_y),
    };
  }

  draw() {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    const height = Math.round(Math.min(460, Math.max(300, width * 0.46)));
    this.raw_box.hidden = this.quantity !== "training";
    const arms = this.visible();
    const label = `${this.names[this.quantity]} against ${this.axis_names[this.axis].toLowerCase()}: ${arms.map((a) => a.name).join(", ") || "nothing is shown"}. The table below has the final values.`;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": label });
    this.svg = svg;
    if (arms.some((arm) => finite(arm.mean.value).length)) {
      const scales = this.scales(arms, width, height);
      this.frame(svg, scales, width, height);
      this.curves(svg, arms, scales, width, height);
      this.shown = { arms, scales, width, height };
    } else {
      this.shown = null;
      svg.append(shape("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "Nothing to show"));
    }
    this.plot.replaceChildren(svg, this.tip);
    this.point();
  }

  frame(svg, { x, y, log_x, log_y }, width, height) {
    const bottom = height - MARGIN.bottom;
    const count = width < 520 ? 4 : 8;
    const unit = unit_for(this.axis, x.high, 1.5);
    const x_ticks = log_x ? log_ticks(x.low, x.high, count, this.axis === "bytes" ? 4 : 10) : linear_ticks(x.low, x.high, count, unit[1]);
    for (const tick of x_ticks) {
      svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: MARGIN.top, y2: bottom }),
        shape("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, log_x || this.axis === "step" || tick === 0 ? show_x(this.axis, tick) : in_unit(tick, unit)));
    }
    const percent = this.quantity === "metric" && this.section.metric === "accuracy";
    const y_ticks = log_y ? log_ticks(y.low, y.high, 7, 10) : linear_ticks(y.low, y.high, 6);
    for (const tick of y_ticks) {
      svg.append(shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
        shape("text", { x: MARGIN.left - 9, y: y(tick) + 4, "text-anchor": "end" }, percent ? `${figures(100 * tick, 4)} %` : figures(tick, 3)));
    }
    svg.append(shape("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }),
      shape("text", { class: "title", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 8, "text-anchor": "middle" }, this.axis_names[this.axis]));
  }

  path(line, { x, y, log_x }) {
    let d = "", pen = "M";
    line.value.forEach((value, i) => {
      const at = line[this.axis][i];
      if (value === null || at === null || (log_x && at <= 0)) { pen = "M"; return; }
      d += `${pen}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    return d;
  }

  curves(svg, arms, scales, width, height) {
    const clip = `clip${this.figure.dataset.section}`;
    const window_ = shape("clipPath", { id: clip });
    window_.append(shape("rect", { x: MARGIN.left, y: MARGIN.top - 4, width: width - MARGIN.left - MARGIN.right + 6, height: height - MARGIN.top - MARGIN.bottom + 4 }));
    const group = shape("g", { "clip-path": `url(#${clip})` });
    const add = (line, kind, arm) => {
      const path = shape("path", { class: kind, d: this.path(line, scales), stroke: this.color(arm.index), "data-arm": arm.name });
      if (this.is_dashed(arm.index)) path.setAttribute("stroke-dasharray", "7 5");
      group.append(path);
    };
    if (this.flags.seeds) for (const arm of arms) for (const run of arm.runs) add(run, "run", arm);
    for (const arm of arms) add(arm.mean, this.flags.raw && this.quantity === "training" ? "mean raw" : "mean", arm);
    this.marks = shape("g");
    svg.append(window_, group, this.marks);
  }

  // --- reading values ---

  listen() {
    const move = (event) => {
      const box = this.plot.getBoundingClientRect();
      this.cursor = event.clientX - box.left;
      this.point();
    };
    this.plot.addEventListener("pointermove", move);
    this.plot.addEventListener("pointerdown", move);
    this.plot.addEventListener("pointerleave", () => { this.cursor = null; this.point(); });
    this.plot.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.shown) return;
      event.preventDefault();
      const { width } = this.shown;
      this.cursor = Math.min(width - MARGIN.right, Math.max(MARGIN.left, (this.cursor ?? width / 2) + step * width / 60));
      this.point();
    });
  }

  // The point of a line that is nearest to x, if the line reaches it.
  nearest(line, x) {
    const xs = line[this.axis], position = this.shown.scales.x;
    let best = -1;
    xs.forEach((at, i) => {
      if (at === null || line.value[i] === null) return;
      if (best < 0 || Math.abs(position(at) - x) < Math.abs(position(xs[best]) - x)) best = i;
    });
    return best >= 0 && (Math.abs(position(xs[best]) - x) < 24 || (position(xs[0]) < x && x < position(xs[xs.length - 1]))) ? best : -1;
  }

  point() {
    this.marks?.replaceChildren();
    this.tip.hidden = true;
    const at = this.cursor;
    if (at === null || !this.shown) return;
    const { arms, scales, width, height } = this.shown;
    if (at < MARGIN.left - 8 || at > width - MARGIN.right + 8) return;
    const rows = element("tbody");
    for (const arm of arms) {
      const i = this.nearest(arm.mean, at);
      if (i < 0) continue;
      const x = scales.x(arm.mean[this.axis][i]), y = scales.y(arm.mean.value[i]);
      if (y >= MARGIN.top - 4 && y <= height - MARGIN.bottom + 4) this.marks.append(shape("circle", { class: "point", cx: x, cy: y, r: 4.5, fill: this.color(arm.index) }));
      const swatch = element("span", { class: "swatch" });
      this.paint(swatch, arm.index);
      rows.append(element("tr", {}, element("th", { scope: "row" }, swatch, arm.name), element("td", {}, this.show_y(arm.mean.value[i]))));
    }
    if (!rows.children.length) return;
    this.marks.prepend(shape("line", { class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: height - MARGIN.bottom }));
    this.tip.replaceChildren(element("p", {}, `${this.axis === "step" ? "Step " : ""}${show_x(this.axis, scales.x.invert(at))}`), element("table", {}, rows));
    this.tip.hidden = false;
    const side = at > width / 2 ? at - this.tip.offsetWidth - 14 : at + 14;
    this.tip.style.left = `${Math.max(0, Math.min(width - this.tip.offsetWidth, side))}px`;
  }

  show_y(value) {
    if (this.quantity === "metric" && this.section.metric === "accuracy") return `${(100 * value).toFixed(2)} %`;
    return figures(value, 4);
  }
}

function start_theme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const is_dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = is_dark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = is_dark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();
}

start_theme();
const sections = JSON.parse(document.getElementById("data").textContent);
const charts = [...document.querySelectorAll("figure[data-section]")].map((figure) => new Chart(figure, sections[Number(figure.dataset.section)]));
