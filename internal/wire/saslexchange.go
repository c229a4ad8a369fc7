package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"

	"heartwood.dev/heartwood/internal/sasl"
)

// The API keys of the requests that a client may send before it has authenticated.
const (
	keySaslHandshake    = 17
	keyAPIVersions      = 18
	keySaslAuthenticate = 36
)

// The error codes of SaslHandshake and SaslAuthenticate.
const (
	codeUnsupportedMechanism = 33
	codeIllegalState         = 34
	codeAuthenticationFailed = 58
)

// authenticationError is the error for a failed authentication. It closes the connection.
type authenticationError struct {
	mechanism string
	user      string // user name that the client has sent
	known     bool   // true if the user exists
	blocked   bool   // true if the user was refused after too many failures
	reason    string
	hint      string
	answer    string // text for the client; "": sasl.ClientMessage
}

func (e *authenticationError) Error() string { return e.reason }

// saslExchange is one SASL authentication: SaslHandshake, followed by the mechanism's messages. The
// goroutine that reads requests uses it.
type saslExchange struct {
	security *Security
	previous *Session // session to re-authenticate; nil: this is the first authentication
	// blocked reports whether a user has failed too often; nil: no user is blocked.
	blocked      func(user string) bool
	mechanism    string // "" before the handshake
	conversation sasl.Conversation
	// bare is set after a SaslHandshake of version 0. Each following frame is a message of the
	// mechanism, without a request header.
	bare bool
}

// answered is the reply to one request in an exchange.
type answered struct {
	body     []byte
	flexible bool
	session  *Session // session of the authenticated client; nil: not authenticated yet
	err      error    // reason for closing the connection after body has been sent
}

// handshake handles SaslHandshake, versions 0 and 1.
func (x *saslExchange) handshake(version int16, body []byte) answered {
	r := kbin.Reader{Src: body}
	mechanism := r.String()
	if !r.Ok() || version < 0 || version > 1 {
		return answered{err: &rejectedError{rejectHeader,
			fmt.Sprintf("malformed SaslHandshake request of version %d", version)}}
	}
	if x.mechanism != "" {
		return answered{body: x.handshakeBody(codeIllegalState),
			err: x.fail("second SaslHandshake request")}
	}
	if !slices.Contains(x.security.Mechanisms, mechanism) {
		return answered{body: x.handshakeBody(codeUnsupportedMechanism), err: x.fail(fmt.Sprintf(
			"mechanism %.32q is not enabled on the listener", mechanism))}
	}
	if x.previous != nil && x.previous.Mechanism != mechanism {
		return answered{body: x.handshakeBody(codeUnsupportedMechanism),
			err: x.fail("re-authentication by another mechanism")}
	}
	conversation, err := sasl.New(mechanism, x.security.SASL())
	if err != nil {
		return answered{body: x.handshakeBody(codeUnsupportedMechanism), err: x.fail(err.Error())}
	}
	x.mechanism, x.conversation, x.bare = mechanism, conversation, version == 0
	return answered{body: x.handshakeBody(0)}
}

func (x *saslExchange) handshakeBody(code int16) []byte {
	body := kbin.AppendInt16(nil, code)
	body = kbin.AppendArrayLen(body, len(x.security.Mechanisms))
	for _, mechanism := range x.security.Mechanisms {
		body = kbin.AppendString(body, mechanism)
	}
	return body
}

// authenticate handles SaslAuthenticate, versions 0 to 2.
//
//	1  lifetime of the session (KIP-368)
//	2  flexible
func (x *saslExchange) authenticate(now time.Time, version int16, body []byte) answered {
	r := kbin.Reader{Src: body}
	var message []byte
	if version >= 2 {
		message = r.CompactBytes()
		SkipTags(&r)
	} else {
		message = r.Bytes()
	}
	if !r.Ok() || version < 0 || version > 2 {
		return answered{err: &rejectedError{rejectHeader,
			fmt.Sprintf("malformed SaslAuthenticate request of version %d", version)}}
	}
	if x.conversation == nil {
		return answered{
			body: authenticateBody(version, codeIllegalState,
				"SaslHandshake request must come first", nil, 0),
			flexible: version >= 2, err: x.fail("SaslAuthenticate request without SaslHandshake"),
		}
	}
	reply, session, err := x.step(now, message)
	if errors.As(err, new(*rejectedError)) {
		return answered{err: err}
	}
	if err != nil {
		return answered{
			body:     authenticateBody(version, codeAuthenticationFailed, x.answer(err), nil, 0),
			flexible: version >= 2, err: err,
		}
	}
	var lifetime time.Duration
	if session != nil && !session.Expires.IsZero() {
		lifetime = max(0, session.Expires.Sub(now))
	}
	return answered{body: authenticateBody(version, 0, "", reply, lifetime),
		flexible: version >= 2, session: session}
}

