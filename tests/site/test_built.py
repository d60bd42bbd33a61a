"""The whole site: built by Sphinx without a warning, read as files, and opened in a browser."""

from __future__ import annotations

import functools
import html
import re
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from course.checking.exercise import ValueExercise
from course.exercises import load_exercise
from course.faults import FAULTS
from course.publishing import files, outputs, site_links
from course.publishing.checkout import Checkout
from course.publishing.site import Site
from course.publishing.site_lessons import PITFALL

pytestmark = pytest.mark.slow

MESSAGE = "view size is not compatible with input tensor's size and stride"
FAULT = "view-of-noncontiguous"


@functools.cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def _words(path: Path) -> str:
    """The visible text of a page's article, in one line."""
    article = _source(path).partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", article)).split())


def _title(path: Path) -> str:
    return html.unescape(re.search(r"<title>(.*?)</title>", _source(path))[1])


def _description(path: Path) -> str:
    return html.unescape(re.search(r'<meta content="([^"]*)" name="description"', _source(path))[1])


def _fault_file(site: Site, fault_id: str) -> Path:
    return site.folder / "faults" / f"{fault_id}.html"


def test_every_lesson_and_every_fault_has_a_page(built: Site, checkout: Checkout) -> None:
    made = {path.relative_to(built.folder).as_posix() for path in built.folder.rglob("*.html")}
    lessons = {f"lessons/{lesson.name}.html" for lesson in checkout.lessons}
    faults = {f"faults/{fault_id}.html" for fault_id in FAULTS}
    assert made == lessons | faults | {"index.html", "faults/index.html", "claims.html", "search.html"}
    assert built.links.pages == len(made)


def test_no_link_leads_nowhere_and_nothing_is_fetched_from_elsewhere(built: Site) -> None:
    links = site_links.examine(built.folder)
    assert links.broken == ()
    assert links.foreign == ()
    assert links.twice == ()
    assert links.links > 10 * links.pages


def test_every_picture_is_there_with_words(built: Site, checkout: Checkout) -> None:
    stored = sum(
        "image/png" in output.get("data", {})
        for lesson in checkout.lessons
        for cell in outputs.code_cells(files.read_notebook(checkout.notebook(lesson)))
        for output in cell.outputs
    )
    assert built.links.pictures == stored == len(list((built.folder / "pictures").glob("*.png")))
    assert built.links.nameless == ()


def test_the_message_of_an_error_is_in_title_and_description(built: Site) -> None:
    page = _fault_file(built, FAULT)
    assert _title(page).startswith(f"RuntimeError: {MESSAGE} (")
    assert MESSAGE in _description(page)
    assert MESSAGE in _words(page)


def test_titles_and_descriptions_differ(built: Site) -> None:
    pages = [_fault_file(built, fault_id) for fault_id in FAULTS]
    for told in (list(map(_title, pages)), list(map(_description, pages))):
        assert len(set(told)) == len(FAULTS), sorted(text for text in told if told.count(text) > 1)
        assert all(20 < len(text) <= 320 for text in told)


def test_a_fault_and_its_lesson_link_to_each_other(built: Site, checkout: Checkout) -> None:
    names = {lesson.number: lesson.name for lesson in checkout.lessons}
    for fault in FAULTS.values():
        page, lesson = _fault_file(built, fault.id), f"lessons/{names[fault.lesson]}.html"
        assert f'href="../faults/{fault.id}.html' in _source(built.folder / lesson)
        assert f'href="../{lesson}#lesson-{fault.lesson}-' in _source(page)
        for said in (fault.title, fault.why, fault.fix, fault.section):
            assert " ".join(said.replace("`", "").split()).lower() in _words(page).lower()


