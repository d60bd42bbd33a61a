// Controls of the stride explorer: draw what the model says, and ask Python for what is chosen.

const PATIENCE = 5000;

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// JupyterLab leaves keys to elements that say so; for others arrows, Enter and letters are commands for the notebook.
function keepKeys(root) {
  for (const node of root.querySelectorAll("button, input, select, summary")) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
}

function render({ model, el }) {
  let waiting = null;
  let timer = null;

  // One request at a time: while a slider is dragged, only the last of those that wait is sent.
  function ask(request) {
    if (timer !== null) {
      waiting = request;
      return;
    }
    timer = setTimeout(() => {
      sentence.textContent = "No answer from the kernel yet. If it was restarted, run this cell again.";
    }, PATIENCE);
    model.send({ ...request, number: model.get("answered") + 1 });
  }

  const view = element("select", { class: "course-view" });
  for (const text of model.get("views")) view.append(element("option", { value: text }, text));
  view.addEventListener("change", () => ask({ do: "view", value: view.value }));

  const sliders = [];
  const places = element("div", { class: "course-row" });
  function addSlider() {
    const name = `Index ${sliders.length}`;
    const input = element("input", { type: "range", class: "course-index", min: 0, step: 1, "aria-label": name });
    const output = element("output", { "aria-hidden": "true" });
    const label = element("label", {}, name, input, output);
    const say = () => {
      output.textContent = input.value;
      input.setAttribute("aria-valuetext", `${input.value}, of 0 to ${input.max}`);
    };
    input.addEventListener("input", () => {
      say();
      const shown = sliders.filter((slider) => !slider.label.hidden);
      ask({ do: "index", value: shown.map((slider) => Number(slider.input.value)) });
    });
    sliders.push({ input, label, say });
    places.append(label);
  }

  function stepButton(text, kind, count) {
    const button = element("button", { type: "button", class: `course-${kind}` }, text);
    button.addEventListener("click", () => ask({ do: "step", value: count }));
    return button;
  }

  const sentence = element("p", { class: "course-sentence", role: "status" });
  const picture = element("div", { class: "course-picture" });
  el.append(
    element(
      "div",
      { class: "course-controls course-stride-explorer", role: "group", "aria-label": "Stride explorer" },
      element("div", { class: "course-row" }, element("label", {}, "View of x", view)),
      places,
      element(
        "div",
        { class: "course-row" },
        stepButton("Previous element", "previous", -1),
        stepButton("Next element", "next", 1),
      ),
      sentence,
      picture,
    ),
  );

  function draw() {
    const [shape, index] = [model.get("shape"), model.get("index")];
    view.value = model.get("view");
    while (sliders.length < shape.length) addSlider();
    sliders.forEach(({ input, label, say }, axis) => {
      label.hidden = axis >= shape.length;
      if (label.hidden) return;
      input.max = shape[axis] - 1;
      input.value = index[axis];
      say();
    });
    sentence.textContent = model.get("sentence");
    const unfolded = picture.querySelector("details")?.open;
    picture.innerHTML = model.get("picture");
    if (unfolded) picture.querySelector("details").open = true;
    keepKeys(el);
  }

  function answered() {
    clearTimeout(timer);
    timer = null;
    if (waiting) {
      const request = waiting;
      waiting = null;
      ask(request);
    } else {
      draw();
    }
  }

  draw();
  model.on("change:answered", answered);
  return () => {
    clearTimeout(timer);
    model.off("change:answered", answered);
  };
}

export default { render };
