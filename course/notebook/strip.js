// The strip under a verdict: draw what the model says, and ask Python for what is pressed or chosen.

const PATIENCE = 4000;
const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// JupyterLab leaves keys to elements that say so; for others arrows, Enter and letters are commands for the notebook.
function keepKeys(root) {
  for (const node of root.querySelectorAll("button, input, summary")) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
}

function render({ model, el }) {
  const title = model.get("title");
  let timer = null;

  const result = element("div", { class: "course-strip-result jp-RenderedHTMLCommon", role: "status" });
  const help = element("div", { class: "course-strip-help jp-RenderedHTMLCommon", role: "status" });
  const note = element("span", { class: "course-strip-note", role: "status" });
  const progress = element("p", { class: "course-strip-progress" });

  function ask(request, meanwhile) {
    if (timer !== null) return;
    note.textContent = meanwhile;
    result.classList.add("course-waiting");
    timer = setTimeout(() => {
      timer = null;
      note.textContent =
        "No answer yet: the kernel is busy with another cell, or it was restarted. After a restart, run the cell above again.";
    }, PATIENCE);
    try {
      model.send({ ...request, number: model.get("answered") + 1 });
    } catch {
      // The kernel is gone; the sentence above comes.
    }
  }

  function button(kind, text, press) {
    const node = element("button", { type: "button", class: `course-${kind}-button` });
    label(node, text);
    node.addEventListener("click", press);
    return node;
  }

  function label(node, text) {
    node.textContent = text;
    node.setAttribute("aria-label", `${text}: ${title}`);
  }

  const again = button("again", "Check again", () => ask({ do: "again" }, "Checking …"));
  const hint = button("hint", "Hint", () => ask({ do: "hint" }, ""));
  const showIt = () => ask({ do: "solution" }, "");
  const solution = button("solution", "Solution", () => {
    if (model.get("solved")) {
      showIt();
      return;
    }
    question.hidden = false;
    solution.hidden = true;
    show.focus();
  });
  const closeQuestion = () => {
    question.hidden = true;
    solution.hidden = false;
    solution.focus();
  };
  const show = button("show", "Show it", () => {
    closeQuestion();
    showIt();
  });
  const keep = button("keep", "Not yet", closeQuestion);
  const question = element(
    "span",
    { class: "course-strip-question course-row", role: "group", "aria-label": "Show the solution?" },
    "Show the solution?",
    show,
    keep,
  );
  question.hidden = true;
  question.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeQuestion();
  });

  const radios = [];
  function choices() {
    const name = `course-${Math.random().toString(36).slice(2)}`;
    const how = "Choosing sets the variable and checks it at once. Arrow keys move, Space chooses.";
    const box = element(
      "fieldset",
      { class: "course-choices jp-RenderedHTMLCommon", role: "radiogroup", "aria-label": `Your choice: ${title}`, "aria-describedby": name },
      element("legend", {}, "Your choice"),
    );
    for (const [letter, html] of model.get("choices")) {
      const radio = element("input", { type: "radio", name, value: letter });
      const text = element("span", {});
      text.innerHTML = html;
      radio.addEventListener("change", () => ask({ do: "choose", letter }, "Checking …"));
      radios.push(radio);
      box.append(element("label", {}, radio, text));
    }
    box.append(element("p", { id: name }, how));
    // An arrow key alone would choose, and so check, every choice on the way.
    box.addEventListener("keydown", (event) => {
      const at = radios.indexOf(event.target);
      if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.key in STEPS) {
        event.preventDefault();
        radios.at((at + STEPS[event.key]) % radios.length).focus();
      } else if (event.key === "Enter") {
        event.preventDefault();
        event.target.click();
      }
    });
    return box;
  }

  const strip = element(
    "div",
    { class: "course-controls course-strip", role: "group", "aria-label": title, "data-exercise": model.get("exercise") },
    result,
    ...(model.get("choices").length ? [choices()] : []),
    element("div", { class: "course-row" }, again, hint, solution, question, note),
    help,
    progress,
  );
  el.append(strip);
  keepKeys(strip);

  function fill(region, html) {
    region.innerHTML = html;
    // The region itself announces what comes into it.
    for (const inner of region.querySelectorAll('[role="status"]')) inner.removeAttribute("role");
  }

  function supersede() {
    const above = el.closest(".jp-OutputArea-child")?.previousElementSibling;
    if (above?.querySelector(".course-verdict")) {
      above.classList.toggle("course-superseded", model.get("result") !== "");
    }
  }

  function drawProgress() {
    progress.textContent = model.get("progress_line");
    progress.hidden = !model.get("progress_line");
  }

  function drawControls() {
    const [next, count] = [model.get("next_hint"), model.get("hint_count")];
    label(hint, `Hint ${next} of ${count}`);
    hint.hidden = count === 0;
    for (const radio of radios) radio.checked = radio.value === model.get("chosen");
    note.textContent = model.get("note");
    drawProgress();
  }

  // What is filled in is announced; so only what was asked for is filled in again, also when it is the same as before.
  function answered() {
    clearTimeout(timer);
    timer = null;
    result.classList.remove("course-waiting");
    if (model.get("region") === "result") fill(result, model.get("result"));
    if (model.get("region") === "help") fill(help, model.get("help"));
    supersede();
    drawControls();
  }

  fill(result, model.get("result"));
  fill(help, model.get("help"));
  drawControls();
  const layout = new ResizeObserver(supersede);
  layout.observe(strip);
  model.on("change:answered", answered);
  model.on("change:progress_line", drawProgress);
  return () => {
    clearTimeout(timer);
    layout.disconnect();
    model.off("change:answered", answered);
    model.off("change:progress_line", drawProgress);
  };
}

export default { render };
