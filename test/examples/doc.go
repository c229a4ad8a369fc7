// Package examples runs the examples as users run them: by the one command run.sh of each folder of
// examples/. Each run.sh restarts its broker, kills it with SIGKILL, cleans its topics, and fails
// if the state of the example differs afterwards. The tests then start another broker on the data
// that the example has left, read the topics with franz-go, and compare them with what the example
// must have written. `make examples` runs the tests; the build tag keeps them out of `make test`,
// because the examples need Java, Maven, Python and PostgreSQL, and download packages. A test is
// skipped if one of these is missing.
package examples
