"""Tests of check.py: each fault is found."""

import os
import tempfile
import unittest

import check

GOOD = '<h1 id="top">A</h1><a href="b.html#x">b</a> <a href="https://example.com">out</a>' \
    '<link rel="next" href="b.html"><img src="p.png">'
INDEX = 'var __index = {"docs": [{"location": "a.html"}, {"location": "b.html#x"}]}'


class CheckTest(unittest.TestCase):
    def faults(self, page, index=INDEX, css=""):
        with tempfile.TemporaryDirectory() as site:
            os.mkdir(os.path.join(site, "search"))
            files = {"a.html": page, "b.html": '<a id="x"></a>', "p.png": "", "s.css": css}
            if index:
                files["search/search_index.js"] = index
            for name, text in files.items():
                with open(os.path.join(site, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return check.check(site)

    def test_good_site(self):
        self.assertEqual([], self.faults(GOOD))

    def test_faults(self):
        for page, want in {
            '<a href="c.html">c</a>': "the file does not exist",
            '<a href="b.html#y">b</a>': "the anchor does not exist",
            '<a href="#y">here</a>': "the anchor does not exist",
            '<script src="https://cdn.example.com/x.js"></script>': "loads https://cdn.example.com",
            '<link rel="stylesheet" href="//fonts.example.com/f.css">': "loads //fonts.example.com",
            '<img srcset="p.png 1x, http://example.com/p.png 2x">': "loads http://example.com/p.png",
            '<img src="q.png">': "q.png, which does not exist",
            "<style>@import 'https://example.com/a.css'</style>": "loads https://example.com/a.css",
            '<p style="background: url(https://example.com/b.png)">': "loads https://example.com/b.png",
            '<pre class="mermaid"></pre>': "has a diagram",
        }.items():
            faults = self.faults(page)
            self.assertEqual(1, len(faults), f"{page}: {faults}")
            self.assertIn(want, faults[0])

    def test_styles_and_index(self):
        self.assertIn("loads https://e.com/f.woff", self.faults(GOOD, css="a{b:url(https://e.com/f.woff)}")[0])
        self.assertIn("the search has no index", self.faults(GOOD, index="")[0])
        self.assertIn("does not find b.html", self.faults(GOOD, index=INDEX.replace("b.html", "c"))[0])


if __name__ == "__main__":
    unittest.main()
