"""Lessons 01 and 05 in a real JupyterLab in a real browser, as a person goes through them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Route, expect
from support.jupyterlab import Server, lab
from support.notebook_page import NotebookPage

from course.exercises import load_exercise

pytestmark = pytest.mark.slow

FLATTEN, CHOICE, DIAGONAL = "tensors.flatten", "tensors.copy_or_view", "tensors.main_diagonal"
LESSON = "01_tensors_and_strides.ipynb"
EXPLORER = "\nstride_explorer()"
SECONDS = 60


class Watch:
    """What a browser should not do: requests to other machines, which are refused, and errors in its console."""

    def __init__(self) -> None:
        self.requests = 0
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.forgiven: tuple[str, ...] = ()

    def route(self, route: Route, request: Request) -> None:
        self.requests += 1
        if re.match(r"https?://(127\.0\.0\.1|localhost)[:/]", request.url):
            route.continue_()
        else:
            self.foreign.append(request.url)
            route.abort()

    def console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in self.forgiven):
            self.errors.append(f"{message.text} ({message.location.get('url')})")

    def forgive_widgets_that_have_gone(self) -> None:
        """Let pass what JupyterLab's console says of each widget of a kernel that was restarted, from now on.

        It shows nothing in its place. On a busy machine it says so late.
        """
        self.forgiven = ("widget model not found", "Comm not found for comm id")

    def follow(self, page: Page) -> None:
        page.on("console", self.console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))


@pytest.fixture(scope="module")
def server(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`course lab 01`, in a workspace whose name has a space and letters beyond ASCII."""
    folder = tmp_path_factory.mktemp("lab")
    with lab(["01"], folder, folder / "Kurs für Änne") as server:
        yield server


@pytest.fixture(scope="module")
def watch() -> Watch:
    return Watch()


