package sasl

import (
	"errors"
	"strings"
	"time"
)

// TokenVerifier verifies a token and returns its bearer's identity. *tokens.Source implements it.
type TokenVerifier interface {
	Verify(now time.Time, token string) (Identity, error)
}

// bearer is the server's side of an OAUTHBEARER conversation (RFC 7628). If the token is invalid,
// the server sends invalidToken, and the conversation fails at the client's next message.
type bearer struct {
	verify   TokenVerifier
	failed   *Failure // set when the token was refused and the client was notified
	identity Identity
}

// invalidToken is the error that RFC 7628 defines for all faults of a token.
//
//nolint:gosec // an error code, no credential
const invalidToken = `{"status":"invalid_token"}`

// separator separates the fields of a message (kvsep).
const separator = "\x01"

func (b *bearer) Identity() Identity { return b.identity }

// Step implements Conversation.
func (b *bearer) Step(now time.Time, message []byte) (reply []byte, done bool, err error) {
	if b.failed != nil {
		if string(message) == separator { // the client acknowledges the error
			b.failed.Answer = invalidToken // Kafka sends the same text
		}
		return nil, false, b.failed
	}
	authzID, token, ok := parseBearer(string(message))
	if !ok {
		return nil, false, b.fail("malformed message")
	}
	identity, err := b.verify.Verify(now, token)
	if errors.Is(err, ErrNoKeys) {
		return nil, false, err
	}
	if err != nil {
		b.failed = b.fail(err.Error())
		return []byte(invalidToken), false, nil
	}
	if authzID != "" && authzID != identity.Name {
		return nil, false, b.fail("authorization id differs from the principal of the token")
	}
	b.identity = identity
	return []byte{}, true, nil
}

func (b *bearer) fail(reason string) *Failure {
	return &Failure{Mechanism: OAuthBearer, Reason: reason}
}

// parseBearer parses the client's message (RFC 7628, section 3.1):
//
//	n,a=<authorization id>,^Aauth=Bearer <token>^A<key>=<value>^A^A
//
// As in Kafka, other keys are SASL extensions (KIP-342) and must be letters; they are ignored.
func parseBearer(message string) (authzID, token string, ok bool) {
	header, rest, found := strings.Cut(message, separator)
	if !found || !strings.HasSuffix(rest, separator) {
		return "", "", false
	}
	if authzID, ok = parseHeader(header); !ok {
		return "", "", false
	}
	rest = strings.TrimSuffix(rest, separator)
	for rest != "" {
		pair, next, found := strings.Cut(rest, separator)
		key, value, equals := strings.Cut(pair, "=")
		if !found || !equals || !isKey(key) || !isValue(value) {
			return "", "", false
		}
		if key == "auth" {
			if token != "" {
				return "", "", false
			}
			if token, ok = parseScheme(value); !ok {
				return "", "", false
			}
		}
		rest = next
	}
	return authzID, token, token != ""
}

// parseHeader parses the GS2 header without channel binding: "n,," or "n,a=name,".
func parseHeader(header string) (authzID string, ok bool) {
	parts := strings.Split(header, ",")
	if len(parts) != 3 || parts[0] != "n" || parts[2] != "" {
		return "", false
	}
	if parts[1] == "" {
		return "", true
	}
	name, ok := strings.CutPrefix(parts[1], "a=")
	if !ok || name == "" {
		return "", false
	}
	decoded := strings.NewReplacer("=2C", ",", "=3D", "=").Replace(name)
	if strings.Count(name, "=2C")+strings.Count(name, "=3D") != strings.Count(name, "=") {
		return "", false
	}
	return decoded, true
}

// parseScheme returns the token in "Bearer <token>".
func parseScheme(value string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(value, " ")
	token = strings.TrimLeft(token, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", false
	}
	for _, c := range []byte(token) {
		if !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("-_.", rune(c)) {
			return "", false
		}
	}
	return token, true
}

func isKey(key string) bool {
	for i := range len(key) {
		if !isLetter(key[i]) {
			return false
		}
	}
	return key != ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; (c < 0x20 || c > 0x7e) && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
