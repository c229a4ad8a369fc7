// Package kafka is the Kafka client of kubectl heartwood: it reads and writes records, and shows
// and resets consumer groups. Its types are the JSON output of the commands. Connections are those
// of internal/kafkaclient.
package kafka
