"""The site is built without a network, strictly, and leads nowhere that does not exist."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.docs.blocks import ROOT

# Where the namespace of a network that has no device can be entered, the build has none.
_UNSHARE = ["unshare", "--net", "--map-root-user"]
_TIMEOUT_S = 280


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    without_network = subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode == 0
    if without_network:
        command = [*_UNSHARE, *command]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9"}
    environment["https_proxy"] = environment["http_proxy"]
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


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
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs").with_suffix("")
        folder = name.parent if name.name in ("README", "index") else name
        assert (site / folder / "index.html").is_file(), path


@pytest.mark.timeout(300)
def test_every_page_is_found_by_its_search(site):
    index = (site / "search" / "search_index.json").read_text()
    for name in ("concepts/", "languages/", "adr/0001-terminating-token/"):
        assert f'"{name}"' in index
