"""Highlighting keeps the text of a source."""

from __future__ import annotations

import re

from cugen.html.highlight import highlighted


def test_a_block_comment_and_a_string_keep_their_text():
    lines = highlighted('int x; /* a <\n b */ if (x) f("a/*b"); // c\n#include <x>')
    assert [re.sub(r"<[^>]*>", "", line) for line in lines] == [
        "int x; /* a &lt;",
        " b */ if (x) f(&#34;a/*b&#34;); // c",
        "#include &lt;x&gt;",
    ]
    assert '<span class="c"> b */</span>' in lines[1]
    assert '<span class="k">if</span>' in lines[1]
