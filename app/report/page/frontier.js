// Draws what each arm of a comparison reached against what it cost: a point an arm. Those that no other arm beats in
// both have their names and a line; the others stay, hollow. Uses the pieces of report.js.

const COSTS = {
  bits: { name: "Bits", title: "Bits per parameter and step", show: (x) => figures(x, 3) },
  rounds: { name: "Rounds", title: "Rounds of exchange", show: (x) => Math.round(x).toLocaleString("en") },
  seconds: { name: "Time", title: "Training time", show: (x) => show_x("seconds", x) },
};

class Frontier {
  constructor(figure, section, color) {
    this.figure = figure;
    this.section = section;
    this.color = color;
    this.cost = "bits";
    this.log_x = true;
    this.titles = Object.fromEntries(Object.entries(COSTS).map(([cost, { title }]) => [cost, title]));
    if (section.network) this.titles.seconds = `Training time on ${section.network}, computed`;
    else if (section.emulate) this.titles.seconds = `Training time on the emulated network (${section.emulate})`;
    this.plot = element("div", { class: "plot" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.text = element("p", { class: "hint", "aria-live": "polite" });
    this.figure.append(element("div", { class: "controls" }, this.radios(), this.box()), this.plot, this.text);
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  radios() {
    const group = element("fieldset", {}, element("legend", {}, "Validation loss against"));
    for (const [cost, { name }] of Object.entries(COSTS)) {
      const input = element("input", { type: "radio", name: `cost-${this.figure.dataset.frontier}`, value: cost });
      input.checked = cost === this.cost;
      input.addEventListener("change", () => { this.cost = cost; this.draw(); });
      group.append(element("label", { class: "pill" }, input, element("span", {}, name)));
    }
    return group;
  }

  box() {
    const input = element("input", { type: "checkbox" });
    input.checked = true;
    input.addEventListener("change", () => { this.log_x = input.checked; this.draw(); });
    return element("fieldset", { class: "plain" }, element("legend", {}, "Options"),
      element("label", { class: "pill" }, input, element("span", {}, "log x")));
  }

  points() {
    const on = new Set(this.section.frontier[this.cost]);
    return this.section.arms
      .map((arm, index) => ({ index, name: arm.name, x: arm.cost[this.cost], y: arm.cost.loss, spread: arm.cost.spread ?? 0, on: on.has(arm.name) }))
      .filter((point) => point.x !== null && point.y !== null);
  }

  scales(points, width, height) {
    const xs = points.map((p) => p.x), ys = points.flatMap((p) => [p.y - p.spread, p.y + p.spread]);
    const positive = xs.filter((x) => x > 0);
    const log = this.log_x && positive.length === xs.length;
    const [low_x, high_x] = [log ? least(xs) / 1.3 : 0, log ? most(xs) * 1.3 : most(xs) * 1.05 || 1];
    // An arm that failed must not flatten the others; it stays at the top edge.
    const middle = ys.slice().sort((a, b) => a - b)[ys.length >> 1];
    const low = least(ys), high = Math.min(most(ys), Math.max(low + 3 * (middle - low), middle));
    const pad = (high - low || 1) * 0.08;
    return {
      log,
      x: make_scale(low_x, high_x, MARGIN.left, width - MARGIN.right, log),
      y: make_scale(low - pad, high + pad, height - MARGIN.bottom, MARGIN.top, false),
    };
  }

  draw() {
    const width = this.plot.clientWidth;
    if (width === 0) return;
    const height = Math.round(Math.min(460, Math.max(300, width * 0.46)));
    const points = this.points(), title = this.titles[this.cost];
    const named = this.section.frontier[this.cost];
    const label = `Validation loss against ${title.toLowerCase()}. On the frontier: ${named.join(", ") || "none"}. The table below has all values.`;
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": label });
    if (points.length) this.fill(svg, points, this.scales(points, width, height), width, height);
    this.plot.replaceChildren(svg, this.tip);
    this.tip.hidden = true;
    this.text.textContent = named.length ? `No other arm is as cheap and as good: ${named.join(", ")}. The others are hollow. Lines are spreads over seeds.` : "";
  }

  fill(svg, points, scales, width, height) {
    const { x, y, log } = scales, bottom = height - MARGIN.bottom;
    const ticks = log ? log_ticks(x.low, x.high, width < 520 ? 4 : 8, 10) : linear_ticks(x.low, x.high, width < 520 ? 4 : 8);
    for (const tick of ticks)
      svg.append(shape("line", { class: "grid", x1: x(tick), x2: x(tick), y1: MARGIN.top, y2: bottom }),
        shape("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle" }, tick === 0 ? "0" : COSTS[this.cost].show(tick)));
    for (const tick of linear_ticks(y.low, y.high, 6))
      svg.append(shape("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
        shape("text", { x: MARGIN.left - 9, y: y(tick) + 4, "text-anchor": "end" }, figures(tick, 4)));
    svg.append(shape("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }),
      shape("text", { class: "title", x: (MARGIN.left + width - MARGIN.right) / 2, y: height - 8, "text-anchor": "middle" }, this.titles[this.cost]));
    this.line(svg, points, scales, width);
    // Dominated ones first: what counts lies above them.
    for (const point of points.slice().sort((a, b) => a.on - b.on)) this.point(svg, point, scales, width);
    this.names(svg, points, scales, width);
  }

  // As good as the line can be had for that much.
  line(svg, points, { x, y }, width) {
    const on = points.filter((p) => p.on).sort((a, b) => a.x - b.x);
    if (on.length < 1) return;
    let d = "";
    on.forEach((p, i) => { d += i === 0 ? `M${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}` : `H${x(p.x).toFixed(1)}V${y(p.y).toFixed(1)}`; });
    svg.append(shape("path", { class: "frontier", d: `${d}H${width - MARGIN.right}` }));
  }

  point(svg, point, { x, y }, width) {
    const top = MARGIN.top, cy = Math.max(top, y(point.y)), cx = x(point.x), color = this.color(point.index);
    const group = shape("g", { class: point.on ? "arm on" : "arm", tabindex: 0, role: "img", "data-arm": point.name,
      "aria-label": `${point.name}: loss ${figures(point.y, 4)}, ${COSTS[this.cost].show(point.x)}${point.on ? ", on the frontier" : ""}` });
    if (point.spread > 0) group.append(shape("line", { class: "spread", x1: cx, x2: cx, y1: Math.max(top, y(point.y + point.spread)), y2: Math.max(top, y(point.y - point.spread)), stroke: color }));
    group.append(shape("circle", { cx, cy, r: 5.5, stroke: color, fill: point.on ? color : "var(--card)" }));
    const show = () => this.show(point, cx, cy, width), hide = () => { this.tip.hidden = true; };
    group.addEventListener("pointerenter", show);
    group.addEventListener("focus", show);
    group.addEventListener("pointerleave", hide);
    group.addEventListener("blur", hide);
    svg.append(group);
  }

  names(svg, points, { x, y }, width) {
    let last = -Infinity;
    for (const p of points.filter((q) => q.on).sort((a, b) => y(a.y) - y(b.y))) {
      const right = x(p.x) > width * 0.6;
      const at = Math.max(y(p.y) - 9, last + 13);  // names do not lie on each other
      last = at;
      svg.append(shape("text", { class: "name", x: x(p.x) + (right ? -9 : 9), y: at, "text-anchor": right ? "end" : "start" }, p.name));
    }
  }

  show(point, cx, cy, width) {
    const { cost } = this.section.arms[point.index];
    const rows = [["Loss", `${figures(point.y, 4)}${point.spread ? ` ± ${figures(point.spread, 2)}` : ""}`],
      ...Object.entries(COSTS).filter(([name]) => cost[name] !== null).map(([name, { title, show }]) => [title, show(cost[name])])];
    if (cost.lr !== null) rows.push(["Rate", figures(cost.lr, 3)]);
    const body = element("tbody", {}, ...rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))));
    this.tip.replaceChildren(element("p", {}, point.name), element("table", {}, body));
    this.tip.hidden = false;
    const side = cx > width / 2 ? cx - this.tip.offsetWidth - 14 : cx + 14;
    this.tip.style.left = `${Math.max(0, Math.min(width - this.tip.offsetWidth, side))}px`;
  }
}

for (const figure of document.querySelectorAll("figure[data-frontier]")) {
  const number = Number(figure.dataset.frontier);
  new Frontier(figure, sections[number], (index) => charts[number].color(index));
}
