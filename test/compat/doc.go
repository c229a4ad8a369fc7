// Package compat is the proof that Kafka's clients work with the built binary as they are: kcat,
// librdkafka (Python's confluent-kafka), kafka-python, Java's clients and tools. `make compat` runs
// it; the build tag keeps it out of `make test`, since none of these clients is part of this
// repository. One that the machine has not got is skipped, with the reason. franz-go, which is,
// does the same in test/smoke.
//
// The programs in testdata do one list of things each (program_test.go says which) and print what
// they saw, as lines of JSON; the comparison is here, so that all are held to the same. kcat and
// Java's tools are run by their own command lines.
//
// COMPAT_CLIENTS is a folder with clients' programs that others wrote, which run as they are
// (smokes_test.go, franz_test.go); steps of theirs that ask for what is not served have to fail,
// and stand in the table with the reason.
//
// KAFKA_LIB is the folder with the jars of Kafka's clients and tools; without it,
// .cache/kafka-lab/lib in the home folder.
package compat
