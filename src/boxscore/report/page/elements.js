// Elements, and formatting of numbers. All text is added as text nodes: no name can become markup.

const SVG = "http://www.w3.org/2000/svg";
const NUM_COLORS = 8; // of lines, in the styles

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const isNumber = (value) => typeof value === "number";
const fraction = (value) => (isNumber(value) ? value.toFixed(4) : "–");
const short = (value) => (isNumber(value) ? value.toFixed(3) : "–");
const integer = (value) => (isNumber(value) ? value.toLocaleString("en-US") : "–");
const signed = (value) => (isNumber(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(4) : "–");
const range = (low, high) => (isNumber(low) && isNumber(high) ? `${short(low)} – ${short(high)}` : "");
const percent = (value) => `${(100 * value).toFixed(1)} %`;
const iou = (threshold) => threshold.toFixed(2);

// As `text.p_value` in Python: three digits, or the first nonzero digit; with "≤" and rounded up if it is a bound.
function pText(p, isLeast) {
  if (!isNumber(p)) return "–";
  const digits = p >= 0.001 || p <= 0 ? 3 : -Math.floor(Math.log10(p));
  if (!isLeast) return p.toFixed(digits);
  const steps = 10 ** digits;
  return `≤ ${(Math.ceil(Number((p * steps).toFixed(3))) / steps).toFixed(digits)}`;
}

const isNarrow = () => window.innerWidth < 560;

// A name of at most `most` characters; the middle is cut, as the ends distinguish runs of one model.
function brief(name, most) {
  const letters = [...name];
  if (letters.length <= most) return name;
  const tail = Math.floor((most - 1) / 2);
  return `${letters.slice(0, most - 1 - tail).join("")}…${letters.slice(-tail).join("")}`;
}
// A name inside a sentence or a title, with its own text direction.
const named = (text, shown = text) => el("bdi", { class: "name", title: text }, shown);

const sum = (values) => values.reduce((total, value) => total + value, 0);
