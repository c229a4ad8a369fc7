// Package releases contains a file for each release, VERSION.yaml, and builds a release from its
// commit. `make release` writes the file of a version that is tagged; it is committed after the
// tag. Tests run the last release and the current version in turn (test/smoke, test/e2e).
package releases
