package sasl

import (
	"errors"
	"fmt"
	"time"
)

// The mechanism names that clients send.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Conversation is the server's side of one authentication. Step is called with each message from
// the client, until it reports done or fails.
type Conversation interface {
	// Step returns the reply to a message. If done is set, the client is authenticated as Identity. An
	// error ends the conversation. The error is a *Failure, or it wraps ErrNoKeys. In the latter case
	// the server could not decide, and the response must not call the credential invalid.
	Step(now time.Time, message []byte) (reply []byte, done bool, err error)
	// Identity returns the client's identity. It is authenticated only after Step has reported done.
	// Before that, Name is the name that the client has sent, or "".
	Identity() Identity
}

// Identity is the result of an authentication.
type Identity struct {
	Name string // name of the principal, without its type
	// Expires is the time at which the credential expires; the zero time: it does not expire.
	Expires time.Time
	// Credential identifies the verifier that matched the client's password (CredentialID). The
	// session must end when the user no longer has this verifier. It is "" for other mechanisms, and
	// must not be logged.
	Credential string
}

// Options configures conversations. It is immutable.
type Options struct {
	// Verifiers returns a user's SCRAM verifiers for a mechanism, or none if the user is unknown.
	Verifiers func(mechanism, user string) []Verifier
	// UnknownKey is the cluster's secret from which the salts of unknown users are derived.
	UnknownKey []byte
	// Tokens verifies tokens for mechanism OAUTHBEARER; nil: the mechanism is not offered.
	Tokens TokenVerifier
}

// New starts a conversation. The error wraps ErrMechanism if the mechanism is not supported.
func New(mechanism string, o *Options) (Conversation, error) {
	switch {
	case mechanism == ScramSHA256 || mechanism == ScramSHA512:
		return newScram(mechanism, o), nil
	case mechanism == OAuthBearer && o.Tokens != nil:
		return &bearer{verify: o.Tokens}, nil
	}
	return nil, fmt.Errorf("%w %q", ErrMechanism, mechanism)
}

// ErrMechanism is the error for a mechanism that is not supported.
var ErrMechanism = errors.New("unsupported SASL mechanism")

// Failure is the error for a failed authentication. The client may be sent only Answer or, if it is
// empty, the fixed text of ClientMessage.
type Failure struct {
	Mechanism string
	// User is the name that the client has sent, for the log. It can be any text.
	User string
	// Known is true if there is a user with this name. The client must not be able to find this out.
	Known bool
	// Reason is the reason for the failure, for the log.
	Reason string
	// Answer is a fixed text for the client, in place of ClientMessage; "": ClientMessage is sent.
	Answer string
	// Hint is a possible remedy for the owner of the client; "": none is known.
	Hint string
}

// Error returns the reason. It contains no text that the client has sent.
func (f *Failure) Error() string { return "authenticate by " + f.Mechanism + ": " + f.Reason }

// ClientMessage returns the text that clients receive for every failure of a mechanism. It is
// Kafka's text for a wrong password.
func ClientMessage(mechanism string) string {
	return "Authentication failed during authentication due to invalid credentials with SASL " +
		"mechanism " + mechanism
}
