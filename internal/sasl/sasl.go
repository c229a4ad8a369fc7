package sasl

import (
	"errors"
	"fmt"
	"time"
)

// The mechanisms, by the names that clients send.
const (
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
	OAuthBearer = "OAUTHBEARER"
)

// Conversation is the server side of one authentication. Step is called with each message of the
// client, until it reports done or fails.
type Conversation interface {
	// Step returns the reply to a message. If done is set, the client is authenticated as Identity.
	// An error ends the conversation. It is a *Failure, or wraps ErrNoKeys: then the server could
	// not decide, and a response must not call the credential invalid.
	Step(now time.Time, message []byte) (reply []byte, done bool, err error)
	// Identity returns the authenticated client. It is valid after Step has reported done. Before,
	// its Name is the one that the client has sent, or "".
	Identity() Identity
}

// Identity is the result of an authentication.
type Identity struct {
	Name string // name of the principal, without its type
	// Expires is the time at which the credential expires; the zero time: it does not expire.
	Expires time.Time
	// Credential identifies the verifier of the client's password (CredentialID). The session must
	// end when the user no longer has such a verifier. It is "" for other mechanisms, and must not
	// be logged.
	Credential string
}

// Options configure conversations. They are immutable.
type Options struct {
	// Verifiers returns the SCRAM verifiers of a user for a mechanism; none: the user is unknown.
	Verifiers func(mechanism, user string) []Verifier
	// UnknownKey is the secret of the cluster from which the salts of unknown users are derived.
	UnknownKey []byte
	// Tokens verify the tokens of mechanism OAUTHBEARER; nil: it is not offered.
	Tokens TokenVerifier
}

// New begins a conversation. The error wraps ErrMechanism if the mechanism is not supported.
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

// Failure is the error of a failed authentication. Only the fixed text of ClientMessage may be sent
// to the client, or Answer.
type Failure struct {
	Mechanism string
	// User is the name that the client has sent, for the log; it may be any text.
	User string
	// Known is true if there is a user of this name. The client must not find out.
	Known bool
	// Reason is why the authentication failed, for the log.
	Reason string
	// Answer is the fixed text for the client if it is not that of ClientMessage.
	Answer string
	// Hint is what the client's owner can do; "": nothing is known.
	Hint string
}

// Error returns the reason. It contains no text of the client.
func (f *Failure) Error() string { return "authenticate by " + f.Mechanism + ": " + f.Reason }

// ClientMessage returns the text that the client receives for every failure of a mechanism. It is
// the text of Kafka for a wrong password.
func ClientMessage(mechanism string) string {
	return "Authentication failed during authentication due to invalid credentials with SASL " +
		"mechanism " + mechanism
}
