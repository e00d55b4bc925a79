// A number over epochs, one line per run. Drawn anew at each change, at once, so that nothing flickers.

const MARGIN = { top: 12, right: 16, bottom: 40, left: 52 };
const MOST_POINTS = 80; // of a run whose points are all marked

// Round values that divide a range into about `num` parts.
function ticks(low, high, num) {
  const rough = (high - low) / num;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

function linesNow() {
  return data.runs
    .filter(isShown)
    .map((run) => ({
      run,
      ...inkOf(run),
      points: run.results
        .filter((result) => result.step !== null && isNumber(valueOf(result)))
        .map((result) => ({ result, step: result.step, value: valueOf(result) })),
    }))
    .filter(({ points }) => points.length);
}

function runChart() {
  const figure = el("figure", { class: "over-epochs", tabindex: 0, role: "application" });
  const spoken = el("span", { class: "spoken", role: "status" });
  let drawing = null; // what is drawn now: lines, scales, and the overlay of the reader's position
  let at = null; // { line, index } that the reader points at

  function draw() {
    const lines = linesNow();
    const width = Math.max(280, figure.clientWidth);
    const height = width < 560 ? 260 : 360;
    const steps = [...new Set(lines.flatMap(({ points }) => points.map(({ step }) => step)))].sort((a, b) => a - b);
    const values = lines.flatMap(({ points }) => points.map(({ value }) => value));
    const drawnResults = lines.flatMap(({ points }) => points.map(({ result }) => result));
    const unit = drawnResults.every((each) => each.unit === "epoch") ? "epoch" : "step";
    figure.setAttribute(
      "aria-label",
      `${measureNow()} by ${unit} of ${count(lines.length, "run")}; arrow keys move, Enter opens a report`,
    );
    if (!lines.length) {
      drawing = null;
      figure.replaceChildren();
      return false;
    }
    const [low, high] = reach(Math.min(...values), Math.max(...values));
    const [first, last] = [steps[0], steps.at(-1)];
    const inner = { right: width - MARGIN.right, bottom: height - MARGIN.bottom };
    const x = (step) =>
      first === last
        ? (MARGIN.left + inner.right) / 2
        : MARGIN.left + 8 + ((step - first) / (last - first)) * (inner.right - MARGIN.left - 16);
    const y = (value) => inner.bottom - ((value - low) / (high - low)) * (inner.bottom - MARGIN.top);
    const overlay = svg("g", { class: "overlay" });
    const yTicks = ticks(low, high, height < 300 ? 4 : 6);
    const digits = Math.max(1, -Math.floor(Math.log10(yTicks[1] - yTicks[0] + 1e-12)));
    const xTicks =
      first === last
        ? [first]
        : ticks(first, last, Math.min(steps.length, width / 80)).filter((step) => Number.isInteger(step));
    figure.replaceChildren(
      svg(
        "svg",
        { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
        yTicks.flatMap((value) => [
          svg("line", { class: "grid", x1: MARGIN.left, x2: inner.right, y1: y(value), y2: y(value) }),
          svg("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(digits)),
        ]),
        svg("line", { class: "axis", x1: MARGIN.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
        xTicks.map((step) =>
          svg("text", { x: x(step), y: inner.bottom + 18, "text-anchor": "middle" }, step.toLocaleString("en-US")),
        ),
        svg("text", { x: (MARGIN.left + inner.right) / 2, y: height - 4, "text-anchor": "middle" }, unit),
        lines.map((line) => lineOf(line, x, y)),
        overlay,
      ),
    );
    drawing = { lines, steps, x, y, overlay, inner };
    at = at && lines[at.line]?.points[at.index] ? at : null;
    mark();
    return true;
  }

  function lineOf({ run, color: ink, dash, points }, x, y) {
    const path = points.map(({ step, value }) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
    const line = svg("path", { class: "run", d: `M${path.join("L")}`, "stroke-dasharray": dash.join(" ") || null });
    line.style.stroke = ink;
    const best = bestOf(run);
    const dots = points
      .filter(({ result }) => points.length <= MOST_POINTS || result === best)
      .map(({ result, step, value }) => {
        const dot = svg("circle", { class: result === best ? "best" : null, cx: x(step), cy: y(value), r: 3 });
        dot.style.stroke = ink;
        dot.style.fill = ink;
        if (result === best) dot.setAttribute("r", 5);
        return dot;
      });
    return svg("g", {}, line, dots);
  }

  // The rule, the points at the reader's step, and the tip beside them.
  function mark(event) {
    if (!drawing) return;
    const { lines, x, y, overlay, inner } = drawing;
    if (!at) {
      overlay.replaceChildren();
      showTip(null, null, null, null);
      return;
    }
    const { step } = lines[at.line].points[at.index];
    const here = lines.flatMap((line, i) =>
      line.points.filter((point) => point.step === step).map((point) => ({ ...point, line, isNearest: i === at.line })),
    );
    overlay.replaceChildren(
      svg("line", { class: "rule", x1: x(step), x2: x(step), y1: MARGIN.top, y2: inner.bottom }),
      ...here.map(({ value, line, isNearest }) => {
        const dot = svg("circle", { cx: x(step), cy: y(value), r: isNearest ? 6 : 4 });
        dot.style.fill = line.color;
        return dot;
      }),
    );
    const ordered = [...here].sort((one, other) => (isBetter(one.value, other.value) ? -1 : 1));
    const { label } = lines[at.line].points[at.index].result;
    const tip = [
      [label, measureNow()],
      ...ordered.map(({ value, line, isNearest }) => [
        `${isNearest ? "▸ " : ""}${brief(line.run.name, 40)}`,
        fraction(value),
      ]),
    ];
    const box = figure.getBoundingClientRect();
    const where = event ?? {
      clientX: box.left + x(step),
      clientY: box.top + y(lines[at.line].points[at.index].value),
    };
    showTip(null, where, null, { tip });
  }

  function nearest(event) {
    const box = figure.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let found = null;
    drawing.lines.forEach((line, i) =>
      line.points.forEach((point, index) => {
        const across = Math.abs(drawing.x(point.step) - px);
        const down = Math.abs(drawing.y(point.value) - py);
        const far = 1000 * across + down; // the nearest step, and there the nearest line
        if (found === null || far < found.far) found = { line: i, index, far };
      }),
    );
    return found;
  }

  function open(event) {
    if (!at || !drawing) return;
    const address = reportOf(drawing.lines[at.line].points[at.index].result);
    if (event.ctrlKey || event.metaKey) window.open(address);
    else window.location.assign(address);
  }

  function move(event) {
    if (!drawing) return;
    const { lines } = drawing;
    const keys = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Enter") return open(event);
    if (event.key === "Escape") at = null;
    else if (!(event.key in keys)) return;
    else if (!at) at = { line: 0, index: lines[0].points.length - 1 };
    else {
      const [down, right] = keys[event.key];
      const line = (at.line + down + lines.length) % lines.length;
      const { step } = lines[at.line].points[at.index];
      const { points } = lines[line];
      const same = points.findIndex((point) => point.step >= step);
      const index = down ? (same < 0 ? points.length - 1 : same) : at.index + right;
      at = { line, index: Math.min(points.length - 1, Math.max(0, index)) };
    }
    event.preventDefault();
    mark();
    if (at) {
      const { result, value } = lines[at.line].points[at.index];
      spoken.textContent = `${lines[at.line].run.name}, ${result.label}: ${measureNow()} ${fraction(value)}`;
    }
  }

  figure.addEventListener("pointermove", (event) => {
    if (!drawing) return;
    at = nearest(event);
    mark(event);
  });
  figure.addEventListener("pointerleave", () => {
    at = null;
    mark();
  });
  figure.addEventListener("blur", () => {
    at = null;
    mark();
  });
  figure.addEventListener("click", open);
  figure.addEventListener("keydown", move);
  let width = 0;
  new ResizeObserver(() => {
    if (figure.clientWidth === width) return;
    width = figure.clientWidth;
    draw();
  }).observe(figure);
  return { element: el("div", {}, figure, spoken), draw };
}

// A range around the values, a little wider, within 0 to 1 where they are.
function reach(low, high) {
  const room = Math.max(0.08 * (high - low), 0.01);
  return [low >= 0 ? Math.max(0, low - room) : low - room, high <= 1 ? Math.min(1, high + room) : high + room];
}
