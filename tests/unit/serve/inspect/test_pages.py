"""Pages of the inspector: stored text never becomes markup, whose memory they show, and what they say."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from reme_core import ReMe
from reme_core.errors import CorruptDataError
from reme_core.ports import RetrieveRequest
from reme_core.schema import Job, JobState, Memory, RetrieveResult, Scope, Usage, make_scope
from reme_core.serve.access import Right
from reme_core.steps.costs import CostBook
from reme_core.stores.sql import partitions
from tests.unit.serve.inspect.conftest import Browser

PAGES = ("timeline", "search", "memories", "sessions", "runs", "jobs", "map", "preview", "users")
# Source of most: OWASP's cheat sheet on filter evasion, and the contexts that these pages have.
PAYLOADS = (
    "<script>boom()</script>",
    "<ScRiPt>boom()</sCrIpT>",
    "</title><script>boom()</script>",
    "</textarea><script>boom()</script>",
    "</option></select><script>boom()</script>",
    "</style><script>boom()</script>",
    "</svg><script>boom()</script>",
    "</code></pre><script>boom()</script>",
    "<img src=x onerror=boom()>",
    "<img src=x onerror=boom()//",
    "<svg onload=boom()>",
    "<svg/onload=boom()>",
    "<svg><script>boom()</script></svg>",
    "<svg><a xlink:href='javascript:boom()'><text>x</text></a></svg>",
    "<math><a xlink:href=javascript:boom()>x</a></math>",
    "<body onload=boom()>",
    "<iframe src=javascript:boom()></iframe>",
    "<iframe srcdoc='<script>boom()</script>'></iframe>",
    "<object data=javascript:boom()></object>",
    "<embed src=javascript:boom()>",
    "<a href=javascript:boom()>x</a>",
    "<a href='data:text/html,<script>boom()</script>'>x</a>",
    "<form action=javascript:boom()><button>x</button></form>",
    "<button formaction=javascript:boom()>x</button>",
    "<input autofocus onfocus=boom()>",
    "<details open ontoggle=boom()>",
    "<video><source onerror=boom()></video>",
    "<audio src=x onerror=boom()>",
    "<marquee onstart=boom()>x</marquee>",
    "<meta http-equiv=refresh content='0;url=javascript:boom()'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<style>@import '//evil.example/x.css'</style>",
    "<template><script>boom()</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=boom()>'></noscript>",
    "<!--><script>boom()</script>-->",
    "<![CDATA[<script>boom()</script>]]>",
    "<?xml version='1.0'?><script>boom()</script>",
    "<x onclick=boom()>x</x>",
    "<x style=animation-name:x onanimationend=boom()>",
    '" onmouseover="boom()',
    "' onmouseover='boom()",
    '"><script>boom()</script>',
    "'><script>boom()</script>",
    "` onmouseover=`boom()",
    '" autofocus onfocus="boom()" x="',
    "javascript:boom()",
    "{{ 7919 * 104729 }}",
    "{% for x in range(9) %}boom{% endfor %}",
    "${7919 * 104729}",
    "{{ view.session.csrf }}",
    "{{ ''.__class__.__mro__ }}",
    "&lt;script&gt;boom()&lt;/script&gt;",
    "&#60;script&#62;boom()&#60;/script&#62;",
    "\\u003cscript\\u003eboom()\\u003c/script\\u003e",
    "%3Cscript%3Eboom()%3C/script%3E",
    "<scr\u202eipt>boom()</script>",
    "\u2066<script>boom()</script>\u2069",
    "\x1b]0;boom\x07<b>x</b>",
    "<\x01script>boom()</script>",
    "＜script＞boom()＜/script＞",
    "<b>bold</b>\r\nSet-Cookie: boom=1",
)
# What a template of ours holds, and no stored text may add to.
TAGS = frozenset(
    {
        "a",
        "aside",
        "blockquote",
        "body",
        "button",
        "circle",
        "code",
        "dd",
        "del",
        "details",
        "div",
        "dl",
        "dt",
        "figcaption",
        "figure",
        "form",
        "g",
        "h1",
        "h2",
        "h3",
        "head",
        "header",
        "html",
        "i",
        "input",
        "ins",
        "label",
        "li",
        "line",
        "link",
        "main",
        "mark",
        "meta",
        "nav",
        "ol",
        "option",
        "p",
        "path",
        "pre",
        "rect",
        "section",
        "select",
        "span",
        "strong",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "text",
        "textarea",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    }
)


class Reader(HTMLParser):
    """Reads a page as a browser does: its tags, and what could run or load something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name.startswith("on") or name in {"style", "srcdoc", "formaction", "xlink:href", "http-equiv"}:
                self.faults.append(f"{tag} {name}={value}")
            if name in {"href", "src", "action"} and not (value or "").startswith(("/inspect", "#")):
                self.faults.append(f"{tag} {name}={value}")


