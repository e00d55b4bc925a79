// The page: all sections of the selected model.

function protocol() {
  const row = ([what, value]) => [el("dt", {}, what), el("dd", {}, value)];
  return section(
    "protocol",
    "Settings",
    caption("The settings that decide the numbers, and the versions of the software."),
    el("dl", { class: "counts" }, report.made.flatMap(row)),
  );
}

let chooser = null;
const redraw = () => chooser.draw(report.models[state.model]);

// By default, the main threshold is drawn.
function setDefaultThresholds() {
  state.thresholds ??= [report.models[state.model].curves.thresholds.indexOf(report.main)];
}

function show() {
  const model = report.models[state.model];
  setDefaultThresholds();
  const keep = [...content.children].filter((child) => child.dataset.permanent !== undefined);
  chooser = curves();
  const sections = [
    summary(model),
    report.comparison ? comparison() : null,
    report.explanation ? explanation() : null,
    classes(model),
    chooser.element,
    el("div", { class: "row" }, report.areas.length > 1 ? sizes(model) : null, scores(model), calibration(model)),
    errors(model),
    confusion(model),
    worst(model),
    protocol(),
  ].filter((each) => each !== null);
  content.replaceChildren(...keep, ...sections);
  chooser.start(model);
  chooser.draw(model);
  document
    .getElementById("sections")
    .replaceChildren(
      ...[...content.querySelectorAll("section[id]")].map((each) =>
        el("a", { href: `#${each.id}` }, each.querySelector("h2").textContent),
      ),
    );
}

function head() {
  const heading = content.querySelector("h1");
  heading.dataset.permanent = "";
  heading.title = heading.textContent;
  if (heading.textContent.length > 70) heading.classList.add("long");
  const lead = el("p", { class: "lead", "data-permanent": "" }, report.subtitle);
  content.append(lead);
  const mark = document.querySelector(".mark");
  mark.after(...(report.links ?? []).map(([text, href]) => el("a", { class: "step", href }, brief(text, 32))));
  if (report.models.length > 1) {
    const box = select(
      "Model",
      report.models.map((model, i) => [i, model.name]),
      (value) => {
        state.model = value;
        state.classes = [MEAN];
        if (state.models.length === 1) state.models = [value];
        show();
      },
    );
    content.append(el("div", { class: "controls", "data-permanent": "" }, box));
  }
  content.querySelectorAll("noscript").forEach((each) => each.remove());
}

head();
theme();
show();
