package sasl

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"

	"github.com/xdg-go/scram"
)

// Verifier verifies a password with one SCRAM mechanism (RFC 5802). It does not contain the
// password.
type Verifier struct {
	Iterations int
	Salt       []byte
	StoredKey  []byte
	ServerKey  []byte
	NotAfter   time.Time // end of the password's validity; zero: no end
}

const (
	// IterationsDefault is the number of iterations for passwords that Heartwood generates. Unknown
	// users appear to have the same number. It is also the default of kafka-configs.
	IterationsDefault = 4096
	// IterationsMin is the minimum number of iterations that an admin client may set (KIP-84).
	IterationsMin = 4096
	// IterationsMax is the maximum number of iterations that an admin client may set (KIP-554).
	IterationsMax = 16384
	// SaltBytes is the size of generated salts.
	SaltBytes = 24
)

// hashes maps each mechanism to its hash function.
var hashes = map[string]scram.HashGeneratorFcn{ScramSHA256: scram.SHA256, ScramSHA512: scram.SHA512}

// HashBytes returns the key size of a SCRAM mechanism in bytes, or 0 for any other mechanism.
func HashBytes(mechanism string) int {
	if h, ok := hashes[mechanism]; ok {
		return h().Size()
	}
	return 0
}

// NewVerifier derives a password's verifier. It uses the password without SASLprep, as the Java and
// librdkafka clients do.
func NewVerifier(mechanism, password string, salt []byte, iterations int) (Verifier, error) {
	hash, ok := hashes[mechanism]
	if !ok {
		return Verifier{}, &Failure{Mechanism: mechanism, Reason: "not a SCRAM mechanism"}
	}
	client, err := hash.NewClientUnprepped("", password, "")
	if err != nil {
		return Verifier{}, err
	}
	keys, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt),
		Iters: iterations})
	return Verifier{Iterations: iterations, Salt: salt, StoredKey: keys.StoredKey,
		ServerKey: keys.ServerKey}, err
}

// attemptsMax is the number of verifiers that one conversation tries: the present password's and a
// rotated password's. Each conversation tries this many, if necessary with fake verifiers, so that
// its duration does not reveal how many the user has.
const attemptsMax = 2

// scramServer is a conversation for a SCRAM mechanism. The library's conversation verifies only one
// password, but for some time a user can have two. So scramServer passes the messages to one
// library conversation per verifier. All of them send the same first reply, so the verifiers must
// have the same salt and iterations.
type scramServer struct {
	mechanism string
	options   *Options
	attempts  [attemptsMax]*scram.ServerConversation
	verifiers [attemptsMax]Verifier
	known     [attemptsMax]bool // false for a fake verifier
	first     bool              // true after the reply to the client's first message
	nonce     string            // the client's nonce
	reply     string            // the first reply
	identity  Identity
}

func newScram(mechanism string, o *Options) *scramServer {
	return &scramServer{mechanism: mechanism, options: o}
}

func (s *scramServer) Identity() Identity { return s.identity }

// Step implements Conversation. If a verifier is revoked between the two messages, the session ends
// later because of Identity.Credential.
func (s *scramServer) Step(now time.Time, message []byte) (reply []byte, done bool, err error) {
	if !s.first {
		s.first = true
		reply, err = s.begin(now, string(message))
		return reply, false, err
	}
	if s.attempts[0] == nil {
		return nil, false, s.fail("message after the end of the conversation", "")
	}
	reply, err = s.finish(string(message))
	s.attempts = [attemptsMax]*scram.ServerConversation{}
	return reply, err == nil, err
}

// begin replies to the client's first message.
func (s *scramServer) begin(now time.Time, message string) ([]byte, error) {
	server, err := hashes[s.mechanism].NewServer(func(user string) (scram.StoredCredentials, error) {
		s.identity.Name = user
		s.choose(now, user)
		return s.verifiers[0].stored(), nil
	})
	if err != nil {
		return nil, s.fail("create the conversation: "+err.Error(), "")
	}
	first := server.NewConversation()
	if s.reply, err = first.Step(message); err != nil {
		return nil, s.fail("malformed first message", "")
	}
	if id := first.AuthzID(); id != "" && id != first.Username() {
		return nil, s.fail("authorization id differs from the user name", "")
	}
	s.attempts[0], s.nonce = first, field(message, "r=")
	_, own, _ := strings.Cut(field(s.reply, "r="), s.nonce)
	for i := 1; i < attemptsMax; i++ {
		if err := s.repeat(i, own, message); err != nil {
			return nil, err
		}
	}
	return []byte(s.reply), nil
}

// repeat passes the first message to another conversation and makes it send the same nonce.
func (s *scramServer) repeat(i int, nonce, message string) error {
	server, err := hashes[s.mechanism].NewServer(func(string) (scram.StoredCredentials, error) {
		return s.verifiers[i].stored(), nil
	})
	if err != nil {
		return s.fail("create the conversation: "+err.Error(), "")
	}
	next := server.WithNonceGenerator(func() string { return nonce }).NewConversation()
	reply, err := next.Step(message)
	if err != nil || reply != s.reply {
		return s.fail("the verifiers of the user have different salts", "")
	}
	s.attempts[i] = next
	return nil
}

