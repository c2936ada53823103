#!/usr/bin/env python3
"""The page of a run in a browser, while a worker of the run is killed.

    SHOAL=bazel-bin/deploy/shoal tests/browser/page_test.py [--screenshots=DIR] [NAME ...]
"""
import json
import pathlib
import re
import signal
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "real_process"))
import cluster  # noqa: E402
from chromium import Browser  # noqa: E402

FASHION = str(HERE.parent.parent / "deploy/runs/fashion_cnn.textproto")
SMALL = str(HERE.parent / "real_process/small.textproto")
TWO = ("--num_ps_tasks=2", "--num_replicas=2", "--metrics_address=127.0.0.1:0")
# 0 while the browser loads the page.
STEP = "Number(((document.querySelector('.progress strong') || {}).textContent || '0').match(/\\d+/)[0])"
TEXT = "document.querySelector('main').innerText"
SCREENSHOTS = None


def page_of(run):
    """The URL of the page, once the chief serves it."""
    path = run.out / "monitoring/chief-0.json"
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, run.logs()
        time.sleep(0.05)
    (group,) = json.loads(path.read_text())
    return f"http://{group['targets'][0]}/"


def luminance(color):
    parts = [float(c) / 255 for c in re.findall(r"[\d.]+", color)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def check_layout(browser):
    """Nothing is cut off at any width, and all text can be read in both schemes."""
    colors = {}
    for scheme in ("light", "dark"):
        browser.scheme(scheme)
        for width in (360, 800, 1600):
            browser.size(width)
            wide = browser.value("document.documentElement.scrollWidth")
            assert wide <= width, f"{wide} pixels at a width of {width}"
            # A chart's text is scaled with the chart.
            text = browser.value("(function () { var svg = document.querySelector('svg.chart');"
                                 " return parseFloat(getComputedStyle(svg.querySelector('text')).fontSize) *"
                                 " svg.getBoundingClientRect().width / svg.viewBox.baseVal.width; })()")
            assert text >= 8.5, f"text of {text} pixels in a chart at a width of {width}"
        card = browser.value("getComputedStyle(document.querySelector('.card')).backgroundColor")
        for part in ("h1", ".about", "thead th", "td", "a", ".badge", "figcaption"):
            color = browser.value(f"getComputedStyle(document.querySelector('{part}')).color")
            assert contrast(color, card) >= 4.5, f"{part} in the {scheme} scheme: {color} on {card}"
        for line in ("train", "test"):
            color = browser.value(f"getComputedStyle(document.querySelector('.key .{line}')).stroke")
            assert contrast(color, card) >= 3, f"{line} in the {scheme} scheme: {color} on {card}"
        colors[scheme] = card
    assert luminance(colors["light"]) > 0.5 > luminance(colors["dark"]), colors
    browser.scheme("light")


def shoot(browser, name, width, scheme="light", above=None):
    if SCREENSHOTS is None:
        return
    browser.scheme(scheme)
    browser.size(width)
    browser.screenshot(SCREENSHOTS / f"{name}.png", above)


def a_killed_worker_is_seen_at_once():
    with cluster.Run(FASHION, *TWO, "--num_epochs=20", "--eval_every=60", "--save_every=120") as run:
        run.start()
        url = page_of(run)
        with Browser() as browser:
            browser.size(1400)
            browser.open(url)
            run.wait_for_step(150)
            browser.value("window.isTheSameDocument = true")
            browser.wait_for(f"{STEP} >= 100 && document.querySelectorAll('circle.test').length > 0")
            pid = run.kill("worker", 1)
            killed_at = run.step()
            browser.wait_for(f"/worker.1 is lost/.test({TEXT})")
            browser.wait_for("document.querySelector('.chart .number') !== null")
            run.wait_for_step(killed_at + 150)
            browser.wait_for(f"{STEP} >= {killed_at + 150}")
            browser.wait_for(f"({TEXT}.match(/worker.1\\s+✓ works/) || []).length === 1")
            assert browser.value("window.isTheSameDocument"), "the script shows what is new, not a reload"
            check_layout(browser)
            shoot(browser, "page_360", 360)
            shoot(browser, "page_dark", 1600, "dark")
            shoot(browser, "page", 1280, above=".pair")
            show_values_under_the_pointer(browser)
            assert not browser.trouble, browser.trouble
            others = [asked for asked in browser.requested if not asked.startswith((url, "data:"))]
            assert not others, others
            run.process.send_signal(signal.SIGINT)
            assert run.wait() == 130, run.output
            # The last answer says how it ended, or the page says that there is none.
            browser.wait_for("/stopped/.test(document.title) || !document.getElementById('offline').hidden")
            browser.open((run.out / "report.html").as_uri())
            assert "■ stopped" in browser.text() and "worker/1" in browser.text(), browser.text()
            assert not browser.trouble, browser.trouble


def show_values_under_the_pointer(browser):
    box = json.loads(browser.value("JSON.stringify(document.querySelector('svg.chart').getBoundingClientRect())"))
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"] + box["width"] / 2,
                 y=box["y"] + box["height"] / 2)
    browser.wait_for("/^step \\d+, training [\\d.]+, test [\\d.]+$/.test(document.querySelector('.readout').textContent)")


def everything_is_there_without_scripts():
    with cluster.Run(SMALL, *TWO, "--num_epochs=2000", "--eval_every=50") as run:
        run.start()
        url = page_of(run)
        run.wait_for_step(120)
        with Browser(scripts=False) as browser:
            browser.open(url)
            before = browser.value(STEP)
            assert before > 0, browser.text()
            assert browser.value("document.querySelectorAll('polyline.train').length") >= 2, browser.text()
            for words in ("What happened", "ps/1", "worker/1", "Checkpoints", "learning rate"):
                assert words in browser.text(), browser.text()
            browser.wait_for(f"{STEP} > {before}")  # The browser has loaded it again.
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output


def a_directory_is_no_markup():
    name = "<img src=x onerror=alert(1)>&amp;"
    with tempfile.TemporaryDirectory() as directory, \
            cluster.Run(SMALL, *TWO, "--num_epochs=2000", out=f"{directory}/{name}") as run:
        run.start()
        url = page_of(run)
        run.wait_for_step(20)
        with Browser() as browser:
            browser.open(url)
            assert browser.value("document.querySelector('.about').textContent").endswith(name)
            assert browser.value("document.images.length") == 0
            assert not browser.trouble, browser.trouble
        run.process.send_signal(signal.SIGINT)
        assert run.wait() == 130, run.output


if __name__ == "__main__":
    for argument in [a for a in sys.argv[1:] if a.startswith("--screenshots=")]:
        SCREENSHOTS = pathlib.Path(argument.split("=", 1)[1])
        sys.argv.remove(argument)
    cluster.main([a_killed_worker_is_seen_at_once, everything_is_there_without_scripts, a_directory_is_no_markup])