def check_markup(page: str) -> None:
    reader = Reader()
    reader.feed(page[max(page.find("<main"), 0) :])  # the same stands above it everywhere
    assert reader.tags <= TAGS, reader.tags - TAGS
    assert reader.faults == []
    assert not re.search(
        "[\u202a-\u202e\u2066-\u2069\x00-\x08\x0e-\x1f]",
        re.sub(r'value="[^"]*"|<textarea.*?</textarea>', "", page, flags=re.S),
    )


async def fill(memory: ReMe, payload: str) -> dict[str, str]:
    """Keep a payload in every field that there is, and return the ids that it is shown by."""
    at_all = re.sub("[\x00-\x1f]", "", payload)  # an id has no control characters
    turn = {"role": "user", "content": payload, "name": payload, "metadata": {"k": payload}}
    said = await memory.summary([{**turn, "message_id": f"m {at_all}"}], user_id="ana", session_id=f"s {at_all}")
    [kept] = await memory.add_memories(
        [
            {
                "content": f"plain {payload}",
                "when_to_use": payload,
                "memory_target": payload,
                "metadata": {payload: payload},
                "author": payload[:100],
                "sources": [{"message_ids": list(said.message_ids)}],
                "relations": [(payload[:90], payload[:30], f"n {payload[:90]}")],
            }
        ],
        user_id="ana",
        run_id=f"r {at_all}",
        reason=payload,
    )
    await memory.supersede_memory(kept.memory_id, f"other {payload}", user_id="ana", reason=payload)
    now = memory.clock.now()
    job = Job(kind=payload[:60], payload={}, error=payload, raw=payload, created_at=now, due_at=now)
    await memory.store.add_jobs(make_scope("space", "ana"), [job])
    return {"memory": kept.memory_id, "message": f"m {at_all}", "session": f"s {at_all}", "run": f"r {at_all}"}


@pytest.mark.parametrize("part", range(6))
def test_stored_text_never_becomes_markup(browser_as: Callable[..., Browser], home: ReMe, part: int) -> None:
    browser = browser_as()
    some = PAYLOADS[part::6]
    kept = [(payload, browser.call(partial(fill, home, payload))) for payload in some]
    visits: list[tuple[str, dict[str, str]]] = [(page, {}) for page in PAGES]
    for payload, ids in kept:
        visits += [(page, {"id": name}) for page, name in ids.items()]
        visits += [("memory", {"id": payload}), ("memories", {"target": payload, "replaced": "1"}), (payload, {})]
        visits += [("search", {"q": payload, "why_not": payload, "budget": "90", "replaced": "1"})]
    for page, fields in visits:
        assert browser.get(f"/inspect/{quote(page)}", **fields) in {200, 404, 422}, (page, fields)
        check_markup(browser.page)
    for _, ids in kept:
        browser.get("/inspect/memory", id=ids["memory"])
        assert browser.send("/inspect/memory/forget") == 200  # which shows all of it as what would go
        check_markup(browser.page)


