"""`python -m course.publishing.site OUTPUT`: the static site of all lessons, faults and claims, made with Sphinx."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course.publishing import PublishingError, UsageError, files, site_links
from course.publishing.checkout import Checkout
from course.publishing.site_links import Links
from course.publishing.site_sources import write_sources

NEEDED = ("sphinx", "myst_nb", "furo")


@dataclass(frozen=True)
class Site:
    """A built site: where, what it holds and refers to, bytes of all files, seconds that it took."""

    folder: Path
    links: Links
    bytes: int
    seconds: float

    def __str__(self) -> str:
        links = self.links
        return (
            f"{self.folder}: {links.pages} pages, {links.pictures} pictures, {self.bytes / 2**20:.1f} MiB, "
            f"{links.links} links within, {len(links.broken)} broken, {len(links.foreign)} files from elsewhere, "
            f"{self.seconds:.0f} s"
        )


def build_site(checkout: Checkout, output: Path, *, base_url: str = "") -> Site:
    """Build the site of the checkout's lessons into the folder `output`, in place of the site that was there.

    base_url: where it will be published, such as "https://someone.github.io/course/": pages name it as their address,
    and a sitemap lists them. Executes no notebook and needs no network.

    Raises UsageError when `output` holds anything but a site; PublishingError when Sphinx is missing, has warnings, or
    a link leads nowhere. Then `output` stays as it was.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise PublishingError(f"The site needs {', '.join(missing)}: install the package with its `site` extra.")
    if output.exists() and not _is_site(output):
        raise UsageError(f"{output} exists and is no built site, so it is not replaced. Choose another folder.")
    start = time.perf_counter()
    base_url = base_url and base_url.rstrip("/") + "/"
    with tempfile.TemporaryDirectory(prefix="course-site-") as name:
        scratch = Path(name)
        write_sources(checkout, scratch / "source")
        made = scratch / "html"
        _run_sphinx(checkout.root / "site", scratch / "source", made, base_url)
        if base_url:
            files.write_text(made / "sitemap.xml", sitemap(made, base_url))
        # GitHub Pages would leave out what begins with an underscore.
        (made / ".nojekyll").touch()
        links = site_links.examine(made)
        if links.faults:
            lines = "\n".join(f"    {line}" for line in links.faults[:40])
            raise PublishingError(f"The site is not kept, because of {len(links.faults)} faults of its pages.\n{lines}")
        size = sum(path.stat().st_size for path in made.rglob("*") if path.is_file())
        if output.exists():
            shutil.rmtree(output)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, output)
    return Site(output, links, size, time.perf_counter() - start)


def sitemap(folder: Path, base_url: str) -> str:
    """Return the sitemap of the pages in `folder`, but for the search."""
    pages = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html") if path.name != "search.html")
    lines = "".join(f"<url><loc>{base_url}{page}</loc></url>\n" for page in pages)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{lines}</urlset>\n'
    )


def _is_site(folder: Path) -> bool:
    return folder.is_dir() and (not any(folder.iterdir()) or (folder / "searchindex.js").is_file())


def _run_sphinx(config: Path, source: Path, made: Path, base_url: str) -> None:
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E"]
    command += ["-c", str(config), "-d", str(made.parent / "doctrees"), "-D", f"html_baseurl={base_url}"]
    done = subprocess.run(
        [*command, str(source), str(made)], capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    if done.returncode:
        told = (done.stderr + done.stdout).replace(f"{source}/", "")
        raise PublishingError(f"Sphinx could not build the site:\n{told.strip()[-6000:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the site of this checkout; return 0, 1 when that failed, 2 when the request makes no sense."""
    parser = argparse.ArgumentParser(prog="python -m course.publishing.site", description=__doc__)
    parser.add_argument("output", type=Path, help="the folder of the site, such as build/site")
    parser.add_argument("--base-url", default="", metavar="URL", help="where the site will be published")
    options = parser.parse_args(arguments)
    try:
        print(build_site(Checkout.here(), options.output, base_url=options.base_url))
    except (PublishingError, OSError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