func authenticateBody(version, code int16, text string, message []byte,
	lifetime time.Duration) []byte {
	var textPointer *string
	if text != "" {
		textPointer = &text
	}
	body := kbin.AppendInt16(nil, code)
	if version >= 2 {
		body = kbin.AppendCompactNullableString(body, textPointer)
		body = kbin.AppendCompactBytes(body, message)
	} else {
		body = kbin.AppendNullableString(body, textPointer)
		body = kbin.AppendBytes(body, message)
	}
	if version >= 1 {
		body = kbin.AppendInt64(body, lifetime.Milliseconds())
	}
	if version >= 2 {
		body = append(body, 0)
	}
	return body
}

// step passes a message to the conversation. It returns the session when the client is
// authenticated.
func (x *saslExchange) step(now time.Time, message []byte) (reply []byte, session *Session,
	err error) {
	reply, done, err := x.conversation.Step(now, message)
	if errors.Is(err, sasl.ErrNoKeys) {
		// Close the connection, because clients treat an error response as final, but reconnect after a
		// disconnection.
		return nil, nil, &rejectedError{rejectNoKeys, "a token cannot be verified yet: " + err.Error()}
	}
	if name := x.conversation.Identity().Name; x.isBlocked(name) {
		failed := x.fail("too many failures of the user from this address")
		failed.user, failed.blocked = name, true
		return nil, nil, failed
	}
	if err != nil {
		return nil, nil, x.failure(err)
	}
	if !done {
		return reply, nil, nil
	}
	session = x.sessionOf(now, x.conversation.Identity())
	if x.previous != nil && x.previous.Principal != session.Principal {
		failed := x.fail("re-authentication as another principal")
		failed.user = session.Principal.Name
		return nil, nil, failed
	}
	x.conversation, x.mechanism = nil, ""
	return reply, session, nil
}

// isBlocked reports whether the user is blocked, so that even the correct password is refused.
// Re-authentications are never blocked, because the failures are those of other clients. Tokens are
// never blocked, because they cannot be guessed.
func (x *saslExchange) isBlocked(user string) bool {
	return x.blocked != nil && x.mechanism != sasl.OAuthBearer && x.previous == nil && user != "" && x.blocked(user)
}

// sessionOf returns the session of an authenticated client. It computes Expires from now and not
// from the wall clock in the credential, so that Expires has a monotonic reading.
func (x *saslExchange) sessionOf(now time.Time, identity sasl.Identity) *Session {
	session := &Session{Principal: Principal{Type: "User", Name: identity.Name},
		Mechanism: x.mechanism, Credential: identity.Credential, begun: now}
	if x.security.ReauthMax > 0 {
		session.Expires = now.Add(x.security.ReauthMax)
	}
	if !identity.Expires.IsZero() {
		expires := now.Add(max(0, identity.Expires.Sub(now.Round(0))))
		if session.Expires.IsZero() || expires.Before(session.Expires) {
			session.Expires = expires
		}
	}
	return session
}

// answer returns the text for a client whose authentication failed.
func (x *saslExchange) answer(err error) string {
	var failed *authenticationError
	if errors.As(err, &failed) && failed.answer != "" {
		return failed.answer
	}
	return sasl.ClientMessage(x.mechanism)
}

func (x *saslExchange) fail(reason string) *authenticationError {
	return &authenticationError{mechanism: x.mechanism, reason: reason}
}

// failure converts an error of package sasl to an authenticationError.
func (x *saslExchange) failure(err error) *authenticationError {
	failed := x.fail(err.Error())
	var f *sasl.Failure
	if errors.As(err, &f) {
		failed.user, failed.known, failed.reason, failed.hint = f.User, f.Known, f.Reason, f.Hint
		failed.answer = f.Answer
	}
	return failed
}