def test_there_are_sixty_payloads() -> None:
    assert len(set(PAYLOADS)) >= 60


def test_a_computed_template_is_not_computed(browser: Browser, home: ReMe) -> None:
    browser.call(partial(fill, home, "{{ 7919 * 104729 }} ${7919 * 104729}"))
    for page in PAGES:
        browser.get(f"/inspect/{page}")
        assert str(7919 * 104729) not in browser.page


async def talk(memory: ReMe) -> Memory:
    """Keep a talk and a memory of it."""
    turns = [
        {"role": "user", "name": "Ana", "content": "My sister Eva lives in Lisbon.", "message_id": "m0"},
        {"role": "assistant", "content": "Is she happy there?", "message_id": "m1"},
        {"role": "user", "name": "Ana", "content": "我妹妹住在里斯本。", "message_id": "m2"},
    ]
    await memory.summary(turns, user_id="ana", session_id="talk")
    await memory.add_memory("Ana has a dog.", user_id="ana", memory_target="dog")
    fields = {"content": "Eva lives in Lisbon.", "valid_from": "2020", "sources": [{"message_ids": ["m0"]}]}
    [kept] = await memory.add_memories([{**fields, "memory_target": "Eva"}], user_id="ana")
    return kept


def test_a_memory_shows_when_it_holds_and_quotes_what_it_rests_on(browser: Browser, home: ReMe) -> None:
    kept = browser.call(partial(talk, home))
    assert browser.get("/inspect/memory", id=kept.memory_id) == 200
    assert "since 2020" in browser.page
    assert "My sister <mark>Eva</mark> <mark>lives</mark> in <mark>Lisbon</mark>." in browser.page


def test_a_memory_that_was_joined_leads_to_the_one_that_says_it_now(browser: Browser, home: ReMe) -> None:
    async def joined() -> tuple[Memory, Memory]:
        stays, goes = [
            await home.add_memory(text, user_id="ana") for text in ("Ana has a dog, too", "Ana has a dog too")
        ]
        await home.evolve(user_id="ana", dry_run=False)
        return stays, goes

    stays, goes = browser.call(joined)
    assert browser.get("/inspect/memory", id=goes.memory_id) == 200
    assert re.search(rf'<dt>joined into</dt><dd><a href="[^"]*{stays.memory_id}', browser.page)
    assert "<dt>holds</dt><dd>no time was told</dd>" in browser.page


def test_a_session_shows_what_was_made_of_each_message(browser: Browser, home: ReMe) -> None:
    browser.call(partial(talk, home))
    browser.get("/inspect/sessions")
    assert "3 messages" in browser.page
    assert browser.get("/inspect/session", id="talk") == 200
    said, made = browser.page.index("My sister Eva lives"), browser.page.index("Eva lives in Lisbon.")
    assert said < made < browser.page.index("Is she happy there?")


def test_a_message_shows_what_was_made_of_it_with_a_later_one(browser: Browser, home: ReMe) -> None:
    async def told() -> None:
        turns = [
            {
                "role": "user",
                "content": f"turn {number}",
                "message_id": f"m{number}",
                "time_created": f"2024-05-01T10:0{number}",
            }
            for number in (1, 2)
        ]
        await home.summary(turns, user_id="ana", session_id="talk")
        fields = {
            "content": "Of both turns.",
            "observed_at": "2024-05-01T10:02",
            "sources": [{"message_ids": ["m1", "m2"]}],
        }
        await home.add_memories([fields], user_id="ana")

    browser.call(told)
    for name in ("m1", "m2"):
        browser.get("/inspect/message", id=name)
        assert "Of both turns." in browser.page


def test_many_and_long_fields_of_metadata_keep_a_page_small(browser: Browser, home: ReMe) -> None:
    fields = {f"{number}": "long " * 500 for number in range(200)}
    kept = browser.call(partial(home.add_memory, "Ana likes tea.", user_id="ana", metadata=fields))
    browser.get("/inspect/memory", id=kept.memory_id)
    assert "150 more fields" in browser.page
    assert len(browser.page) < 150_000


