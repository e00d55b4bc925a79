// The data of the report, and the reader's selection.

const report = JSON.parse(document.getElementById("data").textContent);
report.models.forEach((model, i) => {
  const { label, name } = report.models[0].classes; // for models without their own
  model.classes = { label, name, ...model.classes };
  model.curves = report.curves[i];
});
const content = document.getElementById("content");
const MEAN = -1; // the index of "all classes"
const MOST_LINES = 24;
const UNDEFINED = 65535; // marks an undefined packed number
const state = {
  model: 0,
  models: report.models.length > NUM_COLORS ? [0] : report.models.map((_, i) => i), // models whose lines are drawn
  classes: [MEAN],
  thresholds: null,
};

// Short, distinct names of models: without common folders and a common suffix.
const shortNames = (() => {
  const names = report.models.map((model) => model.name);
  const [first] = names;
  const folders = names.length > 1 ? first.slice(0, first.lastIndexOf("/") + 1) : "";
  const suffix = names.length > 1 ? (first.match(/\.[a-z0-9]{1,7}$/i)?.[0] ?? "") : "";
  const [start, end] = [
    names.every((each) => each.startsWith(folders)) ? folders.length : 0,
    names.every((each) => each.endsWith(suffix)) ? suffix.length : 0,
  ];
  const given = names.map((each) => brief(each.length > 28 ? each.slice(start, each.length - end) : each, 28));
  return given.map((each, i) => (given.indexOf(each) === given.lastIndexOf(each) ? each : `${each} (${i + 1})`));
})();
const shortName = (name) => shortNames[report.models.findIndex((model) => model.name === name)] ?? brief(name, 28);

function decode(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i, true));
}

// Precision of class k (or of all) at the t-th drawn threshold, at every drawn recall; null if it has no truths.
function curve(model, t, k) {
  const { recall } = model.curves;
  const numClasses = model.classes.name.length;
  model.curves.samples ??= decode(model.curves.precision);
  model.curves.means ??= decode(model.curves.mean);
  const [samples, start] =
    k === MEAN ? [model.curves.means, t * recall.length] : [model.curves.samples, (t * numClasses + k) * recall.length];
  if (samples[start] === UNDEFINED) return null;
  return recall.map((at, i) => ({ recall: at, precision: samples[start + i] / 65534 }));
}

// AP of class k (or of all) at every threshold; null where it is undefined.
function apByThreshold(model, k) {
  if (k === MEAN) return model.per_threshold;
  model.classes.aps ??= decode(model.classes.ap_at);
  const num = report.thresholds.length;
  return model.classes.aps.slice(k * num, (k + 1) * num).map((ap) => (ap === UNDEFINED ? null : ap / 10000));
}

// A unique name of a class: with its label where classes share a name.
function unique(model, k) {
  const { name: names, label } = model.classes;
  model.classes.times ??= names.reduce((times, each) => times.set(each, 1 + (times.get(each) ?? 0)), new Map());
  return model.classes.times.get(names[k]) > 1 ? `${names[k]} (${label[k]})` : names[k];
}

// The index in another model of a class of this model; undefined where it has none.
function indexIn(other, model, k) {
  if (k === MEAN || other === model) return k;
  other.classes.indices ??= new Map(other.classes.label.map((label, index) => [label, index]));
  return other.classes.indices.get(model.classes.label[k]);
}

const title = (model, k) => (k === MEAN ? "mean of classes" : model.classes.name[k]);
