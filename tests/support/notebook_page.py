"""A notebook in JupyterLab, as a person uses it: menus, keyboard, cells. For the browser tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# `jupyterapp` is there because the server was started with LabApp.expose_app_in_browser. The indicator in the
# toolbar says idle before there is a kernel, so these look at the kernel itself.
PANEL = "window.jupyterapp?.shell.currentWidget"
KERNEL = f"{PANEL}?.sessionContext?.session?.kernel"
READY = f"""() => {PANEL}?.context?.isReady && {PANEL}.context.path === PATH && {PANEL}.sessionContext.isReady
    && {KERNEL}?.connectionStatus === 'connected' && {KERNEL}.status === 'idle'"""
CODE = (
    f"{PANEL}.content.widgets.filter(cell => cell.model.type === 'code' && cell.model.sharedModel.getSource().trim())"
)
FORGET_COUNTS = f"() => {CODE}.forEach(cell => {{ cell.model.executionCount = null }})"
ALL_RAN = f"() => {CODE}.every(cell => cell.model.executionCount) && {KERNEL}.status === 'idle'"
FIND = f"text => {PANEL}.content.widgets.findIndex(cell => cell.model.sharedModel.getSource().includes(text))"
FIND_ROLE = f"""([exercise, role]) => {PANEL}.content.widgets.findIndex(cell => {{
    const course = cell.model.sharedModel.getMetadata('course');
    return course?.exercise === exercise && course?.role === role;
}})"""
ERRORS = f"""() => {CODE}.flatMap(cell => cell.model.sharedModel.getOutputs())
    .filter(output => output.output_type === 'error').map(output => output.ename + ': ' + output.evalue)"""
STATE = f"""() => [
    {PANEL}.content.mode, {PANEL}.content.activeCellIndex,
    {PANEL}.content.widgets.map(cell => cell.model.sharedModel.getSource())
]"""
# WCAG's contrast of each text below an element with what is behind it, smallest first.
CONTRASTS = """top => {
    const numbers = colour => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a] };
    const over = (top, below) => top.slice(0, 3).map((part, i) => part * top[3] + below[i] * (1 - top[3]));
    const light = colour => colour.map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
        if (!element) return [255, 255, 255];
        const own = numbers(getComputedStyle(element).backgroundColor);
        return own[3] === 1 ? own.slice(0, 3) : over(own, behind(element.parentElement));
    };
    const found = [];
    for (const element of [top, ...top.querySelectorAll('*')]) {
        const text = [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data.trim()).join('');
        if (!text || !element.checkVisibility() || element.disabled) continue;
        const back = behind(element);
        const [a, b] = [light(over(numbers(getComputedStyle(element).color), back)), light(back)].sort((a, b) => b - a);
        found.push([(a + 0.05) / (b + 0.05), text.slice(0, 60)]);
    }
    return found.sort((a, b) => a[0] - b[0]);
}"""
CELL = f"index => {PANEL}.content.widgets[index].model"
# `scrollToCell` would put the cursor into the cell.
SELECT = f"""index => {{
    const notebook = {PANEL}.content;
    if (notebook.activeCellIndex !== index) {{
        notebook.deselectAll();
        notebook.activeCellIndex = index;
    }}
    return notebook.scrollToItem(index, 'smart');
}}"""


class NotebookPage:
    """One tab of the browser with one notebook; cells are counted from 0, text cells included."""

    def __init__(self, page: Page, *, seconds: float = 120) -> None:
        self.page = page
        self.wait = seconds * 1000

    def open(self, url: str, path: str) -> None:
        """Go to a notebook (`path` within the workspace) and wait for its kernel."""
        self.page.goto(url)
        self.path = path
        self.until_ready()

    def until_ready(self) -> None:
        """Wait until the notebook is loaded and its kernel is idle."""
        self.page.wait_for_function(READY.replace("PATH", repr(self.path)), timeout=self.wait)

    def menu(self, name: str, entry: str) -> None:
        """Choose an entry of the menu bar."""
        self.page.get_by_role("menuitem", name=name, exact=True).click()
        self.page.locator(".lm-Menu-itemLabel").get_by_text(entry, exact=True).click()

    def run_all(self) -> None:
        """Run -> Run All Cells, and wait until every cell has run. A cell that fails stops the run: TimeoutError."""
        self.page.evaluate(FORGET_COUNTS)
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(ALL_RAN, timeout=self.wait)

    def restart(self) -> None:
        """Kernel -> Restart Kernel..., and wait for the new kernel."""
        before = self.page.evaluate(f"() => {KERNEL}.id")
        self.menu("Kernel", "Restart Kernel…")
        self.page.get_by_role("dialog").get_by_role("button", name="Confirm Kernel Restart").click()
        self.until_ready()
        assert self.page.evaluate(f"() => {KERNEL}.id") == before

    def find(self, text: str) -> int:
        """The first cell whose source contains the text. Raises LookupError."""
        index = self.page.evaluate(FIND, text)
        if index < 0:
            raise LookupError(f"no cell contains {text!r}")
        return index

    def find_role(self, exercise: str, role: str) -> int:
        """The cell of an exercise that is its "task", "stub" or "check". Raises LookupError."""
        index = self.page.evaluate(FIND_ROLE, [exercise, role])
        if index < 0:
            raise LookupError(f"no {role} cell of {exercise}")
        return index

    def errors(self) -> list[str]:
        """The errors that cells ended with: name and message."""
        return self.page.evaluate(ERRORS)

    def contrasts(self, element: Locator) -> list[tuple[float, str]]:
        """The contrast of each text in an element with its background, smallest first: 4.5 is WCAG's least."""
        return [(ratio, text) for ratio, text in element.evaluate(CONTRASTS)]

    def cell(self, index: int) -> Locator:
        """The cell, scrolled into view."""
        self.page.evaluate(SELECT, index)
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(index)

    def source(self, index: int) -> str:
        """The text of a cell."""
        return self.page.evaluate(f"index => ({CELL})(index).sharedModel.getSource()", index)

    def output(self, index: int) -> Locator:
        """What a cell shows."""
        return self.cell(index).locator(".jp-Cell-outputWrapper")

    def state(self) -> list[object]:
        """What a key that JupyterLab takes for itself would change: the mode, the active cell, all sources."""
        return self.page.evaluate(STATE)

    def theme(self, name: str) -> None:
        """Change to a theme, such as "JupyterLab Dark", and wait for it."""
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.page.wait_for_selector(f'body[data-jp-theme-name="{name}"]', state="attached")

    def write(self, index: int, text: str) -> None:
        """Replace the text of a cell with the keyboard."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)
        assert self.source(index) == text

    def clear(self, index: int) -> None:
        """Take away what a cell shows."""
        self.page.evaluate(f"index => ({CELL})(index).clearExecution()", index)
        self.page.wait_for_function(f"index => ({CELL})(index).outputs.length === 0", arg=index, timeout=self.wait)

    def run(self, index: int, *, wait: bool = True) -> Locator:
        """Click into a cell, press Control+Enter and return what it shows."""
        self.page.evaluate(f"index => {{ ({CELL})(index).executionCount = null }}", index)
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        if wait:
            self.page.wait_for_function(f"index => ({CELL})(index).executionCount", arg=index, timeout=self.wait)
            self.page.wait_for_function(f"() => {PANEL}.content.mode === 'command'", timeout=self.wait)
        return self.output(index)
