"""Images in the inspector: shown where no browser runs them, saved where it might, and of nobody else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from reme_core import ReMe
from reme_core.schema.blobs import blob_reference
from tests.unit.serve.inspect.conftest import Browser

PNG = b"\x89PNG\r\n\x1a\nsmall"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>boom()</script></svg>"


def say(browser: Browser, home: ReMe, **part: object) -> None:
    message = {"message_id": "m1", "role": "user", "content": [{"type": "image", **part}]}
    browser.call(partial(home.summary, [message], user_id="ana", session_id="s"))


def test_an_image_is_shown_with_its_caption_and_served_to_be_shown(browser: Browser, home: ReMe) -> None:
    say(browser, home, data=PNG, media_type="image/png", caption='a "red" door')
    ref = blob_reference(PNG)
    address = f"/inspect/blob?ref={ref.replace(':', '%3A')}"
    for page, fields in (("session", {"id": "s"}), ("message", {"id": "m1"})):
        assert browser.get(f"/inspect/{page}", **fields) == 200
        assert f'<img src="{address}" alt="a &#34;red&#34; door" loading="lazy">' in browser.page
        assert "<figcaption" in browser.page
    answer = browser.client.get(address)
    assert (answer.status_code, answer.content) == (200, PNG)
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-disposition"].startswith("inline;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("media_type", ["image/svg+xml", "image/png", "text/html"])
def test_what_could_run_is_only_saved_whatever_it_is_called(browser: Browser, home: ReMe, media_type: str) -> None:
    say(browser, home, data=SVG, media_type=media_type)
    browser.get("/inspect/message", id="m1")
    assert ("<img" in browser.page) == (media_type == "image/png")  # which then shows nothing
    answer = browser.client.get("/inspect/blob", params={"ref": blob_reference(SVG)})
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_an_image_of_somebody_else_is_not_found(browser_as: Callable[..., Browser], home: ReMe) -> None:
    ana = browser_as()
    say(ana, home, data=PNG)
    bob = browser_as("bob", of=ana)
    assert ana.get("/inspect/blob", ref=blob_reference(PNG)) == 200
    assert bob.get("/inspect/blob", ref=blob_reference(PNG)) == 404
    assert ana.get("/inspect/blob", ref="../memory.db") == 404
