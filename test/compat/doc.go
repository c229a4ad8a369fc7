// Package compat tests that Kafka's clients work with the built binary without changes: kcat,
// librdkafka (Python's confluent-kafka), kafka-python, Java's clients and tools. `make compat` runs
// it; the build tag keeps it out of `make test`, because none of these clients is part of this
// repository. A client that is not installed is skipped, with the reason. franz-go, which is a
// dependency, does the same in test/smoke.
//
// The programs in testdata do the same list of steps each (see program_test.go) and print their
// observations as lines of JSON; the comparison is here, so that all have the same requirements.
// kcat and Java's tools are run by their own command lines.
//
// COMPAT_CLIENTS is a folder with client programs of others, which run without changes
// (smokes_test.go, franz_test.go). Steps that need unsupported features must fail, and are in the
// table with the reason.
//
// KAFKA_LIB is the folder with the jars of Kafka's clients and tools; default: .cache/kafka-lab/lib
// in the home folder.
package compat
