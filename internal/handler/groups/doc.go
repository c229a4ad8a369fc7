// Package groups handles the Kafka requests for consumer groups, with the classic and the consumer
// protocol (KIP-848), and FindCoordinator. It calls the group coordinator in internal/coordinator.
// There is one file for each API, whose name contains the API key.
package groups
