// Charts by Vega-Lite. Colours are CSS variables, so they follow light mode, dark mode and print.

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const AXIS = {
  labelColor: "var(--soft)",
  titleColor: "var(--soft)",
  titleFontWeight: "normal",
  labelFontSize: 11,
  titleFontSize: 12,
  gridColor: "var(--line)",
  domainColor: "var(--rule)",
  tickColor: "var(--rule)",
  labelFlush: false,
};
const CONFIG = {
  background: null,
  font: FONT,
  view: { stroke: null },
  axis: AXIS,
  text: { color: "var(--ink)", fontSize: 11 },
  rule: { color: "var(--rule)" },
};
const color = (i) => `var(--c${1 + (i % NUM_COLORS)})`;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

// The tooltip of a mark is the datum's `tip`, pairs of a name and a text; its label for screen readers is `who`. Names
// are data for Vega, never part of its specifications, where they could be read as expressions.
const tip = document.body.appendChild(el("div", { id: "tip", "aria-hidden": "true", hidden: true }));
const TIP = { content: "data" };
// Vega stores the values of an axis as keys of a plain object, where "__proto__" is special: so each value has an
// invisible prefix.
const tick = (label) => `\u2060${label}`;
const WHO = { field: "who", type: "nominal" };

function showTip(_, event, item, datum) {
  tip.hidden = !datum?.tip;
  if (tip.hidden) return;
  tip.replaceChildren(
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        datum.tip.map(([what, value]) => el("tr", {}, el("td", { dir: "auto" }, what), el("td", {}, value))),
      ),
    ),
  );
  const room = 12;
  const left =
    event.clientX + room + tip.offsetWidth < window.innerWidth
      ? event.clientX + room
      : event.clientX - room - tip.offsetWidth;
  const top = Math.min(event.clientY + room, window.innerHeight - tip.offsetHeight - room);
  tip.style.left = `${Math.max(room, left)}px`;
  tip.style.top = `${Math.max(room, top)}px`;
}

// A figure that Vega fills; `spec` is a Vega-Lite view. Expressions are interpreted: the page's policy has no eval.
function chart(description, height, spec) {
  const container = el("div", { class: "chart" });
  const complete = {
    width: "container",
    height,
    autosize: { type: "fit", contains: "padding" },
    description,
    config: CONFIG,
    ...spec,
  };
  // The width is that of the container, which is known only once it is in the page.
  requestAnimationFrame(() => {
    window
      .vegaEmbed(container, complete, {
        mode: "vega-lite",
        renderer: "svg",
        ast: true,
        actions: false,
        defaultStyle: false,
        tooltip: showTip,
      })
      .catch((error) => console.error(`${description}: ${error}`));
  });
  return el("figure", { "aria-label": description }, container);
}
const unit = (field, title, more = {}) => ({
  field,
  type: "quantitative",
  title,
  scale: { domain: [0, 1] },
  axis: { tickCount: 5, format: ".1f" },
  ...more,
});

function swatch(line) {
  const dash = line.dash.length ? line.dash.join(" ") : null;
  const stroke = svg("line", { x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": line.width, "stroke-dasharray": dash });
  stroke.style.stroke = line.color;
  return svg("svg", { width: 22, height: 10, "aria-hidden": "true" }, stroke);
}
const legend = (items) =>
  el(
    "ul",
    { class: "chips", "aria-label": "Legend" },
    items.map((item) => el("li", {}, swatch({ dash: [], width: 3, ...item }), item.label)),
  );
