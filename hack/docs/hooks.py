"""Hooks of mkdocs for the site of the documents (make docs)."""

import os
import re

import markdown

# GitHub nests lists by two spaces, Python-Markdown by default by four.
markdown.Markdown.tab_length = 2

DOORS = [("Use", "docs/use"), ("Operate", "docs/operate"), ("Internals", "docs/internals")]
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)")
LIST_WITHOUT_BLANK_LINE = re.compile(r"^(?![-*+|>\s#]|\d+\.|```|<)(.+)\n(?=(?:[-*+]|\d+\.) )", re.M)


def on_config(config):
    """Sets the navigation: the doors, and the pages that the README at the root links to."""
    root = config["docs_dir"]
    about = ["docs/compatibility.md", "docs/limits.md", "docs/roadmap.md", "docs/glossary.md",
             "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
    used = {"README.md", "docs/README.md", *about}
    nav = [{"Home": ["README.md", "docs/README.md"]}]
    nav += [{title: section(root, folder, used)} for title, folder in DOORS]
    nav[-1]["Internals"].append({"Decisions by number": "docs/adr/README.md"})
    used.add("docs/adr/README.md")
    nav.append({"About": about + sorted(set(pages(root)) - used)})
    config["nav"] = nav
    return config


def pages(root):
    """Returns the paths of all pages, relative to the root."""
    found = []
    for folder, _, files in os.walk(root):
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files if f.endswith(".md")]
    return found


def section(root, folder, used):
    """Returns the pages of a folder: its README, then those that it links to, then the others."""
    files = sorted(f for f in os.listdir(os.path.join(root, folder)) if f.endswith(".md"))
    order = []
    if "README.md" in files:
        order = ["README.md"]
        with open(os.path.join(root, folder, "README.md"), encoding="utf-8") as readme:
            order += [link for link in LINK.findall(readme.read()) if link in files]
    order += files
    items = []
    for file in dict.fromkeys(order):
        items.append(f"{folder}/{file}")
    used.update(items)
    for name in sorted(os.listdir(os.path.join(root, folder))):
        sub = f"{folder}/{name}"
        if os.path.isdir(os.path.join(root, sub)):
            inside = section(root, sub, used)
            if inside:
                items.append({title(root, sub) or name.capitalize(): inside})
    return items


def title(root, folder):
    """Returns the heading of the README of a folder, or an empty text without a README."""
    try:
        with open(os.path.join(root, folder, "README.md"), encoding="utf-8") as readme:
            return readme.readline().removeprefix("# ").strip()
    except FileNotFoundError:
        return ""


def on_page_markdown(markdown, page, config, files):
    """Adds the blank line that Python-Markdown needs between a paragraph and a list."""
    parts = re.split(r"(?ms)^(```.*?^```$)", markdown)
    for index in range(0, len(parts), 2):
        parts[index] = LIST_WITHOUT_BLANK_LINE.sub(r"\1\n\n", parts[index])
    return "".join(parts)
