"""The site is built without a network, strictly, and leads nowhere that does not exist."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from docs.site.gather import gather, linked
from tests.docs.blocks import ROOT

# Where the namespace of a network that has no device can be entered, the build has none.
_UNSHARE = ["unshare", "--net", "--map-root-user"]
_TIMEOUT_S = 280


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built site."""
    folder = tmp_path_factory.mktemp("build")
    gather(folder)
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


def build(folder):
    """The ended process that built what was gathered in a folder."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file"]
    without_network = subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode == 0
    if without_network:
        command = [*_UNSHARE, *command]
    environment = os.environ | {"http_proxy": "http://127.0.0.1:9"}
    environment["https_proxy"] = environment["http_proxy"]
    return subprocess.run(
        [*command, folder / "zensical.toml"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )


class Page(HTMLParser):
    """What a page leads to, what it loads, and the places in it that links may name."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.loaded.append(given["href"])


@pytest.fixture(scope="module")
def pages(site):
    """The pages by their paths in the site."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[f"/{path.relative_to(site)}"] = Page(path.read_text())
    assert len(found) > 30
    return found


def is_outside(target):
    return bool(urlsplit(target).scheme or urlsplit(target).netloc)


def file_of(site, path):
    """The file that a path of the site serves; None where there is none."""
    file = site / unquote(path).lstrip("/")
    file = file / "index.html" if file.is_dir() else file
    return file if file.is_file() else None


@pytest.mark.timeout(300)
def test_no_link_is_broken(site, pages):
    broken, num_checked = [], 0
    for here, page in pages.items():
        base = here.removesuffix("index.html") if here != "/404.html" else "/"
        for target in [*page.links, *page.loaded]:
            if is_outside(target):
                continue
            num_checked += 1
            parts = urlsplit(urljoin(base, target))
            file = file_of(site, parts.path)
            if file is None:
                broken.append((here, target))
            elif parts.fragment and file.suffix == ".html":
                anchors = pages[f"/{file.relative_to(site)}"].anchors
                if unquote(parts.fragment) not in anchors:
                    broken.append((here, target))
    assert broken == []
    assert num_checked > 1000


@pytest.mark.timeout(300)
def test_nothing_is_loaded_from_another_host(site, pages):
    outside = []
    for here, page in pages.items():
        outside += [(here, target) for target in page.loaded if is_outside(target)]
    for sheet in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']+)", sheet.read_text())
        outside += [(sheet.name, target) for target in found]
    assert outside == []


@pytest.mark.timeout(300)
def test_every_file_of_the_documentation_is_a_page(site):
    sources = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    for path in sources:
        name = path.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name in ("README", "index") else name
        assert (site / folder / "index.html").is_file(), path


@pytest.mark.timeout(300)
def test_a_notebook_is_a_page_with_what_its_cells_printed_and_drew(site, pages):
    text = (site / "gate" / "index.html").read_text()
    assert "are held back:" in text
    drawn = [name for name in pages["/gate/index.html"].loaded if "gate-" in name]
    assert len(drawn) == 2


@pytest.mark.timeout(300)
def test_every_page_but_a_decision_is_in_the_navigation(site, pages):
    front = {
        urljoin("/", target) for target in pages["/index.html"].links if not is_outside(target)
    }
    paths = {here.removesuffix("index.html") for here in pages if here != "/404.html"}
    assert {path for path in paths - front if not path.startswith("/adr/0")} == {"/"}  # itself


@pytest.mark.timeout(300)
def test_every_page_is_found_by_its_search(site):
    items = json.loads((site / "search.json").read_text())["items"]
    found = {item["location"].partition("#")[0] for item in items}
    assert {"", "overview/", "concepts/", "languages/", "adr/0001-terminating-token/"} <= found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "colour"),
    [("default", "--ground"), ("slate", "--ground"), ("default", "--accent"), ("slate", "--ink")],
)
def test_the_site_has_the_colours_of_the_page(site, name, colour):
    theme = {"default": ":root {", "slate": ':root[data-theme="dark"] {'}[name]
    styles = (ROOT / "app/plugins/page/files/page.css").read_text()
    page = styles.partition(theme)[2].partition("}")[0]
    value = re.search(rf"{colour}: (#\w+);", page)[1]
    sheet = (site / "colours.css").read_text()
    scheme = sheet.partition(f'[data-md-color-scheme="{name}"][')[2].partition("}")[0]
    assert value in scheme


@pytest.mark.timeout(300)
@pytest.mark.parametrize("link", ["[x](api.md#nowhere)", "[x](nowhere.md)"])
def test_a_broken_link_fails_the_build(link, tmp_path):
    gather(tmp_path)
    with (tmp_path / "docs" / "concepts.md").open("a") as page:
        page.write(f"\n{link}\n")
    assert build(tmp_path).returncode != 0


def test_a_link_to_a_file_that_is_not_there_is_noticed_also_where_it_would_have_no_page():
    with pytest.raises(FileNotFoundError, match=r"app/nowhere\.py"):
        linked("[x](../app/nowhere.py)", "docs/api.md", "api.md")
    text = "[x](../app/main.py) [y](keys.md#a)"
    assert linked(text, "docs/api.md", "api.md") == "x [y](keys.md#a)"
    assert linked("[x](../../README.md)", "docs/adr/a.md", "adr/a.md") == "[x](../overview.md)"
