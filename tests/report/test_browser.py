"""The report in a real browser: quiet, no network, on a telephone, in print."""

import re
import shutil
import subprocess

import browser
import numpy as np
import pytest
from hostile_names import HOSTILE

import gpu_consensus as gpc

pytestmark = pytest.mark.skipif(
    browser.CHROMIUM is None, reason="there is no chromium (apt-get install chromium)"
)
TOO_WIDE = """
[...document.querySelectorAll('body *')].filter(
  e => !e.closest('.wide') && !e.closest('svg')
       && e.getBoundingClientRect().right > innerWidth + 1
).map(e => e.outerHTML.slice(0, 80))
"""
SMALLEST = """
Math.min(...[...document.querySelectorAll('svg text')].map(
  t => parseFloat(getComputedStyle(t).fontSize)
       * t.ownerSVGElement.getBoundingClientRect().width
       / t.ownerSVGElement.viewBox.baseVal.width))
"""


@pytest.fixture(scope="module")
def page():
    with browser.opened() as page:
        yield page


@pytest.fixture(scope="module", params=["plain", "hostile"])
def path(request, tmp_path_factory):
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(9), 10)
    X = rng.normal(size=(90, 4)) + 6 * rng.normal(size=(9, 4))[truth]
    res = gpc.cluster(X, 9, n_partitions=12, random_state=0)
    names = [f"class {c}" for c in truth]
    words = {}
    if request.param == "hostile":
        names = [HOSTILE[l % len(HOSTILE)] for l in range(90)]
        words = {
            "names": names,
            "title": HOSTILE[0] + "w" * 300,
            "command": HOSTILE[1] + "x" * 3_000,
            "settings": {HOSTILE[2]: HOSTILE[6], "seed": None},
        }
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    return gpc.report(res, path, X=X, known=names, **words)


def test_no_complaint_and_no_request(page, path):
    page.resize(1280)
    page.open(path)
    assert page.complaints == []
    asked = [url for url in page.requests if not url.startswith("data:")]
    assert asked == [path.resolve().as_uri()]
    assert page.ask("document.title") != "hurt"
    assert page.ask("document.querySelectorAll('script').length") == 0
    assert page.ask("document.querySelectorAll('figure svg').length") >= 8


def test_the_browser_would_have_noticed(page, tmp_path):
    """The checks above see a request, a script and an error where there are some."""
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='no.png'><script>console.error('oh')</script><p>")
    page.open(bad)
    assert any("oh" in words for words in page.complaints)
    assert any(url.endswith("no.png") for url in page.requests)


def test_it_is_read_on_a_telephone(page, path):
    page.resize(360)
    page.open(path)
    assert page.ask("innerWidth") == 360
    assert page.ask("document.documentElement.scrollWidth") <= 360
    assert page.ask(TOO_WIDE) == []
    assert page.ask(SMALLEST) >= 7
    page.ask("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert page.ask("document.documentElement.scrollWidth") <= 360


def test_it_prints(page, path, tmp_path):
    page.resize(1280)
    page.open(path)
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 4 <= pages <= 14
    if shutil.which("pdftotext"):
        (tmp_path / "report.pdf").write_bytes(pdf)
        words = ["pdftotext", "-layout", tmp_path / "report.pdf", "-"]
        text = subprocess.run(words, capture_output=True, check=True).stdout.decode()
        assert "What this does not show" in text
        assert "The least certain objects" in text
