"""The watch over pages in a browser observes what pages say and fetch."""

import pytest
from browser import Pages

SILENT = "<!doctype html><link rel=icon href='data:,'><title>t</title>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", []),
        ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", []),
        ("<script>console.log('hello')</script>", ["console: hello"]),
        ("<script>throw new Error('no')</script>", ["error: no"]),
        ("<img src='beside.png'>", ["request: ", "console: Failed to load"]),
    ],
)
def test_a_page_that_speaks_or_fetches_is_caught(browser, tmp_path, body, said):
    file = tmp_path / "page.html"
    file.write_text(SILENT + body)
    pages = Pages(browser)
    pages(file).wait_for_timeout(50)
    assert len(pages.complaints) == len(said)
    assert all(text.startswith(start) for text, start in zip(pages.complaints, said, strict=True)), pages.complaints
    if said:
        with pytest.raises(AssertionError):
            pages.close()
    else:
        pages.close()
