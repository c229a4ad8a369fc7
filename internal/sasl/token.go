package sasl

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	// tokenBytesMax limits the size of a token. ServiceAccount tokens have about 1.5 KiB.
	tokenBytesMax = 16 << 10
	// tokenLeeway is the permitted difference between the clocks of the broker and the issuer (Kafka's
	// sasl.oauthbearer.clock.skew.seconds).
	tokenLeeway = 30 * time.Second
	// keysMax limits the number of keys per issuer.
	keysMax = 64
)

// tokenAlgorithms are the accepted signature algorithms. All of them use a public key. If HMAC were
// accepted, an attacker could sign tokens with the public key, which everybody knows.
var tokenAlgorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Errors that the caller of Verify distinguishes.
var (
	// ErrUnknownKey means that none of the known keys has the token's key id. The issuer may have new
	// keys.
	ErrUnknownKey = errors.New("no key of the issuer has the token's key id")
	ErrNoKeys     = errors.New("the keys of the issuer are not known yet")
)

// Issuer describes the tokens that are accepted from one issuer.
type Issuer struct {
	Issuer    string // claim iss; required
	Audience  string // required element of claim aud
	NameClaim string // claim that contains the principal's name; "": sub
}

// Keys contains an issuer's public keys (RFC 7517). It is immutable.
type Keys struct{ keys []jose.JSONWebKey }

// ParseKeys decodes a JWKS. It ignores keys that cannot verify a signature, such as symmetric keys
// and keys of unknown types. It fails if no usable key remains.
func ParseKeys(content []byte) (*Keys, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, fmt.Errorf("decode keys of the issuer: %w", err)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("decode keys of the issuer: %d keys, at most %d are accepted",
			len(set.Keys), keysMax)
	}
	keys := &Keys{}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() &&
			(key.Use == "" || key.Use == "sig") {
			keys.keys = append(keys.keys, key)
		}
	}
	if len(keys.keys) == 0 {
		return nil, errors.New("decode keys of the issuer: no public key for signatures")
	}
	return keys, nil
}

// find returns the key for a token. If the token has no key id, there must be only one key.
func (k *Keys) find(header jose.Header) (*jose.JSONWebKey, error) {
	if k == nil {
		return nil, ErrNoKeys
	}
	for i := range k.keys {
		key := &k.keys[i]
		named := header.KeyID != "" && key.KeyID == header.KeyID
		single := header.KeyID == "" && len(k.keys) == 1
		if (named || single) && (key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			return key, nil
		}
	}
	return nil, ErrUnknownKey
}

// Verify verifies a token's signature and its claims iss, aud, exp and nbf, and returns the token's
// identity. Errors contain no part of the token.
func (o *Issuer) Verify(now time.Time, keys *Keys, token string) (Identity, error) {
	if len(token) > tokenBytesMax {
		return Identity{}, fmt.Errorf("token has %d bytes, at most %d are accepted", len(token),
			tokenBytesMax)
	}
	parsed, err := jwt.ParseSigned(token, tokenAlgorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return Identity{}, errors.New("not a JWT that is signed by an accepted algorithm")
	}
	key, err := keys.find(parsed.Headers[0])
	if err != nil {
		return Identity{}, err
	}
	var claims jwt.Claims
	names := map[string]any{}
	if err := parsed.Claims(key.Key, &claims, &names); err != nil {
		return Identity{}, errors.New("signature of the token is invalid")
	}
	if err := o.check(now, &claims); err != nil {
		return Identity{}, err
	}
	name, _ := names[o.claim()].(string)
	if name == "" {
		return Identity{}, fmt.Errorf("token has no claim %q with a text", o.claim())
	}
	return Identity{Name: name, Expires: claims.Expiry.Time().Add(tokenLeeway)}, nil
}

func (o *Issuer) claim() string {
	if o.NameClaim == "" {
		return "sub"
	}
	return o.NameClaim
}

// check checks the claims. It compares issuer and audience itself, because the library skips an
// empty expected value.
func (o *Issuer) check(now time.Time, claims *jwt.Claims) error {
	switch {
	case o.Issuer == "" || claims.Issuer != o.Issuer:
		return errors.New("token is of another issuer")
	case o.Audience == "" || !claims.Audience.Contains(o.Audience):
		return errors.New("token is for another audience")
	case claims.Expiry == nil:
		return errors.New("token does not expire")
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{Time: now}, tokenLeeway); err != nil {
		return fmt.Errorf("token is not valid now: %w", err)
	}
	return nil
}
