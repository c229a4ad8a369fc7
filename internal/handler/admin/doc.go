// Package admin handles the Kafka requests that describe and change the cluster: Metadata, topics,
// partitions, settings, reassignments, elections, ACLs, quotas and SCRAM credentials. It calls
// internal/metadata. There is one file for each API, whose name contains the API key.
package admin
