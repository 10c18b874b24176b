"""The trace page in a real browser (R4): nothing in a log gets out of its place, and everything can be found."""

import asyncio
import http.client
import json
import re
import subprocess
import sys
import urllib.parse

import pytest

from headrace.harness.page import gather, page
from headrace.log import payloads as p
from headrace.log.eventlog import EventLog
from headrace.store import open_store
from tests.support import browser as chromium
from tests.support import runs
from tests.support.harness import calls, says
from tests.support.hosts import Home

pytestmark = [pytest.mark.skipif(chromium.FOUND is None, reason=chromium.WHY), pytest.mark.timeout(90)]

HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1><!--<b>&lt;"


@pytest.fixture(scope="module")
def opened():
    with chromium.browser() as started:
        yield started


@pytest.fixture
def show(opened, tmp_path):
    """Open a page as a file. Fails where it asks anybody for anything, or complains."""
    pages = []

    def act(content, *, scheme="light", at=""):
        file = tmp_path / f"page{len(pages)}.html"
        file.write_bytes(content)
        made = opened.new_page(viewport={"width": 1300, "height": 900}, color_scheme=scheme)
        pages.append(made)
        made.asked, made.complaints = [], []
        made.on("request", lambda request: made.asked.append(request.url))
        made.on("console", lambda message: made.complaints.append(message.text))
        made.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.goto(file.as_uri() + at)
        return made

    yield act
    for one in pages:
        assert all(url.startswith("file:") for url in one.asked), one.asked
        assert one.complaints == []
        one.close()


def in_memory(*payloads, spoil=None, names=("r1",)):
    """The page of runs with these payloads."""

    async def made():
        store = await open_store("memory:")
        log = await EventLog.over(store, clock=lambda: 1_700_000_000.0)
        for name in names:
            writer = await log.create(name, *payloads[:2])
            for at in range(2, len(payloads), 400):
                await writer.append(*payloads[at : at + 400])
        if spoil is not None:
            async with store.transaction() as tx:
                await tx.execute("UPDATE log_events SET at_ms = at_ms + 1 WHERE seq = ?", spoil)
        content = page([await gather(log, name) for name in names])
        await store.close()
        return content

    return chromium.apart(lambda: asyncio.run(made()))


def text(shown, place):
    return shown.locator(place).inner_text()


def test_r4_a_trace_answers_who_did_what_about_an_intent(show):
    shown = show(in_memory(*runs.everything()[:-2]), at="#r0-15")
    happened = text(shown, "#happened")
    intent = r"Intent t0\.0: bash\s+asked for by\s+#2\s+mend the test\s+projected\s+#3\s+proposed by\s+#\d+"
    assert re.search(intent, happened), happened
    assert re.search(r"translated from\s+#\d+\s+openai_chat", happened)
    assert re.search(r"counts since\s+#\d+", happened)
    assert re.search(r"approved by\s+#\d+\s+person", happened)
    assert re.search(r"executed by\s+#\d+\s+process \(A\) · /project · true", happened)
    assert re.search(r"ended\s+#\d+\s+ok · exit 0 · 5 ms", happened)
    assert re.search(r"observed\s+#\d+\s+ok\s+fed back\s+#\d+\s+verified\s+#\d+", happened)
    saw = text(shown, "#saw")
    assert 'bash {"command": "true"}' in saw
    assert "done" in saw
    assert "2 bytes are left out of this · 1 secrets are taken out" in saw
    shown.locator("#happened").get_by_role("button", name="event 2", exact=True).click()
    assert "user.message" in text(shown, ".row.on")
    lanes = [one.inner_text() for one in shown.locator(".lane").all()]
    assert [one.strip() for one in lanes] == [
        *("goal", "projection", "decision", "intent", "permission", "execution", "observation", "verification")
    ]


def test_r4_what_the_model_saw_stands_beside_what_happened_and_who_was_asked(show):
    shown = show(in_memory(*runs.everything()[:-2]), at="#r0-4")
    assert re.search(r"events\s+status\s+why\s+tokens\s+text\s+#1\s*-\s*#2\s+included\s+said\s+9", text(shown, "#saw"))
    assert "Be brief." in text(shown, "#saw")
    assert re.search(r"The turn t0\s+#3\s+context\.projected.*\s+#4\s+model\.requested", text(shown, "#happened"))
    shown.get_by_text("Who was asked, with which credential").click()
    assert re.search(r"t0\s+1\s+acme\s+first\s+openai_chat\s+failed · overloaded · 503", text(shown, ".head"))