def test_long_chinese_texts_keep_pages_small(browser: Browser, home: ReMe) -> None:
    text = "我妹妹伊娃住在里斯本，她喜欢喝绿茶。" * 50
    turns = [{"role": "user", "content": f"{number} {text}", "message_id": f"m{number}"} for number in range(90)]
    browser.call(partial(home.summary, turns, user_id="ana", session_id="talk"))
    sources = [{"message_ids": [f"m{number}" for number in range(40)]}]
    drafts = [{"content": f"{n} {text}", "memory_target": f"t{n}", "sources": sources} for n in range(60)]
    first, *_ = browser.call(partial(home.add_memories, drafts, user_id="ana"))
    [event] = browser.call(partial(home.history, first.memory_id, user_id="ana"))
    pages = {"timeline": "", "session": "talk", "memories": "", "memory": first.memory_id, "run": str(event.run_id)}
    for page, name in pages.items():
        assert browser.get(f"/inspect/{page}", id=name) == 200
        assert len(browser.page.encode()) < 150_000, page


def test_the_timeline_is_filtered_and_shows_what_held(browser: Browser, home: ReMe) -> None:
    kept = browser.call(partial(talk, home))
    browser.get("/inspect/timeline")
    assert browser.page.count('class="mark full diamond"') == 2
    assert "我妹妹住在里斯本。" in browser.page
    browser.get("/inspect/timeline", as_of="2021-01-01T00:00")
    assert browser.page.count('class="mark hollow diamond"') == 1
    browser.get("/inspect/timeline", session="other")
    assert kept.memory_id not in browser.page
    browser.get("/inspect/timeline", type="procedural")
    assert "Nothing is kept here yet" in browser.page


def test_the_debugger_shows_parts_what_is_left_out_and_why_not(browser: Browser, home: ReMe) -> None:
    browser.call(partial(talk, home))
    browser.get("/inspect/search", q="Where does Eva live?", q2="里斯本", limit="1", why_not="m1")
    assert browser.page.count('class="asked-for"') == 2
    assert "answers question +0.500" in browser.page
    assert re.search("Why not <code>m1</code>", browser.page)
    browser.get("/inspect/search", q="Where does Eva live?", budget="20")
    assert re.search(r"\d+ of 20 tokens", browser.page)
    browser.get("/inspect/search", q="Eva", limit="none")
    assert "limit" in browser.page


def test_the_map_joins_names_that_are_related_and_leads_to_their_memories(browser: Browser, home: ReMe) -> None:
    drafts = [
        {"content": "Eva is Ana's sister.", "memory_target": "Eva", "relations": [("Eva", "sister of", "user")]},
        {"content": "Eva runs with Tom.", "memory_target": "eva", "relations": [("Eva", "runs with", "Tom")]},
        {"content": "Ana has a dog.", "memory_target": "dog"},
    ]
    [sister, *_] = browser.call(partial(home.add_memories, drafts, user_id="ana"))
    browser.get("/inspect/map")
    check_markup(browser.page)
    assert "<title>4 names, 2 pairs of them related</title>" in re.sub(' id="[^"]*"', "", browser.page)
    assert "<title>Eva: memories 2, related names 2</title>" in browser.page
    assert "↓ runs with" in browser.page
    arc = re.search(r'<a href="([^"]+)"><title>Eva sister of user</title>', browser.page)
    assert arc is not None
    assert arc[1].endswith(sister.memory_id)
    tom = re.search(r'<a href="([^"]+)"><title>Tom: memories 0', browser.page)
    assert tom is not None
    browser.get(unescape(tom[1]))
    assert "Eva runs with Tom." in browser.page
    browser.call(partial(home.delete_memory, sister.memory_id, user_id="ana"))
    browser.get("/inspect/map")
    assert "sister of" not in browser.page