def test_every_pitfall_of_every_lesson_is_shown_by_its_fault(built: Site, checkout: Checkout) -> None:
    for lesson in checkout.lessons:
        lesson_page = _source(built.folder / "lessons" / f"{lesson.name}.html")
        counts: dict[str, int] = {}
        for cell in outputs.code_cells(files.read_notebook(checkout.notebook(lesson))):
            for shown in (output["data"][PITFALL] for output in cell.outputs if PITFALL in output.get("data", {})):
                fault_id = shown["fault"]
                counts[fault_id] = counts.get(fault_id, 0) + 1
                anchor = f"pitfall-{fault_id}-{counts[fault_id]}"
                page = _fault_file(built, fault_id)
                assert f'id="{anchor}"' in lesson_page
                assert f'href="../lessons/{lesson.name}.html#{anchor}"' in _source(page)
                assert " ".join(shown["seen"].split()) in _words(page)
                assert " ".join(cell.source.split()) in _words(page)


def test_exercises_that_name_a_fault_are_on_its_page(built: Site, checkout: Checkout) -> None:
    named = 0
    for lesson in checkout.lessons:
        for identifier in outputs.exercise_ids(files.read_notebook(checkout.notebook(lesson))):
            link = f"lessons/{lesson.name}.html#exercise-{re.sub('[._]', '-', identifier)}"
            for fault_id in {wrong.fault for wrong in load_exercise(identifier).wrong_answers} - {None}:
                named += 1
                assert link in _source(_fault_file(built, fault_id)), (identifier, fault_id)
    assert named > 100


def test_exercises_are_shown_and_solutions_are_not(built: Site, checkout: Checkout) -> None:
    everything = "\n".join(map(_words, sorted(built.folder.rglob("*.html"))))
    for lesson in checkout.lessons:
        words = _words(built.folder / "lessons" / f"{lesson.name}.html")
        assert "NOT_ATTEMPTED" not in words
        assert "NOT ATTEMPTED" not in words
        for identifier in outputs.exercise_ids(files.read_notebook(checkout.notebook(lesson))):
            exercise = load_exercise(identifier)
            assert f'check("{identifier}", {exercise.name})' in words
            assert " ".join(exercise.stub_source().split()) in words
            # The answer to a value or a choice is too short to be told from other text.
            if not isinstance(exercise, ValueExercise):
                for source in (exercise.solution_source(), *exercise.alternative_sources()):
                    assert " ".join(source.split()) not in everything, identifier


def test_the_page_of_claims_holds_every_claim(built: Site, checkout: Checkout) -> None:
    page = built.folder / "claims.html"
    rows = re.findall(r'<tr><th scope="row"><a href="([^"]*)">(.*?)</a></th>(.*?)</tr>', _source(page), re.DOTALL)
    told = [(html.unescape(name), link.partition("#")[0]) for link, name, _ in rows]
    stored = [
        (claim["name"], f"lessons/{lesson.name}.html")
        for lesson in checkout.lessons
        for claim in outputs.claims(files.read_notebook(checkout.notebook(lesson)))
    ]
    assert told == stored
    row = next(cells for _, name, cells in rows if name == "contiguous against transpose")
    assert re.search(r"torch \d+\.\d+.*<br>\d{4}-\d\d-\d\d</td>$", row.strip())
    assert "holds" in row


def test_formulas_need_no_script(built: Site, checkout: Checkout) -> None:
    count = 0
    for lesson in checkout.lessons:
        page = _source(built.folder / "lessons" / f"{lesson.name}.html")
        notebook = files.read_notebook(checkout.notebook(lesson))
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        formulas = sum(len(re.findall(r"\$\$?[^$]+\$\$?", text)) for text in texts)
        assert page.count("<math ") == formulas
        count += formulas
    assert count > 0
    assert r"target\_q" not in _source(built.folder / "lessons" / "02_autograd.html")
    assert not any("mathjax" in path.name.lower() for path in built.folder.rglob("*"))


