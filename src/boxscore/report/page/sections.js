// What all sections have in common.

// Sentences that say how to read what follows; those that don't apply are null.
const reading = (...sentences) => el("p", { class: "how" }, sentences.filter((each) => each !== null).join(" "));
const section = (id, title, ...children) =>
  el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), ...children);
const missing = (why) => el("p", { class: "note" }, why);

const sureness = (model) => model.intervals.name;
const between = (model, m) => model.intervals?.numbers[m] ?? [null, null];

function select(label, options, onchange) {
  const box = el(
    "select",
    { onchange: (event) => onchange(Number(event.target.value)) },
    options.map(([value, text]) => el("option", { value }, text)),
  );
  return el("label", {}, label, box);
}
