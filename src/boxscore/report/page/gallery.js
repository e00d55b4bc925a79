// Pictures: images with shapes above them, in a grid; one opens in a window of its own.

// Whether shapes of a kind, and the names of classes, are hidden; the same for all pictures of the page.
const hiddenKinds = new Set(["matched", "ignored"]);

// A shape is [kind, class, score, lines, dots, x and y of its text, whether it is filled].
const wordsOf = ([kind, name, score], marks) =>
  `${marks[kind] ?? ""}${name}${isNumber(score) ? ` ${score.toFixed(2)}` : ""}`;

function shapeOf(shape, { marks, kinds }) {
  const [kind, , , lines, dots, , , isArea] = shape;
  const line = (attributes) => svg("path", { "fill-rule": "evenodd", ...attributes });
  return svg(
    "g",
    { class: `shape ${kind}${isArea ? " area" : ""}` },
    svg("title", {}, `${kinds[kind]}: ${wordsOf(shape, marks)}`),
    lines ? [line({ class: "under", d: lines }), line({ class: "line", d: lines })] : [],
    dots ? [line({ class: "under dots", d: dots }), line({ class: "dots", d: dots })] : [],
  );
}

// An item is { image: { name, width, height, jpeg, notes }, shapes, counts }.
function pictureOf({ image, shapes, counts }, parts) {
  const { name, width, height, jpeg } = image;
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "picture", role: "img", "aria-label": `${name}: ${counts}` },
    svg("image", { width, height, preserveAspectRatio: "none", href: `data:image/jpeg;base64,${jpeg}` }),
    shapes.map((shape) => shapeOf(shape, parts)),
    shapes.map((shape) => {
      const [kind, , , , , x, y] = shape;
      return svg("text", { class: `words ${kind}`, x, y }, wordsOf(shape, parts.marks));
    }),
  );
}

function hide(element) {
  element.className = element.className.replace(/ ?no-\w+/g, "");
  hiddenKinds.forEach((kind) => element.classList.add(`no-${kind}`));
}

// One box per kind that occurs, and one for the names of classes.
function kindBoxes({ kinds, plurals, items }, onchange) {
  const seen = Object.keys(kinds)
    .reverse()
    .filter((kind) => items.some(({ shapes }) => shapes.some((each) => each[0] === kind)));
  const box = (kind, text) => {
    const sample = svg("svg", { class: "sample", viewBox: "0 0 26 10", width: 26, height: 10, "aria-hidden": "true" });
    if (kind !== "names") {
      const d = "M2 5h22";
      sample.append(
        svg("g", { class: `shape ${kind}` }, svg("path", { class: "under", d }), svg("path", { class: "line", d })),
      );
    }
    const input = el("input", {
      type: "checkbox",
      "data-kind": kind,
      checked: !hiddenKinds.has(kind),
      onchange: (event) => {
        hiddenKinds[event.target.checked ? "delete" : "add"](kind);
        onchange();
      },
    });
    return el("label", {}, input, kind === "names" ? null : sample, text);
  };
  const boxes = seen.map((kind) => box(kind, plurals[kind] ?? kinds[kind]));
  return el("fieldset", { class: "kinds" }, el("legend", {}, "Show"), boxes, box("names", "class names"));
}

// The grid of all items, and the window in which one is large. `parts`: { label, items, kinds, plurals, marks }.
function gallery(parts) {
  const { label, items } = parts;
  const pictures = [];
  let [current, opener] = [0, null];
  const heading = el("h3", { class: "name" });
  const position = el("span", { class: "soft", role: "status" });
  const stage = el("div", { class: "stage" });
  const notes = el("p", { class: "soft notes" });
  const button = (text, step) => el("button", { type: "button", onclick: () => move(step) }, text);
  const close = el("button", { type: "button", class: "close", onclick: () => viewer.close() }, "Close");
  const large = el("div", { class: "controls" });
  const viewer = el(
    "dialog",
    {
      class: "viewer",
      "aria-label": label,
      onkeydown: ({ key }) => {
        if (key === "ArrowLeft") move(-1);
        if (key === "ArrowRight") move(1);
      },
      onclick: ({ target }) => target === viewer && viewer.close(),
      onclose: () => opener?.focus(),
    },
    el("div", { class: "bar" }, heading, position, button("← Previous", -1), button("Next →", 1), close),
    stage,
    large,
    notes,
  );

  function update() {
    pictures.concat([stage]).forEach(hide);
    for (const box of [...small.querySelectorAll("input"), ...large.querySelectorAll("input")])
      box.checked = !hiddenKinds.has(box.dataset.kind);
  }

  function move(step) {
    current = (current + step + items.length) % items.length;
    const item = items[current];
    opener = pictures[current];
    heading.replaceChildren(named(item.image.name, brief(item.image.name, 60)));
    position.textContent = `${integer(current + 1)} of ${integer(items.length)}. ${item.counts}`;
    stage.style.setProperty("--ratio", item.image.width / item.image.height);
    stage.replaceChildren(pictureOf(item, parts));
    notes.replaceChildren(item.image.notes.map((note) => `${note}.`).join(" "));
  }

  items.forEach((item, i) => {
    pictures.push(
      el(
        "button",
        {
          type: "button",
          class: "thumb",
          title: item.image.name,
          onclick: () => {
            current = i;
            move(0);
            viewer.showModal();
          },
        },
        pictureOf(item, parts),
        el("span", { class: "name", dir: "auto" }, brief(item.image.name, 34)),
        el("span", { class: "soft" }, item.counts),
      ),
    );
  });
  const small = el("div", { class: "controls" }, kindBoxes(parts, update));
  large.append(kindBoxes(parts, update));
  update();
  return el("div", { class: "gallery" }, small, el("div", { class: "grid", "aria-label": label }, pictures), viewer);
}

const PLURALS = {
  true: "true positives",
  false: "false positives",
  missed: "truths not found",
  matched: "found truths",
};
const MARKS = { true: "✓ ", false: "✗ ", missed: "missed " };

// The worst images of a model.
function worstPictures(model) {
  const { images, models, kinds, notes } = report.pictures;
  const own = models[report.models.indexOf(model)];
  const count = (shapes, kind) => shapes.filter((shape) => shape[0] === kind).length;
  const items = (own ?? []).map(([image, shapes]) => ({
    image: images[image],
    shapes,
    counts: `${count(shapes, "false")} false, ${count(shapes, "missed")} missed, ${count(shapes, "true")} true`,
  }));
  return el(
    "div",
    {},
    own === null ? missing("Pictures need the detections and truths, and this result has only verdicts.") : null,
    notes.map((note) => missing(`${note}.`)),
    items.length
      ? gallery({ label: "Pictures of the worst images", items, kinds, plurals: PLURALS, marks: MARKS })
      : null,
  );
}
