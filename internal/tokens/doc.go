// Package tokens verifies the tokens (JWT) of an issuer whose public keys are read over the
// network. A Source serves the SASL mechanism OAUTHBEARER and the HTTP port of brokers. Package
// sasl verifies the signatures and claims.
//
// A verification never waits for the network. It uses the keys that were read last, also while the
// issuer is unavailable. One goroutine, Source.Run, reads the keys: every hour, and earlier when a
// token has a key id that none of them has. Since everyone can send such tokens, the interval
// between these reads grows while they find no other keys (schedule).
package tokens
