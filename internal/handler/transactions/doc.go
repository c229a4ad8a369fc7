// Package transactions handles the Kafka requests for producers and transactions (KIP-98, KIP-890),
// including requests between brokers. It calls the transaction coordinator in internal/coordinator.
// There is one file for each API, whose name contains the API key.
package transactions
