// Package groups answers the Kafka requests of consumer groups, with the classic and the consumer
// protocol (KIP-848), and FindCoordinator. It calls the group coordinator in internal/coordinator.
// There is one file for each API, named by its key.
package groups
