"""Copies the documents, and the files to which they link, for mkdocs: pages.py ROOT TARGET."""

import os
import re
import shutil
import subprocess
import sys

LINK = re.compile(r"(\]\(|src=\"|srcset=\")([^)#\s\"]+)")
BEGIN = re.compile(r"^([A-Z]+\.md|(docs|examples)/.*|charts/heartwood/README\.md|findings/README\.md)$")


def main(root, target):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True).stdout.split("\n")
    tracked = {file for file in listed if file and os.path.exists(os.path.join(root, file))}
    todo = sorted(file for file in tracked if BEGIN.match(file))
    done = set(todo)
    shutil.rmtree(target, ignore_errors=True)
    while todo:
        file = todo.pop()
        path = os.path.join(target, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(os.path.join(root, file), path)
        if not file.endswith(".md"):
            continue
        with open(path, encoding="utf-8") as page:
            content = page.read()

        def link(found, file=file):
            linked = os.path.normpath(os.path.join(os.path.dirname(file), found[2]))
            if linked + "/README.md" in tracked:  # GitHub shows the README of a folder
                linked += "/README.md"
            elif linked not in tracked:
                return found[0]  # an external link, or a dead one, which mkdocs reports
            if linked not in done:
                done.add(linked)
                todo.append(linked)
            return found[1] + os.path.relpath(linked, os.path.dirname(file) or ".")

        with open(path, "w", encoding="utf-8") as page:
            page.write(LINK.sub(link, content))


if __name__ == "__main__":
    main(*sys.argv[1:])
