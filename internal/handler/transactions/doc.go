// Package transactions answers the Kafka requests of producers and transactions (KIP-98, KIP-890),
// also those that brokers send each other. It calls the transaction coordinator in
// internal/coordinator. There is one file for each API, named by its key.
package transactions
