// Package tokens verifies tokens (JWT) with the issuer's public keys, which it reads over the
// network. The SASL mechanism OAUTHBEARER and the brokers' HTTP port use a Source. Package sasl
// verifies the signatures and claims.
//
// A verification never waits for the network. It uses the last keys that were read, even while the
// issuer is unavailable. One goroutine, Source.Run, reads the keys every hour, and earlier when a
// token has an unknown key id. Everyone can send such tokens, so the interval between the
// additional reads grows while they find no new keys (schedule).
package tokens
