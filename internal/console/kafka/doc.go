// Package kafka reads messages, consumer groups, settings, users and disks for the console over the
// Kafka protocol. It also makes the changes that users request on the console. The authorization of
// the cluster's listeners applies to every request.
//
//   - client.go: the connection.
//   - browse.go: reads records of a topic within a budget. tail.go: follows the end of a topic.
//     plan.go: which offsets to read next; it is pure.
//   - groups.go: consumer groups and their lag. waits.go: the groups' lag in time. settings.go:
//     settings of a topic, disks of brokers. users.go: users with passwords, ACLs.
//   - produce.go: appends a record. reset.go: moves and deletes the offsets of groups.
//
// A Client starts no goroutines itself; Close ends the goroutines of franz-go.
package kafka
