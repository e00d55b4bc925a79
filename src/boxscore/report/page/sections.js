// Parts of all sections.

// Sentences that explain what follows; null sentences are left out. Hints are not printed on paper.
const caption = (...sentences) =>
  el(
    "p",
    { class: "caption" },
    sentences.filter((each) => each !== null).flatMap((each, i) => (i ? [" ", each] : [each])),
  );
const hint = (sentence) => el("span", { class: "hint" }, sentence);
const section = (id, title, ...children) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
// Parts that stay together on one printed page.
const together = (...parts) => el("div", { class: "together" }, ...parts);
const missing = (why) => el("p", { class: "note" }, why);

const intervalName = (model) => model.intervals.name;
const intervalOf = (model, m) => model.intervals?.numbers[m] ?? [null, null];

function select(label, options, onchange) {
  const box = el(
    "select",
    { onchange: (event) => onchange(Number(event.target.value)) },
    options.map(([value, text]) => el("option", { value, title: text }, brief(text, 60))),
  );
  return el("label", {}, el("span", {}, label), box);
}
