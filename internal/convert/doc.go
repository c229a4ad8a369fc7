// Package convert converts manifests of Strimzi, an operator for Apache Kafka, to Heartwood's.
//
//	Kafka, KafkaNodePool   LogCluster
//	KafkaTopic             Topic
//	KafkaUser              LogUser
//
// It reads kafka.strimzi.io/v1 and v1beta2, which have the same fields for what is converted. Every
// result passes the validation of the API server (package manifest).
//
// No field is dropped silently: source.go records which fields were read, and each field that was
// not read becomes a Remark. A field that needs no counterpart, such as the pool of KRaft
// controllers, also becomes a Remark, but not a loss.
//
// Kafka's configs are converted by the code that serves Kafka's admin clients (package metadata),
// so both accept the same names and values. Configs that equal Heartwood's default are omitted.
//
// All code is pure.
package convert