def test_what_a_log_holds_is_shown_as_text(show):
    execution = runs.execution("t0.0", HOSTILE)
    payloads = [
        p.RunStarted(goal=HOSTILE, model=HOSTILE, cwd=HOSTILE),
        p.UserMessage(text=HOSTILE),
        *runs.request("t0"),
        *runs.answer("t0", HOSTILE, [runs.intent("t0", raw=json.dumps({"command": HOSTILE}))]),
        *execution,
        p.VerificationRecorded(claim=HOSTILE, method="command", passed=False, detail=HOSTILE),
    ]
    content = in_memory(*payloads)
    shown = show(content)
    for seq in range(1, len(payloads) + 1):
        shown.keyboard.press("Home") if seq == 1 else shown.locator(".scroll").press("ArrowDown")
        assert shown.locator("img, .row b, #saw b, #saw script, #happened script").count() == 0
    assert shown.evaluate("window.pwned") is None
    assert HOSTILE in text(shown, "#happened pre.raw").replace('\\"', '"')
    shown.locator(".scroll").press("Home")
    shown.locator(".scroll").press("ArrowDown")
    assert HOSTILE in text(shown, "#saw")
    # And if some of it came in, it could not run: the policy knows the page's own script.
    policy = re.search(rb'Content-Security-Policy" content="([^"]*)"', content)[1].decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert content.count(b"<script") == 2


STEPS = """async () => {
  const run = runs[0], by = Math.floor(run.rows.length / 60);
  let made = 0;
  const seen = new MutationObserver((all) => { for (const one of all) made += one.addedNodes.length; });
  seen.observe(document.body, { childList: true, subtree: true });
  for (let at = 0; at < 60; at++) { run.choose(at * by, true); await new Promise(requestAnimationFrame); }
  seen.disconnect();
  return made; }"""
"""Walk through a run in sixty steps, and count the elements put in on the way."""


def many(count):
    made = [*runs.begin()]
    turn = 0
    while len(made) < count:
        made += [
            *runs.request(f"t{turn}"),
            *runs.answer(f"t{turn}", f"turn {turn}", [runs.intent(f"t{turn}")]),
            *runs.execution(f"t{turn}.0", f"output {turn}"),
        ]
        turn += 1
    return made


def test_ten_thousand_events_are_quick_to_walk_through(show):
    payloads = many(10_000)
    shown = show(in_memory(*payloads))
    assert shown.locator(".row").count() < 100
    shown.locator(".scroll").press("End")
    assert text(shown, ".row.on .n") == str(len(payloads))
    # A step makes what is seen, however long the run is.
    made = shown.evaluate(STEPS)
    assert 60 < made < 60 * 120, made
    assert shown.locator(".row").count() < 100
    shown.get_by_role("searchbox").fill("output 500")
    assert text(shown, ".tools [role=status]") == f"1 of {len(payloads):,} events"


def test_keyboard_and_screen_reader_find_their_way(show):
    shown = show(in_memory(*runs.whole()))
    grid = shown.get_by_role("grid", name="Events")
    assert grid.get_attribute("aria-rowcount") == str(len(runs.whole()) + 1)
    for _ in range(30):
        shown.keyboard.press("Tab")
        if shown.evaluate("document.activeElement.className") == "scroll":
            break
    shown.keyboard.press("ArrowDown")
    active = grid.get_attribute("aria-activedescendant")
    assert shown.locator(f"#{active}").get_attribute("aria-selected") == "true"
    assert text(shown, "#spoken") == "event 2, goal, user.message: mend the test"
    shown.keyboard.press("/")
    assert shown.evaluate("document.activeElement.type") == "search"
    for button in shown.get_by_role("button").all():
        assert button.inner_text().strip() or button.get_attribute("aria-label")
    shown.get_by_role("button", name="goal").press("Enter")
    assert shown.get_by_role("button", name="goal").get_attribute("aria-pressed") == "false"
    assert shown.locator(".row").first.inner_text().split()[0] == "3"