def test_pages_know_their_address(built: Site) -> None:
    address = "https://example.org/course/faults/uint8-overflow.html"
    assert f'<link rel="canonical" href="{address}"' in _source(_fault_file(built, "uint8-overflow"))
    listed = re.findall(r"<loc>(.*?)</loc>", (built.folder / "sitemap.xml").read_text(encoding="utf-8"))
    assert address in listed
    assert len(listed) == built.links.pages - 1  # not the search


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(built: Site) -> Iterator[str]:
    """The site on a server of its own, in a folder of the host as on GitHub Pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=built.folder.parent)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{built.folder.name}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[[str, str], Page]]:
    """Opens a page of the site, light or dark. What asks another machine or complains in the console fails the test."""
    wrong: list[str] = []
    contexts = []

    def open_(path: str, scheme: str) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("request", lambda request: request.url.startswith((address, "data:")) or wrong.append(request.url))
        page.on("console", lambda message: message.type in ("error", "warning") and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        # A click on a result stops the search, which may still be fetching the others for their summaries.
        page.on("requestfailed", lambda each: each.failure == "net::ERR_ABORTED" or wrong.append(f"{each.url} failed"))
        page.goto(address + path)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert wrong == []


def _background(page: Page) -> int:
    """The brightness of the page's background, 0 to 255."""
    found = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", found)[:3]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out(open_page: Callable[[str, str], Page], checkout: Checkout, scheme: str) -> None:
    least = Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
    lesson = f"lessons/{checkout.lessons[1].name}.html"
    for path in (f"faults/{FAULT}.html", "faults/index.html", "claims.html", lesson):
        page = open_page(path, scheme)
        contrast, where = page.evaluate(least)
        assert 4.5 <= contrast <= 21, (path, where)  # what the guidelines ask of text
    page.add_style_tag(content=".course-claim td { color: grey; background: silver }")
    contrast, where = page.evaluate(least)
    assert contrast < 4.5
    assert where.startswith("TD: ")


@pytest.mark.parametrize(("scheme", "bright"), [("light", True), ("dark", False)])
def test_a_page_in_the_browser(
    open_page: Callable[[str, str], Page], reports: Path, checkout: Checkout, scheme: str, bright: bool
) -> None:
    folder = reports / "screenshots"
    folder.mkdir(exist_ok=True)
    paths = {
        "index": "index.html",
        "fault": f"faults/{FAULT}.html",
        "faults": "faults/index.html",
        "lesson": f"lessons/{checkout.lessons[1].name}.html#pitfall-{FAULT}-1",
        "claims": "claims.html",
    }
    for name, path in paths.items():
        page = open_page(path, scheme)
        expect(page.locator("h1")).to_be_visible()
        assert (_background(page) > 200) is bright
        page.screenshot(path=folder / f"site-{name}-{scheme}.png", full_page=name == "fault")
    page.get_by_label("Toggle Light / Dark / Auto color theme").locator("visible=true").first.click()
    assert page.evaluate("document.body.dataset.theme") != "auto"


def test_a_message_is_searched_and_its_fault_found(open_page: Callable[[str, str], Page], reports: Path) -> None:
    page = open_page("index.html", "light")
    page.get_by_placeholder("Search").fill(MESSAGE)
    page.keyboard.press("Enter")
    first = page.locator("#search-results li a").first
    expect(first).to_have_attribute("href", re.compile(rf"faults/{FAULT}\.html"))
    expect(page.locator(".search-summary")).to_contain_text("Search finished")
    page.wait_for_load_state("networkidle")
    folder = reports / "screenshots"
    folder.mkdir(exist_ok=True)
    page.screenshot(path=folder / "site-search-light.png")
    first.click()
    expect(page.locator("h1")).to_contain_text("view() on a tensor")
    page.get_by_role("link", name="See it in its lesson").first.click()
    box = page.locator(f"#pitfall-{FAULT}-1")
    expect(box).to_be_in_viewport()
    box.get_by_role("link", name=FAULT).click()
    expect(page).to_have_url(re.compile(rf"/faults/{FAULT}\.html$"))


def test_pictures_are_loaded(open_page: Callable[[str, str], Page], checkout: Checkout) -> None:
    page = open_page(f"lessons/{checkout.lessons[1].name}.html", "dark")
    pictures = page.locator("figure.picture img")
    assert pictures.count() > 0
    for picture in pictures.all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("each => each.naturalWidth") > 100
