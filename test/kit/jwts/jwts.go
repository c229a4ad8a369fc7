// Package jwts issues tokens for tests.
package jwts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer issues tokens with one key.
type Issuer struct {
	t    testing.TB
	Name string // claim iss
	Key  *ecdsa.PrivateKey
	ID   string // key id
}

// New returns an issuer with a new key.
func New(t testing.TB, name, keyID string) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &Issuer{t: t, Name: name, Key: key, ID: keyID}
}

// JWKS returns the issuers' public keys.
func JWKS(t testing.TB, issuers ...*Issuer) []byte {
	t.Helper()
	set := jose.JSONWebKeySet{}
	for _, issuer := range issuers {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &issuer.Key.PublicKey, KeyID: issuer.ID,
			Use: "sig", Algorithm: "ES256"})
	}
	content, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Token returns a token with the claims iss, sub, aud and exp. The claims in others replace claims
// of the same name; a nil value removes the claim.
func (i *Issuer) Token(subject, audience string, expires time.Time,
	others map[string]any) string {
	i.t.Helper()
	claims := map[string]any{"iss": i.Name, "sub": subject, "aud": audience,
		"exp": expires.Unix()}
	for name, value := range others {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return Sign(i.t, jose.ES256, i.Key, i.ID, claims)
}

// Sign returns a token with any algorithm and key.
func Sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, keyID string,
	claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm,
		Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