def test_the_map_draws_the_best_connected_names_and_counts_the_others(browser: Browser, home: ReMe) -> None:
    drafts = [
        {"content": f"fact {n}", "memory_target": f"t{n}", "relations": [(f"t{n}", "knows", "Eva")] if n < 45 else ()}
        for n in range(60)
    ]
    browser.call(partial(home.add_memories, drafts, user_id="ana"))
    browser.get("/inspect/map")
    assert browser.page.count('class="dot"') == 40
    assert "21 names with fewer relations are not drawn" in browser.page
    assert "t59</a>" in browser.page
    assert "Eva: memories 0, related names 45" in browser.page


def test_growth_and_cost_are_drawn_by_day(browser: Browser, home: ReMe) -> None:
    turns = [("user", "tea"), {"role": "user", "content": "cake", "created_at": "2025-01-31T23:59:59.9Z"}]
    browser.call(partial(home.summary, turns[1:], user_id="ana", session_id="old"))
    browser.call(partial(home.add_memory, "Ana likes tea.", user_id="ana", observed_at="2025-02-03"))
    book, scope = CostBook(home.store, home.clock), make_scope("space", "ana")
    browser.call(partial(book.add, scope, "summary", Usage(model_calls=1, prompt_tokens=1200, completion_tokens=30)))
    browser.get("/inspect/users")
    assert "1 messages, 1 memories, from 2025-01-31 to 2025-02-03, each column a day" in browser.page
    assert "<title>2025-01-31: 1 messages</title>" in browser.page
    assert "<td>2025-02-03</td><td>0</td><td>1</td>" in browser.page
    assert "1,200 tokens asked, 30 tokens answered" in browser.page
    browser.call(partial(home.summary, turns[:1], user_id="ana", session_id="new"))
    browser.get("/inspect/users")
    assert re.search(r"2 messages, 1 memories, from 2025-01-31 to [-0-9]+, each column \d+ days", browser.page)


def test_a_run_tells_what_its_job_cost_with_the_tries_that_failed(browser: Browser, home: ReMe) -> None:
    browser.call(partial(home.add_memories, [{"content": "tea"}], user_id="ana", run_id="run"))
    book, scope = CostBook(home.store, home.clock), make_scope("space", "ana")
    for tokens, run in ((1000, "run"), (200, "run"), (7, "other")):
        usage = Usage(model_calls=1, prompt_tokens=tokens, completion_tokens=3)
        browser.call(partial(book.add, scope, "summary", usage, run_id=run))
    browser.get("/inspect/run", id="run")
    assert "2 model calls, 1,200 tokens asked and 6 answered" in browser.page
    now = home.clock.now()
    job = Job(kind="summary", run_id="other", state=JobState.DEAD, created_at=now, due_at=now)
    browser.call(partial(home.store.add_jobs, scope, [job]))
    browser.get("/inspect/jobs")
    assert "1 model call, 7 tokens asked and 3 answered" in browser.page


def test_a_search_says_what_is_still_being_loaded(
    browser: Browser, home: ReMe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "_CHUNK_ROWS", 1)
    browser.call(partial(talk, home))
    browser.get("/inspect/search", q="Lisbon & Porto")
    assert "only the newest 1 messages were searched: the older ones are still being loaded" in browser.page
    again = re.search(r'<a href="([^"]+)">Ask again</a>', browser.page)
    assert again is not None
    assert browser.get(unescape(again[1])) == 200
    assert "Lisbon &amp; Porto" in browser.page


def test_where_the_file_lies_is_not_told(browser: Browser, home: ReMe) -> None:
    class Broken:
        async def retrieve(self, scope: Scope, request: RetrieveRequest) -> RetrieveResult:
            msg = "can't read '/home/ana/.reme/memory.db'"
            raise CorruptDataError(msg)

    home.set_retriever(Broken())
    browser.get("/inspect/search", q="tea")
    assert "read the store" in browser.page
    assert "memory.db" not in browser.page


