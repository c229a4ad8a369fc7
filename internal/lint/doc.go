// Package lint tests rules that no compiler checks: which packages may import which, which packages
// are pure, the length of files and functions, package comments, links and paths in documents, and
// the seeds of random tests. docs/architecture.md explains the layers. The package has only tests.
package lint
