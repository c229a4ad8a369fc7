"""Checks a built site: check.py SITE.

Links and their anchors must exist, no page may load anything from another host, and the search
index must contain every page. Links that a reader clicks may lead to other hosts.
"""

import html.parser
import json
import os
import re
import sys
import urllib.parse

# Attributes that make a browser load something, by element. A link is loaded by its relation.
LOADS = {("script", "src"), ("img", "src"), ("img", "srcset"), ("iframe", "src"), ("source", "src"),
         ("source", "srcset"), ("video", "src"), ("object", "data"), ("embed", "src"), ("link", "href")}
NOT_LOADED = {"prev", "next", "canonical", "author", "license", "edit"}
EXTERNAL = re.compile(r"^(?:[a-z]+:)?//", re.I)
CSS_LOAD = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.I)


class Page(html.parser.HTMLParser):
    """The ids, links and loaded URLs of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.styles, self.classes = set(), [], [], [], set()
        self.in_style = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.in_style = tag == "style"
        self.classes.update((values.get("class") or "").split())
        for name in ("id", "name"):
            if values.get(name) and (name == "id" or tag == "a"):
                self.ids.add(values[name])
        if values.get("style"):
            self.styles.append(values["style"])
        for name, value in attrs:
            if (tag, name) in LOADS and not (tag == "link" and values.get("rel") in NOT_LOADED):
                self.loads += [part.split()[0] for part in value.split(",") if part.strip()] \
                    if name == "srcset" else [value]
            elif tag == "a" and name == "href":
                self.links.append(value)

    def handle_data(self, data):
        if self.in_style:
            self.styles.append(data)

    def handle_endtag(self, tag):
        self.in_style = self.in_style and tag != "style"


def check(site):
    """Returns the faults of the site."""
    faults, pages, files = [], {}, set()
    for folder, _, names in os.walk(site):
        for name in names:
            file = os.path.relpath(os.path.join(folder, name), site)
            files.add(file)
            if name.endswith((".html", ".css")):
                with open(os.path.join(site, file), encoding="utf-8") as content:
                    text = content.read()
                if name.endswith(".html"):
                    pages[file] = Page(text)
                else:
                    faults += [f"{file} loads {url}" for url in CSS_LOAD.findall(text)]
    for file, page in pages.items():
        faults += check_loads(file, page, files)
        if file != "404.html":  # its links are absolute, because it is shown at any URL
            faults += [f"{file} links to {url}: {why}" for url in page.links
                       if (why := dead(file, url, pages, files))]
    return faults + check_index(site, pages)


def check_loads(file, page, files):
    """Returns what a page loads from another host, and what it loads that does not exist."""
    faults = [f"{file} loads {url}" for style in page.styles for url in CSS_LOAD.findall(style)]
    if "mermaid" in page.classes:
        faults.append(f"{file} has a diagram, whose script is loaded from another host")
    for url in page.loads:
        if EXTERNAL.match(url):
            faults.append(f"{file} loads {url}")
        elif file != "404.html" and not url.startswith("data:") and target(file, url) not in files:
            faults.append(f"{file} loads {url}, which does not exist")
    return faults


def target(file, url):
    """Returns the file to which a relative URL leads."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    return os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file


def dead(file, url, pages, files):
    """Returns why a link is dead, or an empty text."""
    if EXTERNAL.match(url) or urllib.parse.urlsplit(url).scheme:
        return ""
    to = target(file, url)
    if to == ".":
        to = "index.html"
    if to not in files:
        return "the file does not exist"
    fragment = urllib.parse.unquote(urllib.parse.urlsplit(url).fragment)
    if fragment and to in pages and fragment not in pages[to].ids:
        return "the anchor does not exist"
    return ""


def check_index(site, pages):
    """Returns the pages that the index of the offline search lacks."""
    try:
        with open(os.path.join(site, "search/search_index.js"), encoding="utf-8") as content:
            docs = json.loads(content.read().removeprefix("var __index = "))["docs"]
    except (OSError, ValueError, KeyError) as cause:
        return [f"the search has no index: {cause!r}"]
    found = {doc["location"].split("#")[0] for doc in docs}
    return [f"the search does not find {page}" for page in pages
            if page != "404.html" and page not in found]


if __name__ == "__main__":
    problems = check(sys.argv[1])
    print("\n".join(problems), file=sys.stderr)
    sys.exit(1 if problems else 0)
