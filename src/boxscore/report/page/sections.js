// What all sections have in common.

// Sentences that say how to read what follows; those that don't apply are null. Hints on how to use it are not printed.
const reading = (...sentences) =>
  el(
    "p",
    { class: "how" },
    sentences.filter((each) => each !== null).flatMap((each, i) => (i ? [" ", each] : [each])),
  );
const hint = (sentence) => el("span", { class: "hint" }, sentence);
const section = (id, title, ...children) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
// Parts that stay on one page of paper.
const together = (...parts) => el("div", { class: "together" }, ...parts);
const missing = (why) => el("p", { class: "note" }, why);

const sureness = (model) => model.intervals.name;
const between = (model, m) => model.intervals?.numbers[m] ?? [null, null];

function select(label, options, onchange) {
  const box = el(
    "select",
    { onchange: (event) => onchange(Number(event.target.value)) },
    options.map(([value, text]) => el("option", { value, title: text }, brief(text, 60))),
  );
  return el("label", {}, el("span", {}, label), box);
}
