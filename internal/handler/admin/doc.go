// Package admin answers the Kafka requests that describe and change the cluster: Metadata, topics,
// partitions, settings, reassignments, elections, ACLs, quotas and SCRAM credentials. It calls
// internal/metadata. There is one file for each API, named by its key.
package admin
