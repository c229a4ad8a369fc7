package sasl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"heartwood.dev/heartwood/test/kit/jwts"
)

var (
	rsaKey, _ = rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _  = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	issuer    = Issuer{Issuer: "https://issuer", Audience: "heartwood/ns/demo"}
)

func jwks(t testing.TB) *Keys {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: &rsaKey.PublicKey, KeyID: "rsa", Use: "sig"},
		{Key: &ecKey.PublicKey, KeyID: "ec", Algorithm: "ES256"},
		{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "oct"},
	}}
	content, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys(content)
	if err != nil {
		t.Fatal(err)
	}
	if len(keys.keys) != 2 {
		t.Fatalf("%d keys are used, want the 2 public ones", len(keys.keys))
	}
	return keys
}

func claims() map[string]any {
	return map[string]any{"iss": "https://issuer", "aud": []string{"heartwood/ns/demo", "x"},
		"sub": "alice", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "team": "red"}
}

func TestTokenOfTheIssuerIsAccepted(t *testing.T) {
	keys := jwks(t)
	for _, token := range []string{jwts.Sign(t, jose.RS256, rsaKey, "rsa", claims()),
		jwts.Sign(t, jose.PS512, rsaKey, "rsa", claims()), jwts.Sign(t, jose.ES256, ecKey, "ec", claims())} {
		got, err := issuer.Verify(now, keys, token)
		if err != nil || got.Name != "alice" ||
			!got.Expires.Equal(now.Add(time.Hour+tokenLeeway)) {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	named := issuer
	named.NameClaim = "team"
	if got, err := named.Verify(now, keys,
		jwts.Sign(t, jose.RS256, rsaKey, "rsa", claims())); err != nil || got.Name != "red" {
		t.Errorf("name claim: got %+v, %v", got, err)
	}
}

// unsigned returns a token with the given header and an empty signature.
func unsigned(header string) string {
	body, _ := json.Marshal(claims())
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(header)) + "." + encode(body) + "."
}

// Trap 9: tokens with alg none, with HS256 and the public key, and with wrong or missing iss, aud
// and exp (CVE-2026-33557) must be refused.
func TestTrap9ForgedTokensAreRefused(t *testing.T) {
	keys := jwks(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	pem := []byte("-----BEGIN PUBLIC KEY-----\n" +
		base64.StdEncoding.EncodeToString(rsaKey.N.Bytes()) + "\n-----END PUBLIC KEY-----\n")
	with := func(key string, value any) string {
		c := claims()
		if c[key] = value; value == nil {
			delete(c, key)
		}
		return jwts.Sign(t, jose.RS256, rsaKey, "rsa", c)
	}
	for name, token := range map[string]string{
		"none":              unsigned(`{"alg":"none"}`),
		"none with key":     unsigned(`{"alg":"none","kid":"rsa"}`),
		"HS256 public key":  jwts.Sign(t, jose.HS256, pem, "rsa", claims()),
		"HS256 listed key":  jwts.Sign(t, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), "oct", claims()),
		"key of the header": jwts.Sign(t, jose.RS256, other, "rsa", claims()),
		"wrong algorithm":   jwts.Sign(t, jose.ES256, ecKey, "rsa", claims()),
		"issuer":            with("iss", "https://other"),
		"no issuer":         with("iss", nil),
		"audience":          with("aud", "other"),
		"no audience":       with("aud", nil),
		"expired":           with("exp", now.Add(-time.Minute).Unix()),
		"no expiry":         with("exp", nil),
		"not yet":           with("nbf", now.Add(time.Minute).Unix()),
		"no subject":        with("sub", nil),
		"empty subject":     with("sub", ""),
		"subject no text":   with("sub", 7),
		"too large":         with("pad", strings.Repeat("x", tokenBytesMax)),
		"empty":             "",
		"dots":              "..",
	} {
		if got, err := issuer.Verify(now, keys, token); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		} else if token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%s: the error contains the token", name)
		}
	}
	empty := Issuer{}
	if _, err := empty.Verify(now, keys, with("aud", nil)); err == nil {
		t.Error("an issuer without a name and audience accepts tokens")
	}
}

