// Package lint tests rules that the compiler does not check: the permitted imports between
// packages, pure packages, the length of files and functions, package comments, wording, links and
// paths in documents, and seeds of random tests. docs/internals/architecture.md explains the
// layers. The package contains only tests.
package lint
