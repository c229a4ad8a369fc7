// Package kafka is the Kafka client of kubectl heartwood. It reads and writes records, and shows
// and resets consumer groups. Its types are the JSON output of the commands. It connects with
// package internal/kafkaclient.
package kafka