def luminance(colour):
    parts = [int(one) / 255 for one in re.findall(r"\d+", colour)[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_can_be_read_in_light_and_in_dark(show, scheme):
    shown = show(in_memory(*runs.everything()[:-2]), scheme=scheme, at="#r0-15")
    pairs = shown.evaluate(
        """() => { const made = [];
        const kinds = "h1, h2, h3, .pill, .hint, .row span, td, th, pre, button, .facts";
        for (const one of document.querySelectorAll(kinds)) {
          if (!one.innerText || !one.offsetWidth) continue;
          let at = one, back;
          do { back = getComputedStyle(at).backgroundColor; at = at.parentElement; }
          while (at && back === "rgba(0, 0, 0, 0)");
          made.push([getComputedStyle(one).color, back, one.className + ": " + one.innerText.slice(0, 30)]);
        } return made; }"""
    )
    assert len(pairs) > 50
    for ink, paper, words in pairs:
        high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (words, ink, paper)


def test_the_badge_says_whether_the_chain_holds_and_where_not(show):
    shown = show(in_memory(*runs.whole()))
    assert f"chain verified, {len(runs.whole())} events" in text(shown, "[data-chain=ok]")
    shown = show(in_memory(*runs.whole(), spoil=9))
    assert "chain broken at event 9" in text(shown, "[data-chain=bad]")
    shown.locator(".scroll").press("End")
    assert text(shown, ".row.on .n") == "8"  # nothing that does not verify is shown


def test_two_runs_stand_beside_each_other(tmp_path, show):
    edit = calls({"path": "a.txt", "content": "one\n"}, tool="write_file")
    with Home(tmp_path, edit, says("Done."), calls({"path": "a.txt"}, tool="read_file"), says("Done.")) as home:
        out = tmp_path / "both.html"

        def act():
            names = [home.run("--mode", "accept-edits")[1][-1]["run_id"] for _ in range(2)]
            return home("trace", "report", *names, "-o", str(out)).exit_code

        assert chromium.apart(act) == 0
    shown = show(out.read_bytes())
    assert shown.locator(".run").count() == 2
    assert "alike for" in text(shown, "#compared")
    shown.get_by_role("button", name="First difference").click()
    assert "tool_intent.proposed" in text(shown, ".run:first-child .row.on")
    assert "+one" in text(shown, "#happened")  # the difference is on the page
    assert home("trace", "report", "r1", "r2", "r3").exit_code == 2


def test_a_live_page_grows_with_its_run_and_is_nobody_elses(tmp_path, opened):
    url = f"sqlite:{tmp_path}/log.db"
    payloads = runs.whole()

    async def begin():
        store = await open_store(url)
        log = await EventLog.over(store)
        await log.create("r1", *payloads[:4])
        await store.close()

    async def go_on():
        store = await open_store(url)
        writer = await (await EventLog.over(store)).open("r1")
        await writer.append(*payloads[4:])
        await store.close()

    chromium.apart(lambda: asyncio.run(begin()))
    command = [sys.executable, "-m", "headrace.cli", "trace", "serve", "--store", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            address = re.search(r"http://\S+", served.stderr.readline())[0]
            shown = opened.new_page()
            shown.goto(address)
            shown.get_by_role("link", name="r1").click()
            shown.get_by_text("live", exact=True).wait_for()
            assert "chain verified, 4 events" in text(shown, "[data-chain]")
            shown.locator(".scroll").press("End")
            chromium.apart(lambda: asyncio.run(go_on()))
            shown.get_by_text(f"chain verified, {len(payloads)} events").wait_for()
            assert "run.finished" in text(shown, ".row.on")
            shown.close()
            parts = urllib.parse.urlsplit(address)
            for path, host in ((parts.path, "evil.example"), ("/", parts.netloc), ("/x/r1", parts.netloc)):
                connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
                connection.request("GET", path, headers={"Host": host})
                assert connection.getresponse().status == 404
                connection.close()
        finally:
            served.terminate()
            said = served.stderr.read()
    assert (served.returncode, said) == (0, "")