def test_what_is_not_there_is_404(browser: Browser, home: ReMe) -> None:
    kept = browser.call(partial(talk, home))
    theirs = browser.call(partial(home.add_memory, "Bob likes tea.", user_id="bob"))
    browser.call(partial(home.summary, [{"role": "user", "content": "tea", "message_id": "b0"}], user_id="bob"))
    run = browser.call(partial(home.history, theirs.memory_id, user_id="bob"))[0].run_id
    assert browser.get("/inspect/memory", id=kept.memory_id) == 200
    for page, name in (("memory", theirs.memory_id), ("message", "b0"), ("run", run), ("memory", "none"), ("x", "")):
        assert browser.get(f"/inspect/{page}", id=name) == 404
        assert "tea" not in browser.page
    browser.get("/inspect/search", q="tea", why_not=theirs.memory_id)
    assert "there is nothing of this id here" in browser.page
    assert "Bob likes" not in browser.page


def test_who_looks_after_the_space_sees_its_users_and_who_may_acts_as_them(
    browser_as: Callable[..., Browser], home: ReMe
) -> None:
    one = browser_as(rights=frozenset({Right.READ}))
    for user in ("ana", "bob"):
        one.call(partial(home.add_memory, f"{user} likes tea.", user_id=user))
    one.get("/inspect/users")
    assert "bob" not in one.page
    assert one.get("/inspect/memories", user="bob") == 403
    assert "bob likes" not in one.page
    every = browser_as(rights=frozenset(Right), of=one)
    every.get("/inspect/users")
    assert "/inspect/timeline?user=bob" in every.page
    assert every.get("/inspect/memories", user="bob") == 200
    assert "bob likes tea." in every.page
    assert "/inspect/runs?user=bob" in every.page


def test_lists_are_paged(browser: Browser, home: ReMe) -> None:
    drafts = [{"content": f"fact number {number}", "memory_target": f"t{number}"} for number in range(130)]
    browser.call(partial(home.add_memories, drafts, user_id="ana"))
    for page in ("memories", "runs"):
        seen: list[str] = []
        browser.get(f"/inspect/{page}")
        while True:
            seen += re.findall(r"fact number (\d+)", browser.page)
            more = re.search(r'rel="next" href="([^"]+)"', browser.page)
            if more is None:
                break
            browser.get(unescape(more.group(1)))
        assert page == "runs" or sorted(map(int, seen)) == list(range(130))
        assert seen


@pytest.mark.parametrize("value", ["-1", "9" * 30, "\x00", "é{}", "0001-01-01", "9999-12-31T23:59"])
def test_nonsense_in_an_address_is_no_failure_of_ours(browser: Browser, home: ReMe, value: str) -> None:
    browser.call(partial(talk, home))
    few = ("cursor", "id", "as_of", "type")
    asked = {
        "timeline": ("cursor", "until", "as_of", "type", "session", "user"),
        "search": ("as_of", "type", "session", "limit", "budget", "why_not"),
        "memories": ("cursor", "as_of", "type", "keyword", "target"),
        "map": ("as_of",),
        "preview": (),
    }
    for page in (*PAGES, "memory", "message", "session", "run"):
        given = {"q": "Lisbon", "id": "talk", "replaced": "1"}
        for name in asked.get(page, few):
            assert browser.get(f"/inspect/{page}", **{**given, name: value}) < 500, (page, name)
            check_markup(browser.page)


def test_what_is_no_number_is_told_as_it_was_given(browser: Browser) -> None:
    browser.get("/inspect/search?q=tea&limit=abc")
    assert "limit: wanted a whole number, found &#39;abc&#39;" in browser.page


def test_what_has_a_form_of_its_own_is_not_offered_to_be_rewritten(browser: Browser, home: ReMe) -> None:
    block = browser.call(partial(home.set_memory_block, "human", "Ana", user_id="ana"))
    browser.get(f"/inspect/memory?id={block.memory_id}")
    assert "Ana" in browser.page
    assert "/inspect/memory/edit" not in browser.page