@pytest.fixture(scope="module")
def tab(browser: Browser, watch: Watch) -> Iterator[Callable[[], NotebookPage]]:
    """Opens a tab with a small screen; all tabs share one profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    context.set_default_timeout(SECONDS * 1000)
    context.route("**/*", watch.route)

    def open_tab() -> NotebookPage:
        page = context.new_page()
        watch.follow(page)
        return NotebookPage(page)

    yield open_tab
    context.close()


@pytest.fixture(scope="module")
def lesson(server: Server, tab: Callable[[], NotebookPage]) -> NotebookPage:
    """Lesson 01, after Run All Cells."""
    notebook = tab()
    notebook.open(server.url(LESSON), LESSON)
    notebook.run_all()
    return notebook


@pytest.fixture
def screenshot(reports: Path) -> Callable[[Page, str], None]:
    """Keeps a picture in reports/screenshots."""
    folder = reports / "screenshots"
    folder.mkdir(exist_ok=True)
    return lambda page, name: page.screenshot(path=folder / f"{name}.png")


def strip(lesson: NotebookPage, exercise: str) -> Locator:
    """The buttons under the verdict of an exercise, scrolled into view."""
    return lesson.cell(lesson.find_role(exercise, "check")).locator(".course-strip")


def verdict(lesson: NotebookPage, exercise: str) -> Locator:
    """The verdict that one sees; the strip hides the first one when it has a newer one."""
    return lesson.cell(lesson.find_role(exercise, "check")).locator(".course-verdict").locator("visible=true")


def answer(lesson: NotebookPage, exercise: str, source: str) -> None:
    """Write an answer into the stub cell and run it."""
    stub = lesson.find_role(exercise, "stub")
    lesson.write(stub, source)
    lesson.run(stub)


def check(lesson: NotebookPage, exercise: str) -> None:
    """Run the cell that checks."""
    lesson.run(lesson.find_role(exercise, "check"))


def passed(server: Server) -> int:
    """How many exercises of lesson 01 count as passed, by `course status`."""
    done = subprocess.run(
        [sys.executable, "-m", "course", "status", "--json"],
        env=server.environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    lessons = json.loads(done.stdout)["lessons"]
    return next(entry["passed"] for entry in lessons if entry["number"] == "01")


def test_every_cell_runs(lesson: NotebookPage):
    assert lesson.errors() == []


def test_a_wrong_answer_is_told_which_misunderstanding_it_shows(
    lesson: NotebookPage, screenshot: Callable[[Page, str], None]
):
    answer(lesson, FLATTEN, "def flatten_elements(x: Tensor) -> Tensor:\n    return x.view(-1)\n")
    check(lesson, FLATTEN)
    shown = verdict(lesson, FLATTEN)
    expect(shown).to_have_attribute("data-outcome", "WRONG")
    expect(shown).to_contain_text("A view only gives the same memory a new shape and strides")
    screenshot(lesson.page, "wrong-answer-light")


def test_a_hint_and_then_the_right_answer(server: Server, lesson: NotebookPage):
    before = passed(server)
    buttons = strip(lesson, FLATTEN)
    buttons.get_by_role("button", name="Hint 1 of 2").click()
    expect(buttons.locator(".course-hint")).to_contain_text(load_exercise(FLATTEN).hints[0][:40])
    answer(lesson, FLATTEN, "def flatten_elements(x: Tensor) -> Tensor:\n    return x.reshape(-1)\n")
    strip(lesson, FLATTEN).get_by_role("button", name="Check again").click()
    expect(verdict(lesson, FLATTEN)).to_have_attribute("data-outcome", "PASSED")
    expect(strip(lesson, FLATTEN).locator(".course-strip-progress")).to_contain_text(f"{before + 1} of ")
    last = lesson.output(lesson.find("progress("))
    expect(last.locator(".course-progress")).to_contain_text(f"{before + 1} of ")
    assert passed(server) == before + 1


def test_the_solution_is_shown_when_it_is_asked_for_twice(lesson: NotebookPage):
    buttons = strip(lesson, FLATTEN)
    buttons.get_by_role("button", name="Solution").click()
    expect(buttons.locator(".course-solution")).to_have_count(0)
    buttons.get_by_role("button", name="Show it").click()
    expect(buttons.locator(".course-solution")).to_contain_text("return x.reshape(-1)")


def test_a_choice_is_made_with_radio_buttons(lesson: NotebookPage, screenshot: Callable[[Page, str], None]):
    choices = strip(lesson, CHOICE).get_by_role("radiogroup")
    expect(choices.get_by_role("radio")).to_have_count(5)
    choices.locator("input[value=a]").check()
    expect(verdict(lesson, CHOICE)).to_have_attribute("data-outcome", "WRONG")
    expect(verdict(lesson, CHOICE)).to_contain_text("A slice takes every n-th element by a larger stride")
    screenshot(lesson.page, "choice-light")
    choices.locator("input[value=d]").check()
    expect(verdict(lesson, CHOICE)).to_have_attribute("data-outcome", "PASSED")


def focused(lesson: NotebookPage) -> str:
    """The text or value of the element that has the keyboard."""
    script = "() => document.activeElement.textContent.trim() || document.activeElement.value || ''"
    return lesson.page.evaluate(script)


def test_the_buttons_are_reached_and_pressed_with_the_keyboard_alone(lesson: NotebookPage):
    keyboard = lesson.page.keyboard
    check(lesson, DIAGONAL)
    buttons = strip(lesson, DIAGONAL)
    expect(buttons).to_be_visible()
    before = lesson.state()
    for _ in range(20):
        keyboard.press("Tab")
        if buttons.evaluate("strip => strip.contains(document.activeElement)"):
            break
    assert focused(lesson) == "Check again"
    keyboard.press("Tab")
    assert focused(lesson) == "Hint 1 of 2"
    keyboard.press("Enter")
    expect(buttons.locator(".course-hint")).to_contain_text(load_exercise(DIAGONAL).hints[0][:40])
    keyboard.press("Space")
    expect(buttons.locator(".course-hint")).to_contain_text(load_exercise(DIAGONAL).hints[1][:40])
    keyboard.press("Tab")
    assert focused(lesson) == "Solution"
    keyboard.press("Shift+Tab")
    keyboard.press("Shift+Tab")
    assert focused(lesson) == "Check again"
    keyboard.press("Space")
    expect(verdict(lesson, DIAGONAL)).to_have_attribute("data-outcome", "NOT_ATTEMPTED")
    for key in ("a", "b", "d", "d", "x", "ArrowDown"):  # commands of JupyterLab: insert, delete, cut, next cell
        keyboard.press(key)
    assert lesson.state() == before


def test_a_choice_is_made_with_the_keyboard_alone(lesson: NotebookPage):
    choices = strip(lesson, CHOICE).get_by_role("radiogroup")
    choices.locator("input[value=d]").focus()
    before = lesson.state()
    lesson.page.keyboard.press("ArrowUp")
    assert focused(lesson) == "c"
    lesson.page.keyboard.press("Space")
    expect(verdict(lesson, CHOICE)).to_have_attribute("data-outcome", "WRONG")
    expect(verdict(lesson, CHOICE)).to_contain_text("reshape() copies only where no strides")
    assert lesson.state() == before


def test_the_stride_slider_moves(lesson: NotebookPage, screenshot: Callable[[Page, str], None]):
    explorer = lesson.output(lesson.find(EXPLORER)).locator(".course-stride-explorer")
    sentence, picture = explorer.locator(".course-sentence"), explorer.locator(".course-picture img")
    words, image = sentence.inner_text(), picture.get_attribute("alt")
    slider = explorer.get_by_role("slider", name="Index 0")
    slider.focus()
    before = lesson.state()
    lesson.page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("1")
    expect(sentence).not_to_have_text(words)
    expect(picture).not_to_have_attribute("alt", image)
    assert lesson.state() == before
    words = sentence.inner_text()
    box = slider.bounding_box()
    lesson.page.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    expect(slider).to_have_value(slider.get_attribute("max"))
    expect(sentence).not_to_have_text(words)
    screenshot(lesson.page, "stride-explorer-light")


def test_everything_is_readable_in_both_themes(lesson: NotebookPage, screenshot: Callable[[Page, str], None]):
    answer(lesson, DIAGONAL, "def main_diagonal(x: Tensor) -> Tensor:\n    return x.diag()\n")
    check(lesson, DIAGONAL)
    expect(verdict(lesson, DIAGONAL)).to_have_attribute("data-outcome", "WRONG")
    for theme, name in (("JupyterLab Dark", "dark"), ("JupyterLab Light", "light")):
        lesson.theme(theme)
        output = lesson.output(lesson.find_role(DIAGONAL, "check"))
        contrasts = lesson.contrasts(output)
        assert len(contrasts) > 5
        assert [pair for pair in contrasts if pair[0] < 4.5] == [], theme
        screenshot(lesson.page, f"verdict-{name}")
        lesson.output(lesson.find(EXPLORER))
        screenshot(lesson.page, f"figures-{name}")


def test_headings_make_a_table_of_contents(lesson: NotebookPage, screenshot: Callable[[Page, str], None]):
    lesson.page.evaluate("() => jupyterapp.commands.execute('toc:show-panel')")
    contents = lesson.page.locator(".jp-TableOfContents-content")
    for heading in ("One strip of memory, many shapes", "A table to keep", "Flatten without a needless copy"):
        expect(contents.get_by_text(heading)).to_be_visible()
    screenshot(lesson.page, "table-of-contents-light")


def test_after_a_restart_it_goes_on(server: Server, lesson: NotebookPage, watch: Watch):
    before = passed(server)
    assert before > 0
    watch.forgive_widgets_that_have_gone()
    lesson.restart()
    for text in ("import torch", "run_device = "):
        lesson.run(lesson.find(text))
    answer(lesson, DIAGONAL, "def main_diagonal(x: Tensor) -> Tensor:\n    return x.diagonal()\n")
    check(lesson, DIAGONAL)
    expect(verdict(lesson, DIAGONAL)).to_have_attribute("data-outcome", "PASSED")
    expect(strip(lesson, DIAGONAL).locator(".course-strip-progress")).to_contain_text(f"{before + 1} of ")
    assert passed(server) == before + 1


def test_a_saved_page_is_complete_when_it_is_opened_again(
    server: Server, lesson: NotebookPage, watch: Watch, screenshot: Callable[[Page, str], None]
):
    """With a new kernel, which knows nothing of the old one's widgets: the verdicts are the static ones."""
    lesson.page.keyboard.press("Control+s")
    lesson.page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    watch.forgive_widgets_that_have_gone()
    lesson.restart()
    lesson.open(server.url(LESSON), LESSON)
    shown = verdict(lesson, DIAGONAL)
    expect(shown).to_have_attribute("data-outcome", "PASSED")
    expect(strip(lesson, DIAGONAL)).to_have_count(0)
    screenshot(lesson.page, "opened-again-light")
    expect(lesson.output(lesson.find(EXPLORER)).get_by_role("img").first).to_be_visible()
    for text in ("Error displaying widget", "Loading widget", "model not found"):
        expect(lesson.page.get_by_text(text).locator("visible=true")).to_have_count(0)


def test_the_curve_of_a_training_run_moves(
    server: Server, tab: Callable[[], NotebookPage], screenshot: Callable[[Page, str], None]
):
    """Only the cells that the training needs; it is interrupted when the curve has moved."""
    notebook = tab()
    path = "05_cifar10_loop.ipynb"
    notebook.open(server.url(path), path)
    for text in ("import torch", 'device = "auto"', "run_device = ", "train_set, test_set = ", "prepare = partial("):
        notebook.run(notebook.find(text))
    training = notebook.find("def run(name: str")
    notebook.clear(training)
    output = notebook.run(training, wait=False)
    curve = output.get_by_role("img").first
    first = curve.get_attribute("src")
    expect(curve).not_to_have_attribute("src", first)
    curve.scroll_into_view_if_needed()
    screenshot(notebook.page, "live-curve-light")
    notebook.menu("Kernel", "Interrupt Kernel")
    expect(output).to_contain_text("KeyboardInterrupt")
    notebook.page.close()


def test_the_browser_stayed_on_this_machine_and_had_nothing_to_complain_about(lesson: NotebookPage, watch: Watch):
    assert watch.requests > 100
    assert watch.foreign == []
    assert watch.errors == []