// choose sets the verifiers that the conversation will try.
func (s *scramServer) choose(now time.Time, user string) {
	fake := s.fakeVerifier(user)
	n := 0
	for _, v := range s.options.Verifiers(s.mechanism, user) {
		if n == attemptsMax || !v.valid(s.mechanism, now) ||
			n > 0 && !v.sameSalt(&s.verifiers[0]) {
			continue
		}
		s.verifiers[n], s.known[n] = v, true
		n++
	}
	for ; n < attemptsMax; n++ {
		s.verifiers[n] = fake
		if n > 0 {
			s.verifiers[n].Salt = s.verifiers[0].Salt
			s.verifiers[n].Iterations = s.verifiers[0].Iterations
		}
	}
}

// finish replies to the client's final message, which contains the proof of the password. It passes
// the message to every attempt, even after one has succeeded.
func (s *scramServer) finish(message string) (reply []byte, err error) {
	for i, attempt := range s.attempts {
		signature, stepErr := attempt.Step(message)
		if stepErr == nil && attempt.Valid() && s.known[i] && reply == nil {
			reply = []byte(signature)
			s.identity.Credential = CredentialID(&s.verifiers[i])
			s.identity.Expires = s.verifiers[i].NotAfter
		}
	}
	if reply != nil {
		return reply, nil
	}
	if s.doubledNonce(message) {
		return nil, s.fail("nonce of the client is repeated",
			"librdkafka below 2.6.1 sends this nonce (CVE-2024-56128): update the client")
	}
	if !s.known[0] {
		return nil, s.fail("unknown user", "")
	}
	return nil, s.fail("wrong password", "")
}

// doubledNonce reports whether the final message contains the client's nonce twice before the
// server's nonce. librdkafka below 2.6.1 sends such messages.
func (s *scramServer) doubledNonce(message string) bool {
	return s.nonce != "" && field(message, "r=") == s.nonce+field(s.reply, "r=")
}

// field returns the value of an attribute of a SCRAM message, or "".
func field(message, name string) string {
	for part := range strings.SplitSeq(message, ",") {
		if value, ok := strings.CutPrefix(part, name); ok {
			return value
		}
	}
	return ""
}

func (s *scramServer) fail(reason, hint string) error {
	return &Failure{Mechanism: s.mechanism, User: s.identity.Name, Known: s.known[0],
		Reason: reason, Hint: hint}
}

// fakeVerifier returns a verifier that no password matches. Like a known user's salt, its salt is
// always the same for the same name.
func (s *scramServer) fakeVerifier(user string) Verifier {
	mac := hmac.New(sha256.New, s.options.UnknownKey)
	derive := func(use string) []byte {
		mac.Reset()
		mac.Write([]byte(use + "\x00" + s.mechanism + "\x00" + user))
		return mac.Sum(nil)
	}
	key := make([]byte, HashBytes(s.mechanism))
	copy(key, derive("key"))
	return Verifier{Iterations: IterationsDefault, Salt: derive("salt")[:SaltBytes], StoredKey: key,
		ServerKey: key}
}

func (v *Verifier) stored() scram.StoredCredentials {
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(v.Salt), Iters: v.Iterations},
		StoredKey:  v.StoredKey, ServerKey: v.ServerKey,
	}
}

func (v *Verifier) valid(mechanism string, now time.Time) bool {
	return len(v.StoredKey) == HashBytes(mechanism) && len(v.ServerKey) == HashBytes(mechanism) &&
		len(v.Salt) > 0 && v.Iterations > 0 && (v.NotAfter.IsZero() || now.Before(v.NotAfter))
}

func (v *Verifier) sameSalt(other *Verifier) bool {
	return bytes.Equal(v.Salt, other.Salt) && v.Iterations == other.Iterations
}

// CredentialID returns a verifier's value for Identity.Credential. It must not be sent or logged,
// because it is derived only from keys.
func CredentialID(v *Verifier) string {
	sum := sha256.New()
	sum.Write(v.StoredKey)
	sum.Write(v.ServerKey)
	return base64.RawStdEncoding.EncodeToString(sum.Sum(nil))
}

// FromSaltedPassword derives the verifier from a salted password (RFC 5802, section 3), which an
// admin client sends instead of the password (KIP-554).
func FromSaltedPassword(mechanism string, salted, salt []byte, iterations int) Verifier {
	hash := hashes[mechanism]
	sign := func(text string) []byte {
		mac := hmac.New(hash, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := hash()
	stored.Write(sign("Client Key"))
	return Verifier{Iterations: iterations, Salt: salt, StoredKey: stored.Sum(nil),
		ServerKey: sign("Server Key")}
}