// Trap 9: a token's header contains a key or the URL of a key. Only the issuer's keys may verify
// signatures, and no URL may be requested.
func TestTrap9KeysInTheHeaderAreIgnored(t *testing.T) {
	keys := jwks(t)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	requested := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requested <- r.URL.Path
	}))
	defer server.Close()
	for _, kid := range []string{"ec", "rsa", "own"} {
		for header, value := range map[jose.HeaderKey]any{"": nil, "jku": server.URL + "/jku",
			"x5u": server.URL + "/x5u"} {
			options := &jose.SignerOptions{EmbedJWK: header == ""}
			if header != "" {
				options = options.WithHeader(header, value)
			}
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
				Key: jose.JSONWebKey{Key: other, KeyID: kid}}, options)
			if err != nil {
				t.Fatal(err)
			}
			token, err := jwt.Signed(signer).Claims(claims()).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := issuer.Verify(now, keys, token); err == nil {
				t.Errorf("key id %s, header %q: accepted as %+v", kid, header, got)
			}
		}
	}
	if len(requested) > 0 {
		t.Errorf("a URL of a token was requested: %s", <-requested)
	}
}

func TestUnknownKeyIsReported(t *testing.T) {
	token := jwts.Sign(t, jose.RS256, rsaKey, "new", claims())
	if _, err := issuer.Verify(now, jwks(t), token); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("unknown key id: %v", err)
	}
	if _, err := issuer.Verify(now, nil, token); !errors.Is(err, ErrNoKeys) {
		t.Errorf("no keys: %v", err)
	}
	if _, err := issuer.Verify(now, jwks(t), jwts.Sign(t, jose.RS256, rsaKey, "",
		claims())); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("no key id, two keys: %v", err)
	}
}

type fixedTokens struct{}

func (fixedTokens) Verify(_ time.Time, token string) (Identity, error) {
	if token == "good" {
		return Identity{Name: "alice"}, nil
	}
	return Identity{}, errors.New("bad token")
}

func TestBearerMessages(t *testing.T) {
	for message, want := range map[string]string{
		"n,,\x01auth=Bearer good\x01\x01":                  "",
		"n,a=alice,\x01auth=bearer good\x01key=v\x01\x01":  "",
		"n,a=bob,\x01auth=Bearer good\x01\x01":             "authorization id differs from the principal of the token",
		"n,,\x01auth=Bearer bad\x01\x01":                   "invalid_token",
		"n,,\x01auth=Basic good\x01\x01":                   "malformed message",
		"n,,\x01auth=Bearer good\x01":                      "malformed message",
		"n,,\x01auth=Bearer \x01\x01":                      "malformed message",
		"n,,\x01\x01":                                      "malformed message",
		"y,,\x01auth=Bearer good\x01\x01":                  "malformed message",
		"n,a=b=2X,\x01auth=Bearer good\x01\x01":            "malformed message",
		"n,,\x01auth=Bearer good\x01k1=v\x01\x01":          "malformed message",
		"n,,\x01auth=Bearer a\x01auth=Bearer good\x01\x01": "malformed message",
		"": "malformed message",
	} {
		s, _ := New(OAuthBearer, &Options{Tokens: fixedTokens{}})
		reply, done, err := s.Step(now, []byte(message))
		switch want {
		case "":
			if !done || err != nil || s.Identity().Name != "alice" {
				t.Errorf("%q: %t, %v", message, done, err)
			}
		case "invalid_token":
			if done || err != nil || string(reply) != invalidToken {
				t.Errorf("%q: %q, %t, %v", message, reply, done, err)
			}
			_, done, err := s.Step(now, []byte("\x01"))
			if done || reason(err) != "bad token" {
				t.Errorf("%q: after the error: %t, %v", message, done, err)
			}
			var f *Failure
			if !errors.As(err, &f) || f.Answer != invalidToken {
				t.Errorf("%q: the answer is %+v", message, f)
			}
		default:
			if reason(err) != want || done {
				t.Errorf("%q: %v, want %s", message, err, want)
			}
		}
	}
}

func FuzzBearer(f *testing.F) {
	f.Add([]byte("n,a=alice,\x01auth=Bearer good\x01key=v\x01\x01"))
	f.Add([]byte("n,,\x01auth=Bearer\x01\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		s, _ := New(OAuthBearer, &Options{Tokens: fixedTokens{}})
		if _, done, _ := s.Step(now, message); done && s.Identity().Name != "alice" {
			t.Fatalf("%q authenticated as %+v", message, s.Identity())
		}
	})
}

func FuzzToken(f *testing.F) {
	keys := jwks(f)
	f.Add(jwts.Sign(f, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), "oct", claims()))
	f.Add(unsigned(`{"alg":"none"}`))
	f.Add(unsigned(`{"alg":"RS256","jku":"http://evil","kid":"rsa"}`))
	f.Fuzz(func(t *testing.T, token string) {
		if got, err := issuer.Verify(now, keys, token); err == nil {
			t.Fatalf("forged token %q is accepted as %+v", token, got)
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
	f.Fuzz(func(_ *testing.T, content []byte) {
		if keys, err := ParseKeys(content); err == nil && len(keys.keys) == 0 {
			panic("no keys and no error")
		}
	})
}
