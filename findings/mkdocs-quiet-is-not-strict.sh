#!/usr/bin/env bash
# mkdocs build --strict ends with an error if there was a warning, such as a link to a page that does
# not exist. --quiet suppresses messages. One would guess that it changes the output only. It also
# makes --strict pass: strict mode counts the warnings that are printed, and --quiet raises the level
# from which messages are printed to errors. A gate that wants a short log then accepts broken links.
#
# Versions: mkdocs 1.6.1
# Source: the command's help, which describes --quiet as silencing warnings; behaviour seen
# Product: hack/docs.sh, which make docs runs, builds without --quiet.
. "$(dirname "$0")/lib.bash"

python_packages mkdocs==1.6.1
mkdir -p "$work/docs"
echo '[missing](missing.md)' > "$work/docs/index.md"
echo 'site_name: finding' > "$work/mkdocs.yml"

# build FLAG... prints the exit code of a build.
build() {
  local code=0
  (cd "$work" && "$python" -m mkdocs build --clean "$@") > "$work/build.log" 2>&1 || code=$?
  echo "$code"
}
same "build" "$(build)" 0
same "build --strict" "$(build --strict)" 1
same "build --strict --quiet" "$(build --strict --quiet)" 0
