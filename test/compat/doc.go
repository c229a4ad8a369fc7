// Package compat tests that Kafka's clients work with the built binary without changes: kcat,
// librdkafka (Python's confluent-kafka), kafka-python, aiokafka, kafkajs, sarama,
// segmentio/kafka-go, rust-rdkafka, Java's clients and tools, and programs that are built on these
// clients: Kafka Connect, MirrorMaker 2, Kafka Streams, Quix Streams and Faust. `make compat` runs
// it; the build tag keeps it out of `make test`, because none of these programs is part of this
// repository. If a client is not installed, its test is skipped with the reason. test/smoke
// contains the same checks for franz-go, which is a dependency of this repository.
//
// Each program in testdata executes the same list of steps (see program_test.go) and prints its
// observations as lines of JSON. This package compares the observations with the expected ones, so
// the requirements are the same for all clients. kcat and Java's tools need no program: the tests
// run their command lines.
//
// The clients come from their package managers: `pip install confluent-kafka aiokafka cramjam
// "kafka-python[lz4,snappy,zstd]"` for the python3 in PATH (cramjam contains codecs of aiokafka),
// `npm install kafkajs`, and the package kcat of the operating system. sarama and
// segmentio/kafka-go are dependencies of the module testdata/goclients, which the tests build with
// `go build`; rust-rdkafka is a dependency of the package testdata/rustclient, which they build
// with `cargo build` (this compiles librdkafka, which needs a C compiler and make).
//
// Kafka Connect, MirrorMaker 2 and Kafka Streams come from Maven Central (`mvn`,
// testdata/javaprograms/pom.xml); Quix Streams and Faust by `pip install quixstreams
// faust-streaming`. They copy and process records until they are stopped, and continue after a
// restart (service_test.go). STREAMS_PYTHON is the Python interpreter with the packages of Quix
// Streams and Faust, if this is not python3. It is separate because Quix Streams requires an older
// confluent-kafka. With COMPAT_ON_KAFKA=1, the tests of these five programs use Apache Kafka
// brokers from KAFKA_LIB instead, to compare the outcome.
//
// Transactional programs run on three broker processes, one of which is killed every few seconds
// (exactly_once_test.go, transaction_programs_test.go): Kafka's TransactionalMessageCopier, the
// smoke test of Kafka Streams with exactly_once_v2, librdkafka, kafka-python and franz-go.
//
// COMPAT_CLIENTS is a folder with client programs of other projects (smokes_test.go,
// franz_test.go). They run without changes. Steps that need unsupported features must fail; the
// table in docs/compatibility.md lists these steps with the reason.
//
// Apache Kafka verifies tokens with jose4j (oauth_test.go). The jar of jose4j must be in KAFKA_LIB.
//
// NODE_PATH is the folder with the module kafkajs.
//
// KAFKA_LIB is the folder with the jars of Kafka's clients and tools; default: .cache/kafka-lab/lib
// in the home folder.
package compat
